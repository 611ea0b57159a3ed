# SPDX-License-Identifier: MIT
"""The names of nvshmem.core (nvshmem4py 0.4): host calls, teams, atomics and tensors of PyTorch."""
from __future__ import annotations

import ctypes
import time
from typing import Any

import shmem

from .. import _array, _job, _memory
from .. import _library as c
from .._array import line
from .._library import Error, lib
from . import _raw
from ._nvshmem_types import (  # noqa: F401  some are only for programs
    ComparisonType, InitStatus, NvshmemKernelObject, NvshmemStream, NvshmemWarning, SignalOp,
    TeamConfig, Teams, ThreadSupport, UniqueID, Version)

DIFFERS = [
    ("NvshmemError, NvshmemInvalid", "are shmem.Error"),
    ("stream", "may be None: PyTorch's current stream, or without a GPU the host, at once"),
    ("init", "initializer_method mpi broadcasts a unique id over mpi_comm, as emulated_mpi does; "
             "without arguments it takes any launcher that shmem.init takes"),
    ("device", "None is the GPU that PyTorch uses; a Device of cuda.core gives its number"),
    ("buffer", "is an address and a size, with DLPack; not a Buffer of cuda.core. release and "
               "except_on_del have no effect: memory is freed by free, or at finalize"),
    ("get_multicast_buffer, get_multicast_tensor", "are refused: there is no multicast"),
    ("register_external_buffer", "returns the buffer itself, at its own address; "
                                 "preferred_address is refused"),
    ("collectives", "also take op prod, and, or, xor"),
    ("flush", "is quiet"),
    ("put_nbi, get_nbi, put_signal_nbi", "are those without nbi: the stream is their order"),
    ("Teams", "NODE is SHARED; SAME_MYPE_NODE, SAME_GPU and GPU_LEADERS are not here"),
    ("team_init, get_team_unique_id", "are refused: shmem.Team.from_list makes a team of a list"),
    ("library_init, library_finalize", "are refused: pass the module to module_init"),
    ("module_finalize", "does nothing"),
    ("find_device_bitcode_library, ask_smem, nvshmem.core.device, nvshmem.bindings, CuPy",
     "are not here: shmem.triton has the kernels' calls"),
]
NvshmemError = NvshmemInvalid = Error


def _bad(fn: str, text: str) -> Error:
    return Error(line(fn, text))


# --- init and queries -----------------------------------------------------------------------------

def get_unique_id(empty: bool = False) -> UniqueID:
    return UniqueID() if empty else UniqueID(shmem.get_unique_id())


def init(device: Any = None, uid: UniqueID | None = None, rank: int | None = None,
         nranks: int | None = None, mpi_comm: Any = None, initializer_method: str = "") -> None:
    number = None if device is None or shmem.platform() == "cpu" else int(
        getattr(device, "device_id", device))
    if initializer_method in ("mpi", "emulated_mpi"):
        if mpi_comm is None:
            raise _bad("init", f"mpi_comm: {initializer_method} needs one")
        rank, nranks = mpi_comm.Get_rank(), mpi_comm.Get_size()
        uid = UniqueID(mpi_comm.bcast(bytes(get_unique_id()) if rank == 0 else None, root=0))
    elif initializer_method == "uid":
        if uid is None or rank is None or nranks is None or mpi_comm is not None:
            raise _bad("init", "initializer_method \"uid\" needs uid, rank and nranks alone")
    elif initializer_method:
        raise _bad("init", f"initializer_method = {initializer_method!r}: expected uid, mpi or "
                   "emulated_mpi")
    if uid is None:
        shmem.init(device=number)
    else:
        shmem.init(uid=bytes(uid), rank=rank, size=nranks, device=number)


def finalize() -> None:
    shmem.finalize()


def init_status() -> InitStatus:
    return InitStatus.STATUS_IS_INITIALIZED if shmem.is_initialized() else \
        InitStatus.STATUS_NOT_INITIALIZED


def get_version() -> Version:
    return Version(f"{c.SHMEM_MAJOR_VERSION}.{c.SHMEM_MINOR_VERSION}", "0.4.1",
                   f"{c.SHMEM_VENDOR_MAJOR_VERSION}.{c.SHMEM_VENDOR_MINOR_VERSION}."
                   f"{c.SHMEM_VENDOR_PATCH_VERSION}")


def get_name() -> str:
    name = ctypes.create_string_buffer(256)
    lib.shmem_info_get_name(name)
    return name.value.decode()


def query_thread() -> ThreadSupport:
    provided = ctypes.c_int()
    lib.shmem_query_thread(ctypes.byref(provided))
    return ThreadSupport(provided.value)


def module_init(mod: Any) -> None:
    _job._ready("module_init")
    lib.shmemx_module_init(int(getattr(mod, "handle", mod)))


def module_finalize(mod: Any) -> None:
    pass


def library_init(lib: Any) -> None:
    raise _bad("library_init", "a library of kernels: pass its module to module_init")


library_finalize = library_init


def my_pe() -> int:
    return shmem.my_pe()


def n_pes() -> int:
    return shmem.n_pes()


# --- teams ----------------------------------------------------------------------------------------

def team_get_config(team: int) -> TeamConfig:
    Teams.of(team, "team_get_config")
    return TeamConfig()


def team_my_pe(team: int) -> int:
    return -1 if team == -1 else Teams.of(team, "team_my_pe").my_pe()


def team_n_pes(team: int) -> int:
    return -1 if team == -1 else Teams.of(team, "team_n_pes").n_pes()


def team_split_strided(parent_team: int, start: int, stride: int, size: int, config: Any = None,
                       config_mask: int = 0, new_team_name: str | None = None) -> int | None:
    parent = Teams.of(parent_team, "team_split_strided")
    return Teams.new(parent.split_strided(start, stride, size), new_team_name)


def team_split_2d(parent_team: int, xrange: int, xaxis_config: Any = None, xaxis_mask: int = 0,
                  yaxis_config: Any = None, yaxis_mask: int = 0,
                  new_team_name: str | None = None) -> tuple[int | None, int | None]:
    x, y = Teams.of(parent_team, "team_split_2d").split_2d(xrange)
    return (Teams.new(x, new_team_name and new_team_name + "_X", "TEAM_X_"),
            Teams.new(y, new_team_name and new_team_name + "_Y", "TEAM_Y_"))


def team_destroy(team: int | str) -> None:
    number = Teams[team] if isinstance(team, str) else team
    Teams.of(number, "team_destroy").destroy()
    Teams._teams.pop(number, None)
    for name in [name for name, value in Teams.items() if value == number and number > 5]:
        Teams.remove(name)


def team_translate_pe(src_team: int, src_pe: int, dest_team: int) -> int:
    return Teams.of(src_team, "team_translate_pe").translate(
        src_pe, Teams.of(dest_team, "team_translate_pe"))


def team_init(*arguments: Any, **named: Any) -> int:
    raise _bad("team_init", "not here: team_split_strided, or shmem.Team.from_list, makes a team")


get_team_unique_id = team_init


# --- memory ---------------------------------------------------------------------------------------

_buffers: dict[int, Buffer] = {} # of this module, by address
_job.at_finalize.append(_buffers.clear)


class Buffer:
    """Symmetric memory of `size` bytes at `handle`. DLPack, and on a GPU
    `__cuda_array_interface__`, give its bytes."""

    def __init__(self, handle: int, size: int) -> None:
        self.handle, self.size = handle, size
        if c.platform() != "cpu" and _memory._has_device:
            self.__cuda_array_interface__ = {"data": (handle, False), "shape": (size,),
                                             "typestr": "|u1", "version": 3}
        else:
            self.__array_interface__ = {"data": (handle, False), "shape": (size,),
                                        "typestr": "|u1", "version": 3}

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<nvshmem.core.Buffer: {self.size} bytes at {self.handle:#x}>"

    def _bytes(self) -> Any:
        import torch

        return _raw.tensor(self.handle, (self.size,), torch.uint8, self)

    def __dlpack__(self, **named: Any) -> Any:
        return self._bytes().__dlpack__(**named)

    def __dlpack_device__(self) -> Any:
        return self._bytes().__dlpack_device__()

    def close(self) -> None:
        free(self)


def buffer(size: int, release: bool = False, except_on_del: bool = True) -> Buffer:
    made = Buffer(_raw.malloc("buffer", size), size)
    _buffers[made.handle] = made
    return made


def free(buffer: Buffer) -> None:
    if not isinstance(buffer, Buffer) or _buffers.get(buffer.handle) is not buffer:
        raise _bad("free", f"buffer = {buffer!r}: not of buffer, or freed")
    del _buffers[buffer.handle]
    _raw.free("free", buffer.handle)


def get_peer_buffer(buffer: Buffer, pe: int) -> Buffer:
    at = _raw.pointer("get_peer_buffer", buffer.handle, pe)
    if not at:
        raise _bad("get_peer_buffer", f"pe = {pe}: its memory is not mapped here")
    return Buffer(at, buffer.size)


def register_external_buffer(buffer: Any, preferred_address: Any = None) -> Any:
    if preferred_address is not None:
        raise _bad("register_external_buffer", "preferred_address: a buffer keeps its own")
    _raw.register("register_external_buffer", int(buffer.handle), int(buffer.size))
    return buffer


def unregister_external_buffer(buffer: Any) -> None:
    _raw.unregister("unregister_external_buffer", int(buffer.handle))


def get_multicast_buffer(team: int, buffer: Buffer) -> Buffer:
    raise _bad("get_multicast_buffer", "there is no multicast")


def tensor(shape: Any, dtype: Any = None, release: bool = False, morder: str = "C",
           except_on_del: bool = True) -> Any:
    import torch

    if morder not in ("C", "F"):
        raise _bad("tensor", f"morder = {morder!r}: expected C or F")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = torch.float32 if dtype is None else dtype
    nbytes = dtype.itemsize
    for length in shape:
        nbytes *= length
    made = buffer(nbytes)
    view = _raw.tensor(made.handle, shape, dtype, made)
    if morder == "F":
        strides = [1]
        for length in shape[:-1]:
            strides.append(strides[-1] * length)
        view = view.as_strided(shape, strides)
    return view


def bytetensor(shape: Any, dtype: Any = None, release: bool = False, morder: str = "C",
               except_on_del: bool = True) -> Any:
    import torch

    return tensor(shape, torch.uint8, morder=morder)


def tensor_get_buffer(tensor: Any) -> tuple[Buffer, int, str]:
    made = _buffers.get(tensor.data_ptr())
    if made is None:
        raise _bad("tensor_get_buffer", "tensor: not of tensor or bytetensor, or freed")
    return made, tensor.numel() * tensor.element_size(), str(tensor.dtype)


def free_tensor(tensor: Any) -> None:
    free(tensor_get_buffer(tensor)[0])


def get_peer_tensor(tensor: Any, peer_pe: int) -> Any:
    return shmem.peer(tensor, peer_pe)


def get_multicast_tensor(team: int, tensor: Any) -> Any:
    raise _bad("get_multicast_tensor", "there is no multicast")


def register_external_tensor(tensor: Any) -> Any:
    _raw.register("register_external_tensor", tensor.data_ptr(),
                  tensor.numel() * tensor.element_size())
    return tensor


def unregister_external_tensor(tensor: Any) -> None:
    _raw.unregister("unregister_external_tensor", tensor.data_ptr())


# --- puts, gets and signals -----------------------------------------------------------------------

def _place(fn: str, x: Any, arg: str) -> tuple[int, int]:
    if isinstance(x, Buffer):
        return x.handle, x.size
    a = _array.array(_by_rows(x), fn, arg)
    return a.address, a.count * a.size


def _signal(fn: str, x: Any) -> int:
    at, nbytes = _place(fn, x, "signal_var")
    if nbytes < 8:
        raise _bad(fn, f"signal_var: {nbytes} bytes: a signal has 8")
    _memory.check(at, 8, fn, "signal_var")
    return at


def put(dst: Any, src: Any, remote_pe: int = -1, stream: Any = None) -> None:
    _raw.put_or_get("put", "put", _place("put", dst, "dst"), _place("put", src, "src"), remote_pe,
                    stream)


def get(dst: Any, src: Any, remote_pe: int = -1, stream: Any = None) -> None:
    _raw.put_or_get("get", "get", _place("get", dst, "dst"), _place("get", src, "src"), remote_pe,
                    stream)


put_nbi, get_nbi = put, get


def put_signal(dst: Any, src: Any, signal_var: Any, signal_val: int, signal_op: int,
               remote_pe: int = -1, stream: Any = None) -> None:
    fn = "put_signal"
    _memory.check_pe(remote_pe, fn)
    (d, nd), (s, ns) = _place(fn, dst, "dst"), _place(fn, src, "src")
    _memory.check(d, min(nd, ns), fn, "dst")
    words = d, s, min(nd, ns), _signal(fn, signal_var), signal_val, int(signal_op), remote_pe
    on = _raw.stream_of(stream)
    if on is None:
        lib.shmem_putmem_signal(*words)
    else:
        lib.shmemx_putmem_signal_on_stream(*words, on)


put_signal_nbi = put_signal


def signal_op(signal_var: Any, signal_val: int, signal_op: int, remote_pe: int = -1,
              stream: Any = None) -> None:
    _memory.check_pe(remote_pe, "signal_op")
    name = "signal_add" if int(signal_op) == SignalOp.SIGNAL_ADD else "signal_set"
    at, on = _signal("signal_op", signal_var), _raw.stream_of(stream)
    if on is None:
        getattr(lib, f"shmem_{name}")(at, signal_val, remote_pe)
    else:
        getattr(lib, f"shmemx_{name}_on_stream")(at, signal_val, remote_pe, on)


def signal_wait(signal_var: Any, signal_val: int, signal_op: int, stream: Any = None) -> None:
    at, on = _signal("signal_wait", signal_var), _raw.stream_of(stream)
    if on is None:
        lib.shmem_signal_wait_until(at, int(signal_op), signal_val)
    else:
        lib.shmemx_signal_wait_until_on_stream(at, int(signal_op), signal_val, on)


def signal_fetch(signal_var: Any) -> int:
    return lib.shmem_signal_fetch(_signal("signal_fetch", signal_var))


def quiet(stream: Any = None) -> None:
    shmem.quiet(_raw.stream_of(stream))


flush = quiet


# --- collectives ----------------------------------------------------------------------------------

def _by_rows(x: Any) -> Any:
    """A tensor of morder F as the same memory by rows."""
    if not hasattr(x, "stride") or x.is_contiguous():
        return x
    turned = x.permute(*reversed(range(x.ndim)))
    return turned if turned.is_contiguous() else x


def reduce(team: int, dst_array: Any, src_array: Any, op: str, stream: Any = None) -> None:
    shmem.all_reduce(_by_rows(dst_array), _by_rows(src_array), op,
                     Teams.of(team, "reduce"), _raw.stream_of(stream))


def reducescatter(team: int, dst_array: Any, src_array: Any, op: str, stream: Any = None) -> None:
    shmem.reduce_scatter(dst_array, src_array, op, Teams.of(team, "reducescatter"),
                         _raw.stream_of(stream))


def alltoall(team: int, dst_array: Any, src_array: Any, stream: Any = None) -> None:
    shmem.all_to_all(dst_array, src_array, Teams.of(team, "alltoall"), _raw.stream_of(stream))


def fcollect(team: int, dst_array: Any, src_array: Any, stream: Any = None) -> None:
    shmem.all_gather(dst_array, src_array, Teams.of(team, "fcollect"), _raw.stream_of(stream))


def broadcast(team: int, dst_array: Any, src_array: Any, root: int = 0, stream: Any = None) -> None:
    shmem.broadcast(dst_array, src_array, root, Teams.of(team, "broadcast"),
                    _raw.stream_of(stream))


_TYPES = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64",
          **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u")
             for bits in (8, 16, 32, 64)}}


def _typed(fn: str, x: Buffer, dtype: str | None) -> Any:
    import torch

    name = _TYPES.get(str(dtype).rpartition(".")[2] if dtype else "uint8",
                      str(dtype).rpartition(".")[2])
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise _bad(fn, f"dtype = {dtype!r}: expected half, float, int32 and their like")
    return _raw.tensor(x.handle, (x.size // kind.itemsize,), kind, x)


def collective_on_buffer(coll: str, team: int, dest: Buffer, src: Buffer, dtype: str | None = None,
                         op: str | None = None, root: int = 0, stream: Any = None,
                         enable_timing: bool = False) -> float:
    """With enable_timing returns the milliseconds until the stream has done the call."""
    fn = "collective_on_buffer"
    calls = {"reduce": reduce, "reducescatter": reducescatter, "alltoall": alltoall,
             "fcollect": fcollect, "broadcast": broadcast}
    if coll not in calls:
        raise _bad(fn, f"coll = {coll!r}: expected {', '.join(calls)}")
    more = (op,) if "reduce" in coll else (root,) if coll == "broadcast" else ()
    began = time.perf_counter()
    calls[coll](team, _typed(fn, dest, dtype), _typed(fn, src, dtype), *more, stream=stream)
    if not enable_timing:
        return 0.0
    on = _raw.stream_of(stream)
    if on is not None:
        lib.shmemx_stream_synchronize(on)
    return (time.perf_counter() - began) * 1e3


def barrier(team: int, stream: Any = None) -> None:
    on = _raw.stream_of(stream)
    shmem.quiet(on)
    shmem.sync(Teams.of(team, "barrier"), on)


def sync(team: int, stream: Any = None) -> None:
    shmem.sync(Teams.of(team, "sync"), _raw.stream_of(stream))


def barrier_all(stream: Any = None) -> None:
    shmem.barrier(_raw.stream_of(stream))


def sync_all(stream: Any = None) -> None:
    shmem.sync(None, _raw.stream_of(stream))


# --- atomics --------------------------------------------------------------------------------------

def _make_atomic(name: str) -> Any:
    fn = "atomic_" + name
    call = getattr(shmem, fn)

    def atomic(target: Any, *values: Any, remote_pe: int = -1, offset: int = 0,
               dtype: Any = None) -> Any:
        if len(values) > wanted: # the last one is remote_pe, by position
            *values, remote_pe = values # type: ignore[assignment]
        x = _typed(fn, target, dtype) if isinstance(target, Buffer) else target.view(-1)
        if not 0 <= offset < x.shape[0]:
            raise _bad(fn, f"offset = {offset}: the target has {x.shape[0]} elements")
        return call(x[offset:], *values, remote_pe)

    wanted = {"fetch": 0, "inc": 0, "fetch_inc": 0, "compare_swap": 2}.get(name, 1)
    atomic.__name__ = fn
    return atomic


for _name in ("fetch", "set", "inc", "fetch_inc", "add", "fetch_add", "and", "fetch_and", "or",
              "fetch_or", "xor", "fetch_xor", "swap", "compare_swap"):
    globals()["atomic_" + _name] = _make_atomic(_name)
