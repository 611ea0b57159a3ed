# SPDX-License-Identifier: MIT
"""The names of mori.shmem, as amd-mori has them in 2026: addresses are numbers, a status is 0."""
from __future__ import annotations

from typing import Any

import shmem

from .. import _job
from .._array import line
from .._library import lib
from . import _raw

DIFFERS = [
    ("all", "a failure is an exception, shmem.Error; a status is always 0"),
    ("shmem_init_attr", "MORI_SHMEM_INIT_WITH_MPI_COMM is refused: pass a unique id"),
    ("shmem_mpi_init", "takes any launcher that shmem.init takes; it needs no MPI"),
    ("shmem_malloc", "of the size asked for, of the device heap (SHMEM_DEVICE_SIZE); the variables "
                     "MORI_SHMEM_... have no effect"),
    ("shmem_ext_malloc_with_flags", "flags have no effect: memory of the heap is fine-grained"),
    ("shmem_buffer_register", "the buffer becomes symmetric, and all PEs call"),
    ("shmem_ptr_p2p", "my_pe must be this PE"),
    ("shmem_num_qp_per_pe", "1: the library has no queue pairs of its own"),
    ("mori_shmem_create_tensor", "is freed by shmem_free(t.data_ptr()), or at finalize"),
    ("mori.ir, mori.ops, mori.cco, mori.io, mori.ccl",
     "are not here: shmem.triton has the calls of kernels, shmem.Experts dispatch and combine"),
]
MORI_SHMEM_INIT_WITH_MPI_COMM, MORI_SHMEM_INIT_WITH_UNIQUEID = 0, 1


def shmem_torch_process_group_init(group_name: str) -> int:
    """Init by the name of a group of torch.distributed, "default" for the default one."""
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _resolve_process_group

    try:
        group = _resolve_process_group(group_name)
    except (RuntimeError, ValueError):
        if group_name != "default":
            raise shmem.Error(line("shmem_torch_process_group_init", f"group_name = {group_name!r}:"
                                   " there is no such group")) from None
        group = dist.group.WORLD
    return _raw.job_of_group(group)


def shmem_mpi_init() -> int:
    shmem.init()
    return 0


def shmem_get_unique_id() -> bytes:
    return shmem.get_unique_id()


def shmem_init_attr(flags: int, rank: int, nranks: int, unique_id: bytes) -> int:
    if flags != MORI_SHMEM_INIT_WITH_UNIQUEID:
        raise shmem.Error(line("shmem_init_attr", f"flags = {flags}: expected "
                               "MORI_SHMEM_INIT_WITH_UNIQUEID"))
    shmem.init(uid=unique_id, rank=rank, size=nranks)
    return 0


def shmem_finalize() -> int:
    shmem.finalize()
    return 0


def shmem_module_init(hip_module: int) -> int:
    _job._ready("shmem_module_init")
    lib.shmemx_module_init(hip_module)
    return 0


def shmem_mype() -> int:
    return shmem.my_pe()


def shmem_npes() -> int:
    return shmem.n_pes()


def shmem_barrier_all() -> None:
    shmem.barrier()


def shmem_barrier_on_stream(stream: Any = None) -> None:
    shmem.barrier(_raw.stream_of(stream))


def shmem_malloc(size: int) -> int:
    return _raw.malloc("shmem_malloc", size)


def shmem_malloc_align(alignment: int, size: int) -> int:
    return _raw.malloc("shmem_malloc_align", size, alignment)


def shmem_ext_malloc_with_flags(size: int, flags: int) -> int:
    return _raw.malloc("shmem_ext_malloc_with_flags", size)


def shmem_free(ptr: int) -> None:
    _raw.free("shmem_free", ptr)


def shmem_buffer_register(ptr: int, size: int) -> int:
    _raw.register("shmem_buffer_register", ptr, size)
    return 0


def shmem_buffer_deregister(ptr: int, size: int) -> int:
    _raw.unregister("shmem_buffer_deregister", ptr)
    return 0


def shmem_ptr_p2p(dest_ptr: int, my_pe: int, dest_pe: int) -> int:
    if my_pe != shmem.my_pe():
        raise shmem.Error(line("shmem_ptr_p2p", f"my_pe = {my_pe}: this is PE {shmem.my_pe()}"))
    return _raw.pointer("shmem_ptr_p2p", dest_ptr, dest_pe)


def shmem_num_qp_per_pe() -> int:
    return 1


def mori_shmem_create_tensor(shape: Any, dtype: Any) -> Any:
    nbytes = dtype.itemsize
    for length in shape:
        nbytes *= length
    _raw.synchronize()
    t = _raw.tensor(shmem_malloc(nbytes), shape, dtype)
    t.__symm_tensor__ = True
    return t


def symm_mori_shmem_tensor(tensor: Any, peer: int) -> Any:
    if not getattr(tensor, "__symm_tensor__", False):
        raise shmem.Error(line("symm_mori_shmem_tensor", "tensor: not of mori_shmem_create_tensor"))
    return tensor if peer == shmem.my_pe() else shmem.peer(tensor, peer)


def mori_shmem_create_tensor_list_intra_node(shape: Any, dtype: Any, num_ranks: int) -> list[Any]:
    t = mori_shmem_create_tensor(shape, dtype)
    return [symm_mori_shmem_tensor(t, pe) for pe in range(num_ranks)]
