#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compile_kernels.py ARCH [libshmem_device_ARCH.bc]: compiles the kernels of the tests and of the
examples for a GPU that need not be there. Those that call the bitcode are linked with it: with the
file that is named, with the one beside the library, or else not compiled."""
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import shmem
import shmem.triton as st
import triton
import triton.language as tl
from shmem.iris import TraceEvent
from shmem.triton import _jit
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

HERE = Path(__file__).resolve().parent


@triton.jit
def half_kernel(x, y, size, me, pe, bases, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < size
    st.store(y + at, st.load(x + at, me, pe, bases, mask=mask), me, pe, bases, mask=mask)


@triton.jit
def traced_kernel(context, x, rank: tl.constexpr, world: tl.constexpr):
    ctx = st.DeviceContext.initialize(context, rank, world, tracing=True)
    at = tl.arange(0, 64)
    handle = ctx.tracing.record_event_start(TraceEvent().put, 1, x + at, 1, 2, at < 10)
    ctx.store(x + at, 5.0, 1, mask=at < 10)
    ctx.tracing.record_event_end(handle)


@gluon.jit
def gluon_kernel(context, x, flag, size, Context: gl.constexpr, block: gl.constexpr,
                 wave: gl.constexpr):
    ctx = Context.initialize(context)
    layout: gl.constexpr = gl.BlockedLayout([1], [wave], [4], [0])
    at = gl.program_id(0) * block + gl.arange(0, block, layout=layout)
    ctx.store(x + at, ctx.load(x + at, 1, mask=at < size), 1, mask=at < size)
    ctx.put(x + at, x + at, 1, mask=at < size)
    ctx.copy(x + at, x + at, 0, 1, mask=at < size)
    ctx.atomic_add(x, 1.0, 1)
    ctx.atomic_cas(flag, 0, 1, 1, sem="release", scope="sys")
    st.store(x + at, 1.0, ctx.rank, 1, ctx.heap_bases)


@st.gluon_jit
def gluon_signal_kernel(x, signal, size, pe):
    st.put_signal(x, x, size, signal, 1, pe)
    st.signal_wait_until(signal, "ge", 1)
    st.barrier()


# The types of arguments, by their names; constants are those of tl.constexpr.
POINTERS = {"i64": "context bases heap_bases signal old counter".split(),
            "i32": ["flag", "data"]}
VALUES = {"block": 256, "rank": 0, "world": 2, "rows": 64, "dim": 32, "hidden": 32, "tile": 32,
          "size": 256, "wave": 64, "Context": st.GluonContext}
NUMBERS = ("size n part me pe pes lap rows columns target value").split()


def arguments(fn):
    signature, constants = {}, {}
    for parameter in fn.params:
        name = parameter.name
        if parameter.is_constexpr:
            signature[name], constants[name] = "constexpr", VALUES[name]
        elif name == "scale":
            signature[name] = "fp32"
        elif name in NUMBERS:
            signature[name] = "i32"
        else:
            kind = next((k for k, names in POINTERS.items() if name in names), "fp32")
            signature[name] = "*" + kind
    return signature, constants


def kernels():
    """Of this file, test_triton.py and the examples: those that nothing else calls."""
    import importlib.util

    for path in (HERE / "test_triton.py", *sorted((HERE.parents[1] / "examples/python").glob(
            "*_triton.py")), Path(__file__)):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, fn in vars(module).items():
            if isinstance(fn, triton.JITFunction) and fn.fn.__module__ == path.stem:
                yield f"{path.stem}.{name}", fn


def compiled(fn, target, bitcode):
    signature, constants = arguments(fn)
    if fn.fn.__name__ == "half_kernel":
        signature.update(x="*fp16", y="*fp16")
        constants["block"] = 2048
    if fn.fn.__name__ in ("atomics_kernel", "every_third_kernel", "context_kernel"):
        signature.update({name: "*i64" for name in ("x", "y", "old") if name in signature})
    constants = {k: target.warp_size if k == "wave" else v for k, v in constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values())
               if kind.startswith("*") or kind == "i32"}
    kind = GluonASTSource if fn.is_gluon() else ASTSource
    options = {"num_warps": 4}
    if isinstance(fn, _jit.Linked):
        options["extern_libs"] = {"shmem": bitcode}
    return triton.compile(kind(fn=fn, signature=signature, constexprs=constants, attrs=aligned),
                          target=target, options=options)


def main():
    arch, *rest = sys.argv[1:]
    amd = arch.startswith("gfx")
    if amd and "amd" not in triton.backends.backends:
        print("this Triton has no back end for AMD")
        return 77
    target = GPUTarget("hip", arch, 64) if amd else GPUTarget("cuda", int(arch[3:]), 32)
    try:
        bitcode = rest[0] if rest else st.bitcode(target.backend, target.arch)
    except shmem.Error:
        bitcode = None
    done, shown = 0, []
    _jit.lib = SimpleNamespace(shmemx_module_init=shown.append)
    for name, fn in kernels():
        if name.endswith("wrong_word_kernel") or isinstance(fn, _jit.Linked) and not bitcode:
            continue
        kernel = compiled(fn, target, bitcode)
        done += 1
        text = kernel.asm["amdgcn" if amd else "ptx"]
        if fn.fn.__name__ == "half_kernel": # 16 bytes at a time
            for wide in ("load", "store") if amd else ("ld", "st"):
                wide = f"global_{wide}_dwordx4" if amd else f"{wide}.global.v4.b32"
                assert wide in text, f"{name}: no {wide}"
        if fn.fn.__name__ == "pass_on_kernel": # a flag after the data of all threads
            store, wait, flag = (r"global_store.*", r"s_waitcnt vmcnt\(0\).*s_barrier.*",
                                 r"global_atomic_swap") if amd else (
                r"st\.global.*", r"bar\.sync.*", r"atom\S*release")
            assert re.search(store + wait + flag, text, re.S), "stores may come after the flag"
        for hook in triton.knobs.runtime.kernel_load_end_hook.calls: # as when Triton loads it
            hook(done, None, name, kernel.metadata_group, kernel.hash)
        assert (done in shown) == isinstance(fn, _jit.Linked), f"{name}: does it see the job"
    print(f"{done} kernels for {arch}{'' if bitcode else ', none with the bitcode'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
