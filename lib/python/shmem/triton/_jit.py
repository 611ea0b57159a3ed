# SPDX-License-Identifier: MIT
"""How a kernel is linked with the library's bitcode and loaded, or runs in Triton's interpreter."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.language import core
from triton.runtime.jit import JITFunction

from .. import _job
from .._library import Error, lib

INTERPRET = knobs.runtime.interpret
tracer = ctypes.CDLL(None) # has libshmem_trace if oshrun started the process for a trace
TRACED = hasattr(tracer, "shmem_traced_call")

if INTERPRET:
    from triton.runtime import interpreter

    _patch = interpreter._patch_lang_tensor

    def _with_numbers(tensor, scope):
        # For range(n): Triton 3.6 calls int() on an array with one dimension, which NumPy 2.4
        # refuses.
        _patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = _with_numbers


def in_kernel(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that kernels call. The function's Python runs while a kernel is compiled."""
    if not INTERPRET:
        return core.builtin(fn)
    return lambda *args, **options: fn(*args, **options,
                                       _semantic=interpreter.interpreter_semantic)


@cache
def bitcode(backend: str, arch: str | int) -> str:
    """The path of libshmem_device_ARCH.bc, beside the library."""
    name = f"libshmem_device_{arch if backend == 'hip' else f'sm_{arch}'}.bc"
    path = Path(lib.path()).resolve().parent / name
    if not path.exists():
        raise Error(f"shmem.triton.jit: {path}: no such file: the library is not built for this "
                    "GPU, or no clang 19 was there to make the file")
    return str(path)


def _is_linked(binary: bytes) -> bool:
    """Whether a module has the state of the bitcode, which `shmemx_module_init` sets."""
    return b"shmemx_module_state" in binary or b"shmemx_one_node_state" in binary


def _loaded(module: int, _function: Any, _name: str, files: dict[str, str], _hash: str) -> None:
    """Triton calls this for each kernel that it loads. A module that is linked with the bitcode
    must know the job before its first launch."""
    binary = next(Path(p) for n, p in files.items() if n.endswith((".hsaco", ".cubin")))
    if _is_linked(binary.read_bytes()):
        lib.shmemx_module_init(module)
        _modules.append(module)


_modules: list[int] = [] # of all kernels, because Triton unloads none


def _show_job() -> None:
    """Tells all loaded kernels the job: the process may have begun a second one."""
    for module in _modules:
        lib.shmemx_module_init(module)


_job.at_init.append(_show_job)


class Linked:
    """A kernel that is linked with the bitcode."""
    _libs: dict[str, Any] | None = None # found at the first launch
    _linked = ""

    def run(self, *args, grid, warmup, **options):
        if self._libs is None:
            target = triton.runtime.driver.active.get_current_target()
            path = bitcode(target.backend, target.arch)
            self._libs = {"extern_libs": {"shmem": path}}
            self._linked = f"{path}@{Path(path).stat().st_mtime_ns}"
        return super().run(*args, grid=grid, warmup=warmup, **{**self._libs, **options})

    @property
    def cache_key(self) -> str:
        # Triton's cache for AMD knows libraries by their paths only (3.6). A kernel that was linked
        # with the bitcode of another version of the library would end the job. A kernel that
        # records is not the kernel that does not.
        return super().cache_key + self._linked + ("+traced" if TRACED else "")


class _Kernel(Linked, JITFunction):
    pass


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`triton.jit` for kernels that call the bitcode; takes the options of triton.jit."""
    if fn is None:
        return lambda fn: jit(fn, **options)
    return triton.jit(fn, **options) if INTERPRET else _Kernel(fn, **options)


def gluon_jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`gluon.jit` for kernels that call the bitcode. (Triton's interpreter does not run Gluon.)"""
    if fn is None:
        return lambda fn: gluon_jit(fn, **options)
    from triton.experimental.gluon._runtime import GluonJITFunction

    return type("_GluonKernel", (Linked, GluonJITFunction), {})(fn, **options)


if not INTERPRET:
    knobs.runtime.kernel_load_end_hook.add(_loaded)
