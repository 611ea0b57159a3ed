# SPDX-License-Identifier: MIT
"""Workspaces of operators in symmetric memory, and teams by number."""
from __future__ import annotations

import bisect
import math
from typing import Any

import torch

import shmem

from .. import _job, _memory, _team
from .._array import line
from .._library import SHMEM_TEAM_SHARED, SHMEM_TEAM_WORLD

ALIGN = 256
_spaces: dict[tuple[int, str], list[_Space]] = {} # by team and device, in the order of size
_job_tag: list[str] = [] # from the first operator on: the value that PyTorch's cache_key_tag had
_products: dict[Any, shmem.Matmul] = {} # by operation, team, shape and type
_pending: dict[int, Any] = {} # by team: an event behind its last asynchronous operator


def _forget() -> None:
    for known in _spaces, _products, _pending:
        known.clear()
    if _job_tag:
        tag = _job_tag.pop()
        if hasattr(torch.compiler.config, "cache_key_tag"):
            torch.compiler.config.cache_key_tag = tag


def _forget_team(handle: int) -> None:
    """Forgets a destroyed team. Another team may get the handle, on some of its members only."""
    _pending.pop(handle, None)
    for known in _spaces, _products:
        for key in [key for key in known if handle in key]:
            del known[key]


_job.at_finalize.append(_forget)
_team.at_destroy.append(_forget_team)


def number(team: shmem.Team | None) -> int:
    """The number by which operators name a team."""
    if team is None:
        return 0
    if not isinstance(team, shmem.Team):
        raise shmem.Error(line("torch", f"team: a {type(team).__name__}, which is no shmem.Team"))
    handle = team._valid("torch")
    return 0 if handle == SHMEM_TEAM_WORLD else handle


def team_of(number: int, fn: str) -> shmem.Team | None:
    if not _job_tag:
        _tag()
    if number in (0, SHMEM_TEAM_WORLD):
        return None
    if number == SHMEM_TEAM_SHARED:
        return shmem.shared()
    team = _team.known.get(number)
    if team is None:
        raise shmem.Error(line(fn, f"team = {number:#x}: has been destroyed, or is none"))
    return team


def _tag() -> None:
    """Adds the job to the key of torch.compile's cache: shapes of results depend on the job."""
    shmem.n_pes() # an Error before init
    config = torch.compiler.config
    _job_tag.append(getattr(config, "cache_key_tag", ""))
    if hasattr(config, "cache_key_tag"): # from 2.7 on
        config.cache_key_tag += f" shmem: PE {_job.me} of {_job.n}"


def members(number: int, fn: str) -> int:
    team = team_of(number, fn)
    return shmem.n_pes() if team is None else team.n_pes()


def my_number(number: int, fn: str) -> int:
    team = team_of(number, fn)
    return shmem.my_pe() if team is None else team.my_pe()


class _Part:
    """Memory, and the tensors that have been cut from it. The tensors are kept, because operators
    come again and again with the same shapes."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.memory = memory
        self.cuts: dict[Any, list[torch.Tensor]] = {}

    def cut(self, parts: tuple[tuple[Any, torch.dtype], ...]) -> list[torch.Tensor]:
        tensors = self.cuts.get(parts)
        if tensors is None:
            if len(self.cuts) == 64:
                self.cuts.clear()
            tensors, at = self.cuts.setdefault(parts, []), 0
            with torch.inference_mode(False): # a tensor made for inference would stay so
                for shape, dtype in parts:
                    nbytes = math.prod(shape) * dtype.itemsize
                    tensors.append(self.memory[at:at + nbytes].view(dtype).view(shape))
                    at += -(-nbytes // ALIGN) * ALIGN
        return tensors


class _Space:
    """Two parts that operators use in turn. A peer may store to one part here while this PE still
    copies a result from the other part. Before the peer stores to that other part, it must have
    finished the operator between, which needs this PE; and this PE takes part in that operator only
    after its copy. Captured operators cannot take turns: they have a third part, and a sync before
    each operator."""

    def __init__(self, nbytes: int, device: str) -> None:
        self.nbytes = nbytes
        with torch.inference_mode(False):
            memory = shmem.empty(3 * nbytes, dtype=torch.uint8, device=device)
            *self.turns, self.captured = [_Part(part) for part in memory.view(3, nbytes)]

    def next(self) -> _Part:
        self.turns.reverse()
        return self.turns[0]


def _make(key: tuple[int, str], nbytes: int) -> _Space:
    """Makes a space. Its size is a power of two, so that a slightly larger operator fits, too."""
    space = _Space(1 << max(nbytes - 1, 4095).bit_length(), key[1])
    spaces = _spaces.setdefault(key, [])
    spaces.append(space)
    spaces.sort(key=lambda s: s.nbytes)
    return space


def reserve(nbytes: int, team: shmem.Team | None, device: Any = "cpu") -> None:
    """Makes the workspace for operators of at most nbytes, of inputs and results together, so that
    they allocate nothing. All PEs of the job call, each with its team, or None if the PE has none;
    `shmem.world()` is the team for operators of all PEs."""
    key = -1 if team is None else number(team), torch.device(device).type
    _make(key, nbytes) # without a team, too, because all PEs allocate


def take(fn: str, team: shmem.Team | None, device: torch.device,
         *parts: tuple[Any, torch.dtype]) -> list[torch.Tensor]:
    """Symmetric tensors of these shapes and types, until the second call after this one."""
    nbytes = 0
    for shape, dtype in parts:
        nbytes += -(-math.prod(shape) * dtype.itemsize // ALIGN) * ALIGN
    key, on_gpu = (number(team), device.type), device.type == "cuda"
    capturing = on_gpu and torch.cuda.is_current_stream_capturing()
    space = next((s for s in _spaces.get(key, ()) if s.nbytes >= nbytes), None)
    if space is None:
        if capturing:
            raise shmem.Error(line(f"torch.{fn}", f"no workspace of {nbytes} bytes yet, and a "
                                   "graph cannot make one: call it before the capture, or reserve"))
        space = _make(key, nbytes)
    if capturing:
        shmem.sync(team, torch.cuda.current_stream())
    return (space.captured if capturing else space.next()).cut(parts)


def on_the_heap(x: torch.Tensor) -> bool:
    """Whether x lies in an array of the package."""
    at, starts = x.data_ptr(), _memory._starts
    i = bisect.bisect_right(starts, at) - 1
    return i >= 0 and at + x.nbytes <= _memory._ends[starts[i]]


def ranks_of(name: str) -> list[int]:
    """The PEs of a group of torch.distributed, by its name."""
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _resolve_process_group

    if dist.get_world_size() != shmem.n_pes() or dist.get_rank() != shmem.my_pe():
        raise shmem.Error(line("torch.rendezvous", f"rank {dist.get_rank()} of "
                               f"{dist.get_world_size()} of the default group: expected the "
                               "numbers of this PE"))
    return dist.get_process_group_ranks(_resolve_process_group(name))
