# SPDX-License-Identifier: MIT
"""Parts of all three modules: memory as addresses, which the program frees itself."""
from __future__ import annotations

import ctypes
import sys
from typing import Any

import shmem

from .. import _array, _job, _memory
from .. import _library as c
from .._array import line
from .._library import lib

_shifted: dict[int, int] = {} # by an aligned address: the address that the heap gave
_registered: dict[int, int] = {} # handles, by address


def _forget() -> None:
    _shifted.clear()
    _registered.clear()


_job.at_finalize.append(_forget)


def malloc(fn: str, nbytes: int, alignment: int = 0) -> int:
    """Memory of the device heap, if this PE has one. All PEs call."""
    _job._ready(fn)
    if nbytes < 0 or alignment < 0 or alignment & alignment - 1:
        raise shmem.Error(line(fn, f"size = {nbytes}, alignment = {alignment}: expected a size, "
                               "and a power of two"))
    heap = c.SHMEMX_MALLOC_DEVICE if _memory._has_device else c.SHMEMX_MALLOC_HOST
    more = alignment if alignment > 64 else 0
    at = lib.shmem_malloc_with_hints(max(nbytes, 1) + more, heap)
    if not at:
        raise shmem.Error(line(fn, f"no room for {nbytes} bytes on the symmetric heap "
                               "(SHMEM_DEVICE_SIZE, SHMEM_SYMMETRIC_SIZE)"))
    _memory.taken(at, nbytes + more)
    if more:
        _shifted[-(-at // alignment) * alignment] = at
        at = -(-at // alignment) * alignment
    return at


def free(fn: str, at: int) -> None:
    """All PEs call."""
    _job._ready(fn)
    if at and not lib.shmem_addr_accessible(at, _job.me):
        raise shmem.Error(line(fn, f"ptr = {at:#x}: not on the symmetric heap, or freed"))
    _memory._wait_for_gpu()
    lib.shmem_free(_shifted.pop(at, at))


def register(fn: str, at: int, nbytes: int) -> None:
    """Makes memory of the program symmetric. All PEs call."""
    _job._ready(fn)
    if nbytes < 1 or not at:
        raise shmem.Error(line(fn, f"ptr = {at:#x}, size = {nbytes}: no memory"))
    if at in _registered:
        raise shmem.Error(line(fn, f"ptr = {at:#x}: registered already"))
    handle = ctypes.c_uint64()
    lib.shmemx_buffer_register(at, nbytes, ctypes.byref(handle))
    _registered[at] = handle.value


def unregister(fn: str, at: int) -> None:
    _job._ready(fn)
    if at not in _registered:
        raise shmem.Error(line(fn, f"ptr = {at:#x}: has not been registered"))
    lib.shmemx_buffer_unregister(_registered.pop(at))


def stream_of(stream: Any) -> int | None:
    """The handle of an int, an object of PyTorch or CuPy, or an object with `__cuda_stream__`. None
    without a GPU: the host does the call at once; with a GPU, None is PyTorch's current stream."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return _array.stream_of(stream, c.platform() != "cpu" and _memory._has_device)


def put_or_get(fn: str, what: str, dest: tuple[int, int], source: tuple[int, int], pe: int,
               stream: Any) -> None:
    """Copies as many bytes as the shorter of both has. dest and source: address, bytes."""
    _memory.check_pe(pe, fn)
    nbytes = min(dest[1], source[1])
    remote, arg = (dest, "dest") if what == "put" else (source, "source")
    _memory.check(remote[0], nbytes, fn, arg)
    on = stream_of(stream)
    if on is None:
        getattr(lib, f"shmem_{what}mem")(dest[0], source[0], nbytes, pe)
    else:
        getattr(lib, f"shmemx_{what}mem_on_stream")(dest[0], source[0], nbytes, pe, on)


def pointer(fn: str, at: int, pe: int) -> int:
    """The address here of the object on PE `pe`; 0 if that PE's memory is not mapped."""
    _memory.check_pe(pe, fn)
    _memory.check(at, 1, fn, "ptr")
    return lib.shmem_ptr(at, pe) or 0


def tensor(at: int, shape: Any, dtype: Any, keeps: Any = None) -> Any:
    """Memory of the heap of `malloc` as a tensor."""
    import torch

    on = f"cuda:{torch.cuda.current_device()}" if c.platform() != "cpu" and _memory._has_device \
        else "cpu"
    return _memory.view(at, tuple(shape), dtype, on, torch, keeps)


def job_of_group(group: Any) -> int:
    """Init by a group of torch.distributed. Returns 0, as a status."""
    shmem.init(group)
    return 0


def synchronize() -> None:
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.synchronize()
