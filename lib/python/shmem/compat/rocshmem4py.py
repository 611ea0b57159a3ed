# SPDX-License-Identifier: MIT
"""The names of rocshmem4py: rocshmem_NAME takes numbers as addresses and streams, as the routine of
C. A name that is not written here is shmem_NAME, or shmemx_NAME_on_stream, of the library."""
from __future__ import annotations

from typing import Any

import shmem

from .. import _job, _memory
from .. import _library as c
from .._array import line
from .._library import Error, lib
from .._routines import ROUTINES
from . import _raw

DIFFERS = [
    ("addresses", "a wrong one ends the job with the library's line, as in C; those of tensors and "
                  "buffers are looked at, and are an exception"),
    ("init_with_torch", "needs no GPU: it then makes a group of gloo alone"),
    ("init_with_mpi", "broadcasts a unique id; mpi_comm None is MPI.COMM_WORLD of mpi4py"),
    ("SymmetricBuffer", "is freed by free, or at finalize, never by Python's counting: that would "
                        "be a collective in a destructor"),
    ("rocshmem_get_device_ctx, rocshmem_ctx_...", "are not here: kernels take no context"),
    ("rocshmem_dump_stats, rocshmem_reset_stats", "do nothing: SHMEM_TRACE records"),
    ("rocshmem_malloc", "of the device heap (SHMEM_DEVICE_SIZE), or without a GPU the host's"),
    ("ROCSHMEM_TEAM_WORLD", "is 0, as there; other handles are the library's"),
]
__version__ = "0.1.0"
ROCSHMEM_SUCCESS, ROCSHMEM_TEAM_WORLD, ROCSHMEM_TEAM_INVALID = 0, 0, -1
ROCSHMEM_SIGNAL_SET, ROCSHMEM_SIGNAL_ADD = c.SHMEM_SIGNAL_SET, c.SHMEM_SIGNAL_ADD
ROCSHMEM_CMP_EQ, ROCSHMEM_CMP_NE, ROCSHMEM_CMP_GT = c.SHMEM_CMP_EQ, c.SHMEM_CMP_NE, c.SHMEM_CMP_GT
ROCSHMEM_CMP_GE, ROCSHMEM_CMP_LT, ROCSHMEM_CMP_LE = c.SHMEM_CMP_GE, c.SHMEM_CMP_LT, c.SHMEM_CMP_LE


def __getattr__(name: str) -> Any:
    rest = name.removeprefix("rocshmem_")
    if name.startswith("rocshmem_") and rest != name:
        for routine in f"shmem_{rest}", f"shmemx_{rest}":
            if routine in ROUTINES:
                _job._ready(name)
                return getattr(lib, routine)
    raise AttributeError(f"rocshmem4py has no {name} here")


class TeamConfig:
    num_contexts = 0


# --- init -----------------------------------------------------------------------------------------

def rocshmem_init() -> None:
    shmem.init()


def rocshmem_finalize() -> None:
    shmem.finalize()


def rocshmem_get_uniqueid() -> bytes:
    return shmem.get_unique_id()


def rocshmem_init_attr(rank: int, nranks: int, uid: bytes) -> int:
    shmem.init(uid=uid, rank=rank, size=nranks)
    return ROCSHMEM_SUCCESS


def init_rocshmem_by_uniqueid(group: Any) -> None:
    shmem.init(group)


def init_with_mpi(mpi_comm: Any = None) -> None:
    if mpi_comm is None:
        from mpi4py import MPI

        mpi_comm = MPI.COMM_WORLD
    rank = mpi_comm.Get_rank()
    uid = mpi_comm.bcast(shmem.get_unique_id() if rank == 0 else None, root=0)
    shmem.init(uid=uid, rank=rank, size=mpi_comm.Get_size())


def init_with_torch(group: Any = None, backend: str = "cpu:gloo,cuda:nccl",
                    init_method: str | None = None) -> None:
    import os

    import torch
    import torch.distributed as dist

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if not dist.is_initialized():
        dist.init_process_group(backend if torch.cuda.is_available() else "gloo",
                                init_method=init_method or "env://")
    shmem.init(group or dist.group.WORLD)


def finalize_with_mpi() -> None:
    if shmem.is_initialized():
        _raw.synchronize()
        shmem.finalize()


def finalize_with_torch() -> None:
    import torch.distributed as dist

    finalize_with_mpi()
    if dist.is_initialized():
        dist.destroy_process_group()


def set_hip_device_from_env() -> None:
    """The GPU of LOCAL_RANK, for PyTorch and so for this library."""
    import os

    import torch

    if torch.cuda.is_available() and "LOCAL_RANK" in os.environ:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def hip_device_synchronize() -> None:
    _memory._wait_for_gpu()


def rocshmem_hipmodule_init(module: int) -> int:
    _job._ready("rocshmem_hipmodule_init")
    lib.shmemx_module_init(module)
    return ROCSHMEM_SUCCESS


def rocshmem_my_pe() -> int:
    return shmem.my_pe()


def rocshmem_n_pes() -> int:
    return shmem.n_pes()


def rocshmem_query_thread() -> int:
    import ctypes

    provided = ctypes.c_int()
    lib.shmem_query_thread(ctypes.byref(provided))
    return provided.value


def rocshmem_dump_stats() -> None:
    pass


rocshmem_reset_stats = rocshmem_dump_stats


# --- teams ----------------------------------------------------------------------------------------

def _team(team: int, fn: str) -> int:
    _job._ready(fn)
    if team in (ROCSHMEM_TEAM_INVALID, None):
        raise Error(line(fn, f"team = {team}: none"))
    return team or c.SHMEM_TEAM_WORLD


def rocshmem_team_my_pe(team: int) -> int:
    return -1 if team == -1 else lib.shmem_team_my_pe(_team(team, "rocshmem_team_my_pe"))


def rocshmem_team_n_pes(team: int) -> int:
    return -1 if team == -1 else lib.shmem_team_n_pes(_team(team, "rocshmem_team_n_pes"))


def rocshmem_team_split_strided(parent: int, start: int, stride: int, size: int,
                                config: Any = None, mask: int = 0) -> tuple[int, int]:
    fn = "rocshmem_team_split_strided"
    try:
        new = shmem.Team(_team(parent, fn)).split_strided(start, stride, size)
    except Error:
        return -1, ROCSHMEM_TEAM_INVALID
    return ROCSHMEM_SUCCESS, ROCSHMEM_TEAM_INVALID if new is None else new.handle


def rocshmem_team_translate_pe(src_team: int, src_pe: int, dest_team: int) -> int:
    fn = "rocshmem_team_translate_pe"
    return lib.shmem_team_translate_pe(_team(src_team, fn), src_pe, _team(dest_team, fn))


def rocshmem_team_destroy(team: int) -> None:
    if team not in (ROCSHMEM_TEAM_INVALID, ROCSHMEM_TEAM_WORLD):
        shmem.Team(_team(team, "rocshmem_team_destroy")).destroy()


def rocshmem_team_sync(team: int) -> None:
    lib.shmem_team_sync(_team(team, "rocshmem_team_sync"))


def rocshmem_team_sync_on_stream(team: int, stream: int) -> None:
    lib.shmemx_team_sync_on_stream(_team(team, "rocshmem_team_sync_on_stream"), stream)


def rocshmem_barrier(team: int) -> None:
    at = _team(team, "rocshmem_barrier")
    lib.shmem_quiet()
    lib.shmem_team_sync(at)


def rocshmem_barrier_on_stream(team: int, stream: int) -> None:
    at = _team(team, "rocshmem_barrier_on_stream")
    lib.shmemx_quiet_on_stream(stream)
    lib.shmemx_team_sync_on_stream(at, stream)


def rocshmem_alltoallmem_on_stream(team: int, dest: int, source: int, nbytes: int, stream: int
                                   ) -> int:
    return lib.shmemx_alltoallmem_on_stream(_team(team, "rocshmem_alltoallmem_on_stream"), dest,
                                            source, nbytes, stream)


def rocshmem_broadcastmem_on_stream(team: int, dest: int, source: int, nbytes: int, root: int,
                                    stream: int) -> int:
    return lib.shmemx_broadcastmem_on_stream(_team(team, "rocshmem_broadcastmem_on_stream"), dest,
                                             source, nbytes, root, stream)


# --- memory ---------------------------------------------------------------------------------------

def rocshmem_malloc(size: int) -> int:
    return _raw.malloc("rocshmem_malloc", size)


def rocshmem_align(alignment: int, size: int) -> int:
    return _raw.malloc("rocshmem_align", size, alignment)


def rocshmem_calloc(count: int, size: int) -> int:
    import torch

    at = _raw.malloc("rocshmem_calloc", count * size)
    _raw.tensor(at, (count * size,), torch.uint8).zero_()
    _memory._wait_for_gpu()
    shmem.barrier()
    return at


def rocshmem_free(ptr: int) -> None:
    _raw.free("rocshmem_free", ptr)


def rocshmem_buffer_register(ptr: int, size: int) -> int:
    _raw.register("rocshmem_buffer_register", ptr, size)
    return ROCSHMEM_SUCCESS


def rocshmem_buffer_unregister(ptr: int) -> int:
    _raw.unregister("rocshmem_buffer_unregister", ptr)
    return ROCSHMEM_SUCCESS


def rocshmem_buffer_unregister_all() -> None:
    for ptr in list(_raw._registered):
        _raw.unregister("rocshmem_buffer_unregister_all", ptr)


def rocshmem_ptr(ptr: int, pe: int) -> int:
    return _raw.pointer("rocshmem_ptr", ptr, pe)


class SymmetricBuffer:
    """`nbytes` of symmetric memory at `ptr`; `__cuda_array_interface__` on a GPU."""

    def __init__(self, size: int, *, ptr: int | None = None, dtype: Any = None,
                 own_data: bool = True) -> None:
        self.ptr = rocshmem_malloc(size) if ptr is None else ptr
        self.size = self.nbytes = size
        self.dtype, self.own_data, self._freed = dtype, own_data, False
        kind = "__cuda_array_interface__" if c.platform() != "cpu" else "__array_interface__"
        setattr(self, kind, {"data": (self.ptr, False), "shape": (size,), "typestr": "|i1",
                             "strides": None, "version": 3})

    def free(self) -> None:
        if self.own_data and not self._freed:
            rocshmem_free(self.ptr)
        self._freed = True

    def get_remote_ptr(self, pe: int) -> int:
        return rocshmem_ptr(self.ptr, pe)

    def put(self, source_ptr: int, nelems: int, pe: int) -> None:
        lib.shmem_putmem(self.ptr, source_ptr, nelems, pe)

    def get(self, source_ptr: int, nelems: int, pe: int) -> None:
        lib.shmem_getmem(self.ptr, source_ptr, nelems, pe)

    def __int__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"SymmetricBuffer(ptr={self.ptr:#x}, {'freed' if self._freed else self.size})"


def rocshmem_create_buffer(nbytes: int) -> SymmetricBuffer:
    return SymmetricBuffer(nbytes)


def rocshmem_get_peer_buffer(buf: SymmetricBuffer, peer: int) -> SymmetricBuffer:
    if peer == shmem.my_pe():
        return buf
    at = rocshmem_ptr(buf.ptr, peer)
    if not at:
        raise Error(line("rocshmem_get_peer_buffer", f"peer = {peer}: its memory is not mapped"))
    return SymmetricBuffer(buf.nbytes, ptr=at, own_data=False)


def rocshmem_get_peer_ptr_table(ptr: int) -> list[int]:
    return [rocshmem_ptr(ptr, pe) for pe in range(shmem.n_pes())]


rocshmem_get_heap_bases = rocshmem_get_peer_ptr_table


# --- rocshmem4py.interop.torch --------------------------------------------------------------------

def create_tensor(shape: Any, dtype: Any) -> Any:
    nbytes = dtype.itemsize
    for length in shape:
        nbytes *= length
    buf = rocshmem_create_buffer(nbytes)
    t = _raw.tensor(buf.ptr, shape, dtype, buf)
    t._symm_buf, t.__symm_tensor__ = buf, True
    return t


def _known(fn: str, tensor: Any) -> Any:
    if not getattr(tensor, "__symm_tensor__", False) or tensor._symm_buf is None:
        raise Error(line(fn, "tensor: not of create_tensor, or freed"))
    return tensor


def get_peer_tensor(tensor: Any, peer: int) -> Any:
    _known("get_peer_tensor", tensor)
    return tensor if peer == shmem.my_pe() else shmem.peer(tensor, peer)


def free_tensor(tensor: Any) -> None:
    _known("free_tensor", tensor)._symm_buf.free()
    tensor._symm_buf = None


def put(dst: Any, src: Any, peer: int, stream: Any = None) -> None:
    _raw.put_or_get("put", "put", (dst.data_ptr(), dst.nbytes), (src.data_ptr(), src.nbytes), peer,
                    stream)


def get(dst: Any, src: Any, peer: int, stream: Any = None) -> None:
    _raw.put_or_get("get", "get", (dst.data_ptr(), dst.nbytes), (src.data_ptr(), src.nbytes), peer,
                    stream)


def barrier_all(stream: Any = None) -> None:
    shmem.barrier(_raw.stream_of(stream))


def get_heap_bases(tensor: Any) -> Any:
    import torch

    _known("get_heap_bases", tensor)
    return torch.tensor(rocshmem_get_peer_ptr_table(tensor.data_ptr()), dtype=torch.int64,
                        device=tensor.device)


def alltoall(team: int, dst: Any, src: Any, stream: Any = None) -> None:
    shmem.all_to_all(dst, src, shmem.Team(_team(team, "alltoall")), _raw.stream_of(stream))


def broadcast(team: int, dst: Any, src: Any, pe_root: int, stream: Any = None) -> None:
    shmem.broadcast(dst, src, pe_root, shmem.Team(_team(team, "broadcast")),
                    _raw.stream_of(stream))
