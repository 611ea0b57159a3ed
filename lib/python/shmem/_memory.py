# SPDX-License-Identifier: MIT
"""Symmetric memory as arrays.

Every call that makes an array is collective: all PEs call, in the same order, with the same shape
and type. An array lives as long as Python has a reference to it. When the last reference goes, this
PE only notes that. The next call that makes an array finds, together with all other PEs, the arrays
that are gone on every PE, and frees their memory. So no destructor ever waits for another PE, and
the order in which PEs drop arrays does not matter. `free` gives memory back at once."""
from __future__ import annotations

import bisect
import ctypes
import gc
import math
import os
import sys
import weakref
from typing import Any

from . import _checked, _job
from . import _library as c
from ._array import Array, array, current_stream, line, settle, typename
from ._library import Error, lib

WORDS = 64 # of 64 bits, one an array, that one reduction compares


class Block:
    """Symmetric memory of one array. The array refers to its block."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.address, self.end = address, address + nbytes


_starts: list[int] = []                 # addresses of the blocks that have not been freed, sorted
_ends: dict[int, int] = {}              # of the blocks, by start
_order: list[int] = []                  # the starts in the order in which all PEs made the blocks
_gone: set[int] = set()                 # starts of the blocks whose arrays are gone on this PE
_notes: dict[int, weakref.finalize] = {} # by start: the finalizer that adds the start to _gone
_freed: list[tuple[int, int]] = []      # ranges that were freed and not taken since
_anchor = _scratch = 0
_has_device = False
_random = [0, 0]                        # the seed, and where the next array's numbers begin


def start() -> None:
    global _anchor, _scratch, _has_device
    _anchor = lib.shmem_malloc_with_hints(64, c.SHMEMX_MALLOC_DEVICE) or 0
    _has_device = bool(_anchor)
    _scratch = lib.shmem_malloc_with_hints(2 * 8 * WORDS, c.SHMEMX_MALLOC_HOST)
    if not _anchor:
        _anchor = _scratch


def stop() -> None:
    for note in _notes.values(): # the next job has other arrays at the same addresses
        note.detach()
    _notes.clear()
    for known in _starts, _ends, _order, _gone, _freed:
        known.clear()
    _checked.forget()


# --- which memory ---------------------------------------------------------------------------------

def _wants_torch(dtype: Any, device: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    numpy = sys.modules.get("numpy")
    if numpy and dtype is not None and (isinstance(dtype, numpy.dtype) or (
            isinstance(dtype, type) and issubclass(dtype, numpy.generic))):
        return False
    return True


def _place(torch: Any, device: Any, fn: str) -> tuple[int, str]:
    """The heap, as a hint of shmem_malloc_with_hints, and PyTorch's name of its device."""
    on_gpu = c.platform() != "cpu"
    kind = "" if device is None else "cuda" if isinstance(device, int) else str(device)
    if kind.partition(":")[0] not in ("", "cuda", "cpu"):
        raise Error(line(fn, f"device = {device}: expected cuda or cpu"))
    torch = torch if torch and on_gpu and torch.cuda.is_available() else None # of the library's GPU
    if kind.startswith("cuda"):
        if not _has_device or not torch:
            raise Error(line(fn, f"device = {device}: there is no symmetric heap on a GPU"))
        mine = torch.cuda.current_device()
        asked = device if isinstance(device, int) else int(kind.partition(":")[2] or mine)
        if asked != mine:
            raise Error(line(fn, f"device = {device}: the symmetric heap is on cuda:{mine}"))
    if on_gpu and (kind == "cpu" or not torch or not _has_device):
        return c.SHMEMX_MALLOC_HOST, "cpu"
    if on_gpu:
        return c.SHMEMX_MALLOC_DEVICE, f"cuda:{torch.cuda.current_device()}"
    return (c.SHMEMX_MALLOC_DEVICE if _has_device else c.SHMEMX_MALLOC_HOST), "cpu"


# --- blocks ---------------------------------------------------------------------------------------

def _allocate(nbytes: int, heap: int, fn: str) -> Block:
    collect()
    address = lib.shmem_malloc_with_hints(max(nbytes, 1), heap)
    if not address: # so on all PEs
        gc.collect() # drops arrays that are part of a cycle
        collect()
        address = lib.shmem_malloc_with_hints(max(nbytes, 1), heap)
    if not address:
        where = "device, SHMEM_DEVICE_SIZE" if heap == c.SHMEMX_MALLOC_DEVICE else \
            "host, SHMEM_SYMMETRIC_SIZE"
        raise Error(line(fn, f"no room for {nbytes} bytes on the symmetric heap ({where})"))
    block = Block(address, nbytes)
    bisect.insort(_starts, address)
    _ends[address] = address + nbytes
    _order.append(address)
    taken(address, nbytes)
    _notes[address] = weakref.finalize(block, _gone.add, address)
    _notes[address].atexit = False
    return block


def taken(address: int, nbytes: int) -> None:
    """Notes that memory has a new owner: an array, or a caller of the C library in this
    package."""
    _freed[:] = [(a, b) for a, b in _freed if b <= address or a >= address + nbytes]


def collect() -> int:
    """Frees the memory of the arrays that are gone on all PEs, and returns the number of these
    arrays. All PEs call; every call that makes an array does so first."""
    _job._ready("collect")
    freed = []
    for first in range(0, len(_order), 64 * WORDS):
        part = _order[first:first + 64 * WORDS]
        words = (len(part) + 63) // 64
        bits = sum(1 << i for i, address in enumerate(part) if address in _gone)
        ctypes.memmove(_scratch, bits.to_bytes(8 * words, "little"), 8 * words)
        lib.shmem_uint64_and_reduce(c.SHMEM_TEAM_WORLD, _scratch + 8 * WORDS, _scratch, words)
        bits = int.from_bytes(ctypes.string_at(_scratch + 8 * WORDS, 8 * words), "little")
        freed += [address for i, address in enumerate(part) if bits >> i & 1]
    if freed:
        _wait_for_gpu() # a kernel may still use an array that Python has dropped
        for address in freed:
            _forget(address)
    return len(freed)


def _wait_for_gpu() -> None:
    torch = sys.modules.get("torch")
    if c.platform() == "cpu":
        if _has_device:
            lib.shmemx_stream_synchronize(0)
    elif torch and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _forget(address: int) -> None:
    lib.shmem_free(address)
    del _starts[bisect.bisect_left(_starts, address)]
    _order.remove(address)
    _freed.append((address, _ends.pop(address)))
    # The array may outlive its memory, which another array may get.
    _notes.pop(address).detach()
    _gone.discard(address)
    _checked.forget()


def free(x: Any) -> None:
    """Gives the memory of an array of this module back at once. All PEs call, and use neither the
    array nor a view of it afterwards."""
    at = array(x, "free", "x").address
    if at not in _ends:
        raise Error(line("free", f"x = {at:#x}: {_cause(at)}"))
    _wait_for_gpu()
    _forget(at)


def _cause(address: int) -> str:
    for a, b in _freed:
        if a <= address < b:
            return "has been freed"
    i = bisect.bisect_right(_starts, address) - 1
    if i >= 0 and address < _ends[_starts[i]]:
        return "is inside an array of shmem, not its start"
    return "is not an array of shmem"


def inside(a: Array) -> bool:
    """Whether an array is part of a block, and thus symmetric until the block is freed. Of other
    memory this package does not see the end."""
    i = bisect.bisect_right(_starts, a.address) - 1
    return i >= 0 and a.address + a.count * a.size <= _ends[_starts[i]]


def check(address: int, nbytes: int, fn: str, arg: str) -> None:
    """Makes sure that memory is symmetric."""
    i = bisect.bisect_right(_starts, address) - 1
    if i >= 0 and address + nbytes <= _ends[_starts[i]]:
        return
    if nbytes == 0:
        return
    for a, b in _freed:
        if a <= address < b:
            raise Error(line(fn, f"{arg} = {address:#x}: has been freed"))
    # The program's own memory: by shmem_malloc of another language, or a registered buffer.
    if not lib.shmem_addr_accessible(address, _job.me) or not lib.shmem_addr_accessible(
            address + nbytes - 1, _job.me):
        raise Error(line(fn, f"{arg} = {address:#x}: not symmetric: make it by shmem.empty and its "
                         "like, or register its memory"))


def check_pe(pe: Any, fn: str) -> None:
    if not isinstance(pe, int) or not 0 <= pe < _job.n:
        _job._ready(fn)
        raise Error(line(fn, f"pe = {pe!r}: expected a PE from 0 to {_job.n - 1}"))


# --- arrays of memory -----------------------------------------------------------------------------

class _Host:
    """Memory of the host as NumPy takes it."""

    def __init__(self, address: int, nbytes: int, keeps: Any) -> None:
        self.keeps = keeps
        self.__array_interface__ = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1",
                                    "version": 3}


class _Gpu:
    """Memory of a GPU as PyTorch takes it."""

    def __init__(self, address: int, nbytes: int, keeps: Any) -> None:
        self.keeps = keeps
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (nbytes,),
                                         "typestr": "|u1", "version": 3}


def view(address: int, shape: tuple[int, ...], dtype: Any, device: str, torch: Any,
         keeps: Any) -> Any:
    """An array of this memory. The array keeps the object `keeps` alive."""
    if torch is None:
        import numpy

        dtype = numpy.dtype(dtype or "float32")
        nbytes = math.prod(shape) * dtype.itemsize
        return numpy.asarray(_Host(address, nbytes, keeps)).view(dtype).reshape(shape)
    dtype = dtype or torch.get_default_dtype()
    nbytes = math.prod(shape) * typename(dtype, "view", "dtype")[1] # PyTorch 1.13 has no itemsize
    if nbytes == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    if device == "cpu":
        memory = (ctypes.c_ubyte * nbytes).from_address(address)
        memory.keeps = keeps
        flat = torch.frombuffer(memory, dtype=torch.uint8)
    else:
        flat = torch.as_tensor(_Gpu(address, nbytes, keeps), device=device)
    return flat.view(dtype).reshape(shape)


def _shape(size: tuple[Any, ...], fn: str) -> tuple[int, ...]:
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    try:
        shape = tuple(int(s) for s in size)
    except (TypeError, ValueError):
        raise Error(line(fn, f"size = {size}: expected numbers")) from None
    if any(s < 0 for s in shape):
        raise Error(line(fn, f"size = {shape}: expected numbers from 0 on"))
    return shape


def _new(fn: str, size: tuple[Any, ...], dtype: Any, device: Any) -> Any:
    _job._ready(fn)
    shape = _shape(size, fn)
    torch = sys.modules.get("torch") if _wants_torch(dtype, device) else None
    heap, where = _place(torch, device, fn)
    if torch is not None and not isinstance(dtype, torch.dtype):
        if dtype is not None:
            raise Error(line(fn, f"dtype = {dtype!r}: expected one of PyTorch's"))
        dtype = torch.get_default_dtype()
    if torch is None:
        import numpy

        try:
            dtype = numpy.dtype(dtype or "float32")
        except TypeError:
            raise Error(line(fn, f"dtype = {dtype!r}: expected one of NumPy's")) from None
    nbytes = math.prod(shape) * typename(dtype, fn, "dtype")[1]
    block = _allocate(nbytes, heap, fn)
    return view(block.address, shape, dtype, where, torch, block)


def _filled(x: Any) -> Any:
    """Called after a fill: no PE goes on before all PEs have filled their array."""
    if getattr(x, "is_cuda", False):
        settle(current_stream())
    lib.shmem_barrier_all()
    return x


def _fill(x: Any, value: Any) -> Any:
    if hasattr(x, "fill_"):
        x.fill_(value)
    else:
        x[...] = value
    return _filled(x)


def empty(*size: Any, dtype: Any = None, device: Any = None) -> Any:
    """An array of symmetric memory with any contents: the same shape and type on all PEs, which all
    call. dtype and device are PyTorch's; a tensor of PyTorch where the program has imported it and
    dtype is not NumPy's, else an array of NumPy. device None: the GPU of this PE, if it has one."""
    return _new("empty", size, dtype, device)


def zeros(*size: Any, dtype: Any = None, device: Any = None) -> Any:
    """As empty, of zeros."""
    return _fill(_new("zeros", size, dtype, device), 0)


def ones(*size: Any, dtype: Any = None, device: Any = None) -> Any:
    """As empty, of ones."""
    return _fill(_new("ones", size, dtype, device), 1)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """As empty, of one value."""
    if dtype is None and not isinstance(fill_value, float):
        torch = sys.modules.get("torch")
        if torch:
            dtype = torch.bool if isinstance(fill_value, bool) else torch.int64
        else:
            dtype = "bool" if isinstance(fill_value, bool) else "int64"
    return _fill(_new("full", (size,), dtype, device), fill_value)


def _copied(fn: str, make: Any, dtype: Any, device: Any) -> Any:
    """A symmetric copy of the array that `make` makes, by PyTorch or NumPy."""
    torch = sys.modules.get("torch") if _wants_torch(dtype, device) else None
    if torch is None:
        import numpy as torch
    return _copy(fn, make(torch), device)


def _copy(fn: str, x: Any, device: Any) -> Any:
    new = _new(fn, (tuple(x.shape),), x.dtype, device if device is not None else
               getattr(x, "device", None) if getattr(x, "is_cuda", False) else device)
    new[...] = x
    return _filled(new)


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None,
           device: Any = None) -> Any:
    """Numbers from start up to end, without end, in steps; with one argument: from 0 up to it."""
    if end is None:
        start, end = 0, start
    return _copied("arange", lambda m: m.arange(start, end, step, dtype=dtype), dtype, device)


def linspace(start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None) -> Any:
    """`steps` numbers from start to end, both included."""
    return _copied("linspace", lambda m: m.linspace(start, end, steps, dtype=dtype), dtype, device)


def as_symmetric(x: Any) -> Any:
    """x itself if is_symmetric(x) on all PEs, else a symmetric copy. All PEs call."""
    _job._ready("as_symmetric")
    typename(getattr(x, "dtype", None), "as_symmetric", "x")
    ctypes.memmove(_scratch, (ctypes.c_uint64 * 1)(is_symmetric(x)), 8)
    lib.shmem_uint64_and_reduce(c.SHMEM_TEAM_WORLD, _scratch + 8 * WORDS, _scratch, 1)
    if ctypes.c_uint64.from_address(_scratch + 8 * WORDS).value:
        return x
    return _copy("as_symmetric", x, None if getattr(x, "is_cuda", False) else "cpu")


def is_symmetric(x: Any) -> bool:
    """Whether the array lies in symmetric memory, and has no gaps between its elements."""
    _job._ready("is_symmetric")
    try:
        symmetric(x, "is_symmetric", "x")
    except Error:
        return False
    return True


def address(x: Any) -> int:
    """The address of an array."""
    return array(x, "address", "x").address


def symmetric(x: Any, fn: str, arg: str) -> Array:
    """As array(), and an Error if the memory is not symmetric."""
    a = array(x, fn, arg)
    start, nbytes = a[0], a[1] * a[3]
    i = bisect.bisect_right(_starts, start) - 1 # as inside() does, without a call
    if i < 0 or start + nbytes > _ends[_starts[i]]:
        check(start, nbytes, fn, arg)
    return a


def peer(x: Any, pe: int) -> Any:
    """The array on PE `pe`, as memory of this process: loads and stores reach that PE. An Error if
    the PE's memory is not mapped here, as on another node."""
    _job._ready("peer")
    check_pe(pe, "peer")
    a = symmetric(x, "peer", "x")
    there = lib.shmem_ptr(a.address, pe)
    if not there:
        raise Error(line("peer", f"pe = {pe}: its memory is not mapped here"))
    torch = sys.modules.get("torch")
    if torch is not None and not isinstance(x, torch.Tensor):
        torch = None
    return view(there, tuple(x.shape), x.dtype, str(x.device) if torch else "cpu", torch, x)


def heap_bases() -> Any:
    """An array of n_pes() elements of int64. Element i is an address on PE i's device heap, or 0 if
    that heap is not mapped. An address here plus bases[i] - bases[my_pe()] is the address of the
    same object on PE i."""
    _job._ready("heap_bases")
    bases = [lib.shmem_ptr(_anchor, pe) or 0 for pe in range(_job.n)]
    torch = sys.modules.get("torch")
    if torch:
        device = "cuda" if c.platform() != "cpu" and _has_device else "cpu"
        if device == "cuda" and os.environ.get("TRITON_INTERPRET") == "1":
            raise Error(line("heap_bases", "TRITON_INTERPRET=1: the interpreter runs on the host, "
                             "which does not reach a GPU's memory: unset it"))
        return torch.tensor(bases, dtype=torch.int64, device=device)
    import numpy

    return numpy.array(bases, dtype=numpy.int64)


# --- random numbers -------------------------------------------------------------------------------

def manual_seed(seed: int) -> None:
    """All PEs set the same seed: the numbers of later arrays begin anew."""
    _random[:] = [int(seed), 0]


def _numbers(fn: str, x: Any, generator: Any) -> Any:
    """Fills an array with numbers of the library's one sequence. The arrays of the PEs are parts of
    one, in the order of the PEs, and their numbers are those of that whole: they depend neither on
    the number of the PEs nor on the platform."""
    a = array(x, fn, "size")
    if not a.count:
        return x
    seed, first = _random
    if generator is not None:
        seed, first = int(generator.initial_seed()), 0
    else:
        _random[1] += a.count * _job.n
    fill = getattr(lib, f"shmemx_{a.type}_random_on_stream", None)
    if fill is None:
        raise Error(line(fn, f"dtype = {x.dtype}: no random numbers of this type"))
    if not _has_device:
        raise Error(line(fn, "random numbers are made by a GPU, and this PE has none"))
    stream = current_stream() if a.on_gpu else 0
    fill(a.address, a.count, seed, first + _job.me * a.count, stream)
    if not a.on_gpu:
        lib.shmemx_stream_synchronize(0)
    return x


def rand(*size: Any, dtype: Any = None, device: Any = None, generator: Any = None) -> Any:
    """Numbers in [0, 1). The PEs' arrays are parts of one, see manual_seed."""
    return _filled(_numbers("rand", _new("rand", size, dtype, device), generator))


def uniform(*size: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None, device: Any = None,
            generator: Any = None) -> Any:
    """Numbers in [low, high)."""
    x = _numbers("uniform", _new("uniform", size, dtype, device), generator)
    x *= high - low
    x += low
    return _filled(x)


def randn(*size: Any, dtype: Any = None, device: Any = None, generator: Any = None) -> Any:
    """Normal numbers, of mean 0 and variance 1, by Box and Muller's method from two uniform
    ones."""
    x = _new("randn", size, dtype, device)
    torch = sys.modules.get("torch") if hasattr(x, "data_ptr") else None
    made = [_numbers("randn", _new("randn", size, dtype, device), generator)]
    if generator is None:
        made.append(_numbers("randn", _new("randn", size, dtype, device), None))
    else: # the second sequence follows the first, from the same seed
        made.append(_numbers("randn", _new("randn", (2, *x.shape), dtype, device), generator)[1])
    if torch is None:
        import numpy as m

        u, v = made
    else:
        m, (u, v) = torch, (t.double() for t in made)
    x[...] = m.sqrt(-2 * m.log1p(-u)) * m.cos(2 * math.pi * v)
    return _filled(x)


def randint(low: int, high: int | None = None, size: Any = (), *, dtype: Any = None,
            device: Any = None, generator: Any = None) -> Any:
    """Integers from low up to high, without high; with one argument: from 0 up to it."""
    if high is None:
        low, high = 0, low
    if high <= low:
        raise Error(line("randint", f"low = {low}, high = {high}: no number between them"))
    if dtype is None:
        torch = sys.modules.get("torch")
        dtype = torch.int64 if torch else "int64"
    x = _numbers("randint", _new("randint", (size,), dtype, device), generator)
    x %= high - low # in PyTorch and NumPy never less than 0
    x += low
    return _filled(x)


def _like(make: Any) -> Any:
    def of(x: Any, *, dtype: Any = None, device: Any = None, **more: Any) -> Any:
        on = device if device is not None else getattr(x, "device", None)
        return make(tuple(x.shape), dtype=dtype or x.dtype,
                    device=None if str(on) == "cpu" and c.platform() == "cpu" else on, **more)

    of.__name__ = make.__name__ + "_like"
    of.__doc__ = f"As {make.__name__}, with the shape, type and device of an array."
    return of


empty_like, zeros_like, ones_like = _like(empty), _like(zeros), _like(ones)
rand_like, randn_like = _like(rand), _like(randn)


def full_like(x: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """As full, with the shape, type and device of an array."""
    return _fill(empty_like(x, dtype=dtype, device=device), fill_value)
