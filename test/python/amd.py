#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""amd.py OSHRUN N PACKAGE ARCH HIP: kernels of shmem.triton, compiled for ARCH by Triton's own back
end for AMD, with the library's bitcode where they call it, are loaded by the module calls of HIP's
library and run on N PEs. If TRACER is the path of libshmem_trace, all kernels record their calls,
and the trace must have them."""
import ctypes
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

from run import python_with

WORDS, BLOCK, LAPS = 1021, 1024, 4
TRACER = os.environ.get("TRACER")


def kernels():
    """name: a kernel, the types of its arguments, whether it calls the bitcode."""
    import triton
    import triton.language as tl

    import shmem.triton as st

    @triton.jit
    def neighbours(x, y, n, me, to, bases, BLOCK: tl.constexpr):
        # y here becomes x of the neighbour; the second half of its y this PE's x.
        i = tl.arange(0, BLOCK)
        there = st.load(x + i, me, to, bases, mask=i < n, other=0)
        tl.store(y + i, there, mask=i < n)
        st.store(y + n + i, tl.load(x + i, mask=i < n, other=0) + 1, me, to, bases, mask=i < n)
        st.put(x + i, y + 2 * n + i, me, to, bases, mask=i < n)
        st.get(x + i, y + 3 * n + i, me, to, bases, mask=i < n)

    @triton.jit
    def counts(x, me, to, bases, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        st.atomic_add(x + i % 8, 1, me, to, bases)
        st.atomic_max(x + 8 + i % 8, me + i, me, to, bases)
        st.atomic_xchg(x + 16 + i, i, me, to, bases)
        none = tl.full([], 0, tl.int64)
        st.atomic_cas(x + 16 + BLOCK, none, (me + 1).to(tl.int64), me, to, bases)

    @st.jit
    def exchange(x, y, n, signal, value, to):
        st.put_signal(y, x, n, signal, value, to)
        st.signal_wait_until(signal, "ge", value)

    @st.jit
    def meets(x, y, n, me, to, bases, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        value = tl.load(x + i, mask=i < n, other=0)
        st.store(y + i, value, me, to, bases, mask=i < n)
        st.barrier()
        tl.store(y + n + i, tl.load(y + i, mask=i < n, other=0) + 1, mask=i < n)
        st.barrier()

    @triton.jit
    def flags(x, y, n, flag, value, me, to, bases, BLOCK: tl.constexpr):
        # The threads of four waves store, the last one late, and one of the first raises the flag.
        i = tl.arange(0, BLOCK)
        mine = tl.load(x + i, mask=i < n, other=0)
        for _ in range(200):
            mine += tl.load(x + BLOCK + i, mask=i % 256 >= 192, other=0, volatile=True)
        st.store(y + i, mine, me, to, bases, mask=i < n)
        st.atomic_xchg(flag, value.to(tl.int64), me, to, bases, sem="release")
        while tl.atomic_add(flag, 0, sem="acquire", scope="sys") < value:
            pass
        tl.store(y + n + i, tl.load(y + i, mask=i < n, other=0) + 1, mask=i < n)

    i64, i32 = "*i64", "i32"
    return {
        "neighbours": (neighbours, dict(x=i64, y=i64, n=i32, me=i32, to=i32, bases=i64), False),
        "counts": (counts, dict(x=i64, me=i32, to=i32, bases=i64), False),
        "flags": (flags, dict(x=i64, y=i64, n=i32, flag=i64, value=i32, me=i32, to=i32, bases=i64),
                  False),
        "exchange": (exchange, dict(x=i64, y=i64, n=i32, signal=i64, value=i32, to=i32), True),
        "meets": (meets, dict(x=i64, y=i64, n=i32, me=i32, to=i32, bases=i64), True)}


def compiled(arch, bitcode):
    """name.letters.LDS: the code object; the arguments by the letters of the module struct."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    found = {}
    for name, (kernel, types, calls) in kernels().items():
        constants = {"BLOCK": BLOCK} if "BLOCK" in kernel.arg_names else {}
        made = triton.compile(ASTSource(fn=kernel, signature={**types, **dict.fromkeys(
            constants, "constexpr")}, constexprs={(kernel.arg_names.index(k),): v
                                                  for k, v in constants.items()}),
                              target=GPUTarget("hip", arch, 64),
                              options={"num_warps": 4,
                                       **({"extern_libs": {"shmem": bitcode}}
                                          if calls or TRACER else {})})
        text = made.asm["amdgcn"]
        assert f'amdgcn-amd-amdhsa--{arch}' in text and made.asm["hsaco"][:4] == b"\x7fELF"
        assert "s_swappc" not in text, f"{name}: a call" # of the bitcode: all is inlined
        letters = "".join("P" if t[0] == "*" else "i" for t in types.values())
        found[f"{name}.{letters}.{made.metadata.shared}"] = made.asm["hsaco"]
    return found


class Gpu:
    """HIP's module calls."""

    def __init__(self, path):
        self.hip = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def call(self, name, *arguments):
        error = getattr(self.hip, name)(*arguments)
        assert error == 0, f"{name}: error {error}"

    def load(self, code, name):
        if self.hip._name.endswith("libamdhip64.so.5"):
            # HIP 5 knows objects of version 4. The fifth's differ in arguments that the compiler
            # adds, and Triton's kernels have none of these.
            code = code[:8] + b"\x02" + code[9:]
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("hipModuleLoadData", ctypes.byref(module), code)
        self.call("hipModuleGetFunction", ctypes.byref(function), module, name.encode())
        return module, function

    def launch(self, function, letters, lds, *values):
        # Behind the kernel's own arguments Triton has two pointers to scratch memory.
        packed = struct.pack(letters + "0P" + "PP", *values, 0, 0)
        size, held = ctypes.c_size_t(len(packed)), ctypes.create_string_buffer(packed, len(packed))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(held), 2, ctypes.addressof(size), 3)
        self.call("hipModuleLaunchKernel", function, 1, 1, 1, 256, 1, 1, lds, None, None,
                  extra)

    def settle(self):
        self.call("hipDeviceSynchronize")

    def store(self, address, numbers):
        words = (ctypes.c_int64 * len(numbers))(*numbers)
        self.call("hipMemcpy", ctypes.c_void_p(address), words, ctypes.c_size_t(8 * len(words)), 1)

    def read(self, address, n):
        words = (ctypes.c_int64 * n)()
        self.call("hipMemcpy", words, ctypes.c_void_p(address), ctypes.c_size_t(8 * n), 2)
        return list(words)


def work(path, files):
    gpu = Gpu(path)
    import shmem
    from shmem._library import SHMEMX_MALLOC_DEVICE, lib

    if TRACER: # as shmem.triton does
        ctypes.CDLL(None).shmem_traced_begin()
    shmem.init()
    me, n = shmem.my_pe(), shmem.n_pes()
    to, left = (me + 1) % n, (me - 1) % n

    def memory(words):
        return lib.shmem_malloc_with_hints(8 * words, SHMEMX_MALLOC_DEVICE)

    x, y, bases = memory(2 * BLOCK), memory(4 * WORDS), memory(n)
    signal, flag = memory(1), memory(1)
    gpu.store(bases, [lib.shmem_ptr(x, pe) for pe in range(n)])
    gpu.store(signal, [0])
    gpu.store(flag, [0])
    loaded = {}
    for name, (file, letters, lds) in files.items():
        with open(file, "rb") as code:
            module, function = gpu.load(code.read(), name)
        if name in ("exchange", "meets") or TRACER:
            lib.shmemx_module_init(module)
        loaded[name] = function, letters, lds

    def run(name, *values):
        gpu.launch(*loaded[name], *values)

    def numbers(pe, lap):
        return [lap * 1000000 + pe * 10000 + i for i in range(WORDS)]

    for lap in range(1, LAPS):
        gpu.store(x, numbers(me, lap))
        gpu.store(y, [-1] * (4 * WORDS))
        shmem.barrier()
        run("neighbours", x, y, WORDS, me, to, bases)
        gpu.settle()
        shmem.barrier()
        got, mine = gpu.read(y, 4 * WORDS), numbers(left, lap)
        assert got[:WORDS] == numbers(to, lap), "load"
        assert got[WORDS:2 * WORDS] == [v + 1 for v in mine], "store"
        assert got[2 * WORDS:3 * WORDS] == mine, "put"
        assert got[3 * WORDS:] == numbers(to, lap), "get"
        gpu.store(x, [0] * (BLOCK + 17))
        shmem.barrier()
        for _ in range(2): # one after the other, without a barrier
            run("counts", x, me, to, bases)
        gpu.settle()
        shmem.barrier()
        got = gpu.read(x, BLOCK + 17)
        assert got[:8] == [2 * BLOCK // 8] * 8, "atomic_add"
        assert got[8:16] == [left + BLOCK - 8 + i for i in range(8)], "atomic_max"
        assert got[16:-1] == list(range(BLOCK)) and got[-1] == left + 1, "atomic_xchg, cas"
        gpu.store(x, numbers(me, lap))
        gpu.store(y, [-1] * (2 * WORDS))
        shmem.barrier()
        run("exchange", x, y, WORDS, signal, lap, to)
        gpu.settle()
        assert gpu.read(y, WORDS) == numbers(left, lap), "put_signal"
        gpu.store(x + 8 * BLOCK, [0] * BLOCK)
        gpu.store(y, [-1] * (2 * WORDS))
        shmem.barrier()
        run("flags", x, y, WORDS, flag, lap, me, to, bases)
        gpu.settle()
        assert gpu.read(y + 8 * WORDS, WORDS) == [v + 1 for v in numbers(left, lap)], "flag"
        shmem.barrier()
        run("meets", x, y, WORDS, me, to, bases)
        gpu.settle()
        assert gpu.read(y + 8 * WORDS, WORDS) == [v + 1 for v in numbers(left, lap)], "barrier"
        shmem.barrier()
    print(f"PE {me}: as on a GPU", flush=True)
    shmem.finalize()


def check_trace(path, n):
    """Each PE's calls of kernels, with the bytes, in the order of their numbers."""
    every = [e for e in json.loads(Path(path).read_text()) if e.get("cat") == "kernel"]
    part, whole = 8 * WORDS, 8 * BLOCK
    for me in range(n):
        got = [(e["name"], e["args"].get("bytes", 0), e["args"].get("pe"), e["args"]["block"])
               for e in sorted(every, key=lambda e: e["ts"]) if e["pid"] == me]
        to = (me + 1) % n
        lap = [(name, moved, to if moved else None, 0) for name, moved in (
            *(("triton." + name, part) for name in ("load", "store", "put", "get")),
            *[("triton.atomic_add", whole), ("triton.atomic_max", whole),
              ("triton.atomic_xchg", whole), ("triton.atomic_cas", 8)] * 2,
            ("shmemx_putmem_signal_wg", part), ("shmem_signal_wait_until", 0),
            ("triton.store", part), ("triton.atomic_xchg", 8), ("triton.store", part),
            *[("shmem_quiet", 0), ("shmemx_barrier_all_wg", 0)] * 2)]
        assert got == lap * (LAPS - 1), (me, got)


def main():
    if sys.argv[1] == "work":
        path, folder = sys.argv[2:]
        files = {}
        for name in sorted(os.listdir(folder)):
            stem, letters, lds, _ = name.split(".")
            files[stem] = os.path.join(folder, name), letters, int(lds)
        work(path, files)
        return
    oshrun, n, package, arch, hip = sys.argv[1:]
    python = python_with("triton")
    # Not realpath: a virtual environment has a link to the same file.
    if os.path.abspath(sys.executable) != os.path.abspath(python):
        os.execv(python, [python, *sys.argv])
    sys.path.insert(0, package)
    if TRACER: # as in a traced process
        ctypes.CDLL(TRACER, mode=ctypes.RTLD_GLOBAL)
    from tempfile import TemporaryDirectory

    from shmem.triton import bitcode

    with TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "cache")
        os.mkdir(os.path.join(folder, "code"))
        for name, code in compiled(arch, bitcode("hip", arch)).items():
            with open(os.path.join(folder, "code", f"{name}.co"), "wb") as file:
                file.write(code)
        trace = os.path.join(folder, "trace.json")
        done = subprocess.run(
            [oshrun, "-n", n, python, __file__, "work", hip, os.path.join(folder, "code")],
            env={**os.environ, "PYTHONPATH": package, **({"SHMEM_TRACE": trace} if TRACER else {})},
            capture_output=True, text=True)
        if done.returncode or done.stdout.count("as on a GPU") != int(n):
            print(done.stdout, done.stderr, sep="\n")
            sys.exit(1)
        if TRACER:
            check_trace(trace, int(n))


if __name__ == "__main__":
    main()
