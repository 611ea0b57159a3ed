# SPDX-License-Identifier: MIT
"""Arrays of any kind as addresses: PyTorch's, NumPy's, and what has `__cuda_array_interface__`,
DLPack or the buffer protocol."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from ._library import Error, lib

# The TYPENAME of the library for each name of a dtype that NumPy and PyTorch share.
TYPENAMES = {
    "float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat16",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "bool": "uint8",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "complex64": "complexf", "complex128": "complexd", "float8_e4m3fn": "f8",
    "float8_e4m3fnuz": "f8_fnuz", "float8_e5m2": "f8_e5m2"}
BYTES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int8": 1, "int16": 2, "int32": 4,
         "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "complexf": 8,
         "complexd": 16, "f8": 1, "f8_fnuz": 1, "f8_e5m2": 1}


class Array(NamedTuple):
    address: int
    count: int          # elements
    type: str           # TYPENAME of the library
    size: int           # bytes of an element
    on_gpu: bool


def line(fn: str, text: str) -> str:
    """A message as the library writes one: with the number of the PE, once there is one."""
    from . import _job

    return f"PE {_job.me}: shmem.{fn}: {text}" if _job.me >= 0 else f"shmem.{fn}: {text}"


_known: dict[Any, tuple[str, int]] = {} # TYPENAME and bytes by dtype


def typename(dtype: Any, fn: str, arg: str) -> tuple[str, int]:
    """TYPENAME of a dtype, and the bytes of an element."""
    found = _known.get(dtype)
    if found is None:
        name = TYPENAMES.get(getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2])
        if name is None:
            raise Error(line(fn, f"{arg}: elements of {dtype}, which the library does not have"))
        found = _known[dtype] = name, BYTES[name]
    return found


class _DLTensor(ctypes.Structure):
    """The start of a DLManagedTensor, by DLPack's specification."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DL_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}


def _dlpack(x: Any, fn: str, arg: str) -> Array:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    capsule = x.__dlpack__() # x stays, and so does its memory
    t = _DLTensor.from_address(get(capsule, b"dltensor"))
    name = _DL_NAMES.get(t.code, "?") + ("" if t.code == 6 else str(t.bits))
    count = 1
    for i in reversed(range(t.ndim)):
        if t.strides and t.shape[i] > 1 and t.strides[i] != count:
            raise Error(line(fn, f"{arg}: elements with gaps between them: make it contiguous"))
        count *= t.shape[i]
    kind, size = typename(name, fn, arg)
    return Array((t.data or 0) + t.byte_offset, count, kind, size, t.device_type in (2, 10))


def _interface(x: dict[str, Any], on_gpu: bool, fn: str, arg: str) -> Array:
    kind = _KINDS.get(x["typestr"][1], "?")
    kind, size = typename("bool" if kind == "bool" else kind + str(8 * int(x["typestr"][2:])),
                          fn, arg)
    count, strides = 1, x.get("strides")
    for i in reversed(range(len(x["shape"]))):
        if strides and x["shape"][i] > 1 and strides[i] != count * size:
            raise Error(line(fn, f"{arg}: elements with gaps between them: make it contiguous"))
        count *= x["shape"][i]
    return Array(x["data"][0], count, kind, size, on_gpu)


_address_of, _bytes = ctypes.addressof, ctypes.c_char.from_buffer
_ndarray: Any = None # NumPy's class, once an array of it has been seen
_tensor: Any = None # PyTorch's
_new = tuple.__new__ # makes an Array in half the time that Array(...) takes


def array(x: Any, fn: str, arg: str) -> Array:
    """The address, number and type of an array's elements. Gaps between elements are an Error.
    The type of the array decides how its address is found: NumPy's own ways take a microsecond,
    and a lookup of an attribute that is missing half a microsecond more (2026-11-27)."""
    if type(x) is _ndarray:
        if x.flags.c_contiguous:
            kind, size = _known.get(x.dtype) or typename(x.dtype, fn, arg)
            try:
                at = _address_of(_bytes(x))
            except (TypeError, ValueError, BufferError): # read only, empty, or of no C type
                at = x.ctypes.data
            return _new(Array, (at, x.size, kind, size, False))
    elif type(x) is _tensor:
        if x.is_contiguous():
            kind, size = _known.get(x.dtype) or typename(x.dtype, fn, arg)
            return _new(Array, (x.data_ptr(), x.numel(), kind, size, x.is_cuda))
    else:
        return _of_others(x, fn, arg)
    raise Error(line(fn, f"{arg}: elements with gaps between them: make it contiguous"))


def _of_others(x: Any, fn: str, arg: str) -> Array:
    global _ndarray, _tensor
    torch = sys.modules.get("torch")
    if torch and isinstance(x, torch.Tensor):
        _tensor = torch.Tensor
        return array(x if type(x) is _tensor else x.as_subclass(_tensor), fn, arg)
    numpy = sys.modules.get("numpy")
    if numpy and isinstance(x, numpy.ndarray):
        _ndarray = numpy.ndarray
        return array(x.view(numpy.ndarray), fn, arg)
    if hasattr(x, "__cuda_array_interface__"):
        return _interface(x.__cuda_array_interface__, True, fn, arg)
    if hasattr(x, "__dlpack__"):
        return _dlpack(x, fn, arg)
    try:
        view = memoryview(x)
    except TypeError:
        raise Error(line(fn, f"{arg}: a {type(x).__name__}, which is no array")) from None
    if not view.contiguous:
        raise Error(line(fn, f"{arg}: elements with gaps between them: make it contiguous"))
    code = view.format[-1:]
    name = {"f": "float32", "d": "float64"}.get(code) or (
        ("uint" if code in "BHILQNc" else "int") + str(8 * view.itemsize))
    kind, size = typename(name, fn, arg)
    if view.readonly:
        # ctypes gives addresses of writable memory only; for other memory it makes a copy.
        raise Error(line(fn, f"{arg}: memory that is read only"))
    at = ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))) if view.nbytes else 0
    return Array(at, view.nbytes // size, kind, size, False)


def _first(_: int) -> int:
    """Finds the functions of PyTorch that stand for _device and _raw from here on, and calls
    them."""
    global _device, _raw
    torch = sys.modules.get("torch")
    if not torch:
        return 0
    names = "_cuda_getDevice", "_cuda_getCurrentRawStream"
    found = [getattr(torch._C, name, None) for name in names]
    _device, _raw = found if all(found) else (
        int, lambda _: torch.cuda.current_stream().cuda_stream)
    return _raw(_device())


_device: Any = int # gives PyTorch's current GPU
_raw: Any = _first # gives the handle of the current stream of a GPU


def current_stream() -> int:
    """The handle of PyTorch's current stream on the current GPU; 0 without PyTorch. An object of a
    stream takes microseconds to make. The handle takes a fraction of one by these functions, which
    PyTorch's compiled kernels use."""
    return _raw(_device())


def stream_of(stream: Any, on_gpu: bool) -> int | None:
    """The handle of the stream on which a call runs: the caller's stream, an int or an object of
    PyTorch or CuPy; if the caller names none, PyTorch's current stream for memory of a GPU. None:
    the host does the call at once."""
    if stream is None:
        return current_stream() if on_gpu else None
    return stream if isinstance(stream, int) else getattr(stream, "cuda_stream", None) or getattr(
        stream, "ptr", 0)


def settle(stream: int) -> None:
    """Waits until a stream has done its work."""
    lib.shmemx_stream_synchronize(stream)
