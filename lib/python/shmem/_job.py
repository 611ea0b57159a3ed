# SPDX-License-Identifier: MIT
"""Init and finalize: how a process becomes a PE."""
from __future__ import annotations

import atexit
import ctypes
import os
import sys
from typing import Any, Callable, NoReturn

from . import _library as c
from ._library import Error, has_torch, lib

me, n = -1, 0 # this PE's number and the number of PEs, while the process is a PE
at_init: list[Callable[[], None]] = [] # called when this process has become a PE
at_finalize: list[Callable[[], None]] = [] # called to forget the job's memory
LEVELS = {"single": c.SHMEM_THREAD_SINGLE, "funneled": c.SHMEM_THREAD_FUNNELED,
          "serialized": c.SHMEM_THREAD_SERIALIZED, "multiple": c.SHMEM_THREAD_MULTIPLE}


def get_unique_id() -> bytes:
    """128 bytes that make processes one job: one process makes them and passes them to all others.
    That process need not be a PE, and lives until all have called init."""
    uid = c.shmemx_uniqueid_t()
    if lib.shmemx_get_uniqueid(ctypes.byref(uid)):
        raise Error(_reason())
    return bytes(uid)


def _reason() -> str:
    return ctypes.string_at(lib.shmemx_error_string()).decode().removeprefix("shmem: ")


def _launched() -> bool:
    """Whether a launcher of PEs has started this process, or variables say how it finds the
    others."""
    return any(name in os.environ for name in ("PMIX_RANK", "PMI_RANK", "SHMEM_BOOTSTRAP"))


def _from_group(group: Any) -> tuple[bytes | None, int, int]:
    """The unique id, this process's rank and the size of a group of torch.distributed. The id goes
    by the group's store: NCCL would make a communicator for it, and refuses ranks that share a
    GPU."""
    import torch.distributed as dist

    rank, size = dist.get_rank(group), dist.get_world_size(group)
    store_of = getattr(dist.distributed_c10d, "_get_process_group_store", None)
    if store_of is None: # an older PyTorch
        box = [get_unique_id() if rank == 0 else None]
        dist.broadcast_object_list(box, src=dist.get_global_rank(group, 0), group=group)
        return box[0], rank, size
    store = store_of(group)
    # All members have begun as many jobs by this store.
    key = f"shmem/unique_id/{store.add(f'shmem/jobs/{rank}', 1)}"
    if rank == 0:
        uid = b""
        try:
            uid = get_unique_id()
        finally: # the other ranks do not wait for an id that does not come
            store.set(key, uid.hex())
    uid = bytes.fromhex(store.get(key).decode())
    if not uid:
        raise Error("shmem.init: rank 0 of the group has made no unique id")
    return uid, rank, size


def _device(device: Any) -> int:
    if device is None:
        torch = sys.modules.get("torch")
        current = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
        return c.SHMEMX_DEVICE_CURRENT if current else c.SHMEMX_DEVICE_ANY
    if isinstance(device, int):
        return device
    kind, _, number = str(device).partition(":")
    if kind not in ("cuda", "hip", "cpu"):
        raise Error(f"shmem.init: device = {device}: expected a number, cuda, or cuda:NUMBER")
    return int(number) if number else (
        c.SHMEMX_DEVICE_ANY if kind == "cpu" else c.SHMEMX_DEVICE_CURRENT)


def init(group: Any = None, *, uid: bytes | None = None, rank: int | None = None,
         size: int | None = None, device: Any = None, thread_level: str = "single") -> None:
    """Makes this process a PE. All processes of the job call.

    group   a group of torch.distributed: its members are the PEs, in its order
    uid     of get_unique_id, with this process's rank and the size of the job
    device  the GPU: a number, "cuda:1", or None: the one that PyTorch uses already, or the
            library's choice
    thread_level  "single", "funneled", "serialized" or "multiple"

    With neither group nor uid: PEs of oshrun, srun, or SHMEM_BOOTSTRAP; without these the default
    group of torch.distributed, if there is one; then workers of torchrun; else one PE alone."""
    global me, n
    if me >= 0:
        raise Error(f"PE {me}: shmem.init: this process is a PE already")
    if thread_level not in LEVELS:
        raise Error(f"shmem.init: thread_level = {thread_level!r}: expected {', '.join(LEVELS)}")
    if uid is None and group is None and not _launched():
        if has_torch():
            dist = sys.modules["torch"].distributed
            if dist.is_available() and dist.is_initialized():
                group = dist.group.WORLD
        if group is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            os.environ["SHMEM_BOOTSTRAP"] = "torchrun"
    if group is not None:
        uid, rank, size = _from_group(group)
    if uid is None:
        if rank is not None or size is not None:
            raise Error("shmem.init: rank and size go with a uid")
        if device is not None:
            number = _device(device)
            os.environ["SHMEM_DEVICE"] = "current" if number < 0 else str(number)
        provided = ctypes.c_int()
        lib.shmem_init_thread(LEVELS[thread_level], ctypes.byref(provided))
    else:
        if rank is None or size is None or not 0 <= rank < size:
            raise Error(f"shmem.init: rank = {rank} of size = {size}: expected 0 <= rank < size")
        if len(uid) != 128:
            raise Error(f"shmem.init: uid: {len(uid)} bytes, expected the 128 of get_unique_id")
        unique = c.shmemx_uniqueid_t.from_buffer_copy(uid)
        attributes = c.shmemx_init_attr_t(rank=rank, n=size, uniqueid=ctypes.addressof(unique),
                                          thread_level=LEVELS[thread_level],
                                          device=_device(device))
        if lib.shmemx_init_attr(0, ctypes.byref(attributes)):
            raise Error(_reason())
    me, n = lib.shmem_my_pe(), lib.shmem_n_pes()
    from . import _memory

    _memory.start()
    for start in at_init:
        start()
    atexit.register(_at_exit)
    sys.exit = _exit # type: ignore[assignment]


def _at_exit() -> None:
    # After an exception that no code has caught, or sys.exit with a status, other PEs must not wait
    # for this one. So the process ends without finalize, and the job ends with it. After an
    # exception a process of multiprocessing ends by sys.exit(1).
    if me >= 0 and not _failed and not hasattr(sys, "last_value"):
        finalize()


_failed, _sys_exit = False, sys.exit


def _exit(status: Any = None, /) -> NoReturn:
    global _failed
    _failed = status not in (None, 0)
    _sys_exit(status)


def finalize() -> None:
    """Ends the job for this PE. All PEs call; arrays of symmetric memory must not be used any more.
    A program that ends without an error calls finalize by itself."""
    global me, n
    if me < 0:
        return
    from . import _memory

    for forget in at_finalize:
        forget()
    _memory.stop()
    lib.shmem_finalize()
    me, n = -1, 0
    atexit.unregister(_at_exit)


def is_initialized() -> bool:
    return me >= 0


def _ready(fn: str) -> None:
    if me < 0:
        raise Error(f"shmem.{fn}: before shmem.init, or after shmem.finalize")


def my_pe() -> int:
    """The number of this PE, from 0."""
    _ready("my_pe")
    return me


def n_pes() -> int:
    """The number of PEs of the job."""
    _ready("n_pes")
    return n
