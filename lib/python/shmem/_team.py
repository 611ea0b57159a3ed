# SPDX-License-Identifier: MIT
"""Teams: ordered sets of PEs that do collectives together."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from . import _checked, _job
from . import _library as c
from ._array import line
from ._library import Error, lib


PREDEFINED = c.SHMEM_TEAM_WORLD, c.SHMEM_TEAM_SHARED
known: dict[int, Team] = {} # by handle: teams that can be destroyed, and have not been
at_destroy: list[Callable[[int], None]] = [] # called to forget a handle, which another team may get
_job.at_finalize.append(known.clear)


class Team:
    """PEs of the job, numbered from 0 in the team's own order. The end of a `with` destroys the
    team."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._me, self._n = lib.shmem_team_my_pe(handle), lib.shmem_team_n_pes(handle)
        if handle and handle not in PREDEFINED:
            known[handle] = self

    def __repr__(self) -> str:
        return f"<shmem.Team: PE {self._me} of {self._n}>"

    def my_pe(self) -> int:
        """This PE's number in the team."""
        return self._me

    def n_pes(self) -> int:
        return self._n

    def translate(self, pe: int, to: Team | None = None) -> int:
        """The number of PE `pe` of this team in another team, or in the world; -1: the PE is not a
        member there."""
        return lib.shmem_team_translate_pe(self._valid("translate"), pe,
                                           to.handle if to else c.SHMEM_TEAM_WORLD)

    def pes(self) -> list[int]:
        """The members' numbers in the world."""
        return [self.translate(pe) for pe in range(self._n)]

    def split_strided(self, start: int, stride: int, size: int) -> Team | None:
        """The team of PEs start, start + stride, ... of this team. All members of this team call.
        None: this PE is not a member of the new team."""
        new = ctypes.c_void_p()
        if lib.shmem_team_split_strided(self._valid("split_strided"), start, stride, size, None, 0,
                                        ctypes.byref(new)):
            raise Error(line("Team.split_strided", f"start = {start}, stride = {stride}, size = "
                             f"{size}: no team of the {self._n} PEs of this one"))
        return Team(new.value) if new.value else None

    def split_2d(self, xrange: int) -> tuple[Team, Team]:
        """The teams of this PE's row, of xrange PEs, and of its column. All members call."""
        x, y = ctypes.c_void_p(), ctypes.c_void_p()
        if xrange < 1 or lib.shmem_team_split_2d(self._valid("split_2d"), xrange, None, 0,
                                                 ctypes.byref(x), None, 0, ctypes.byref(y)):
            raise Error(line("Team.split_2d", f"xrange = {xrange}: no teams of the {self._n} PEs"))
        return Team(x.value or 0), Team(y.value or 0)

    @staticmethod
    def from_list(pes: Iterable[int], parent: Team | None = None) -> Team:
        """The team of these PEs of the parent, or of the world, in this order. The members call,
        and no other PE."""
        numbers = list(pes)
        whole = parent or world()
        if len(set(numbers)) != len(numbers) or not numbers or not all(
                isinstance(pe, int) and 0 <= pe < whole.n_pes() for pe in numbers):
            raise Error(line("Team.from_list", f"pes = {numbers}: expected different PEs, from 0 "
                             f"to {whole.n_pes() - 1}"))
        if whole.my_pe() not in numbers:
            raise Error(line("Team.from_list", f"pes = {numbers}: this PE is not among them"))
        new = ctypes.c_void_p()
        if lib.shmemx_team_create(whole.handle, (ctypes.c_int * len(numbers))(*numbers),
                                  len(numbers), None, 0, ctypes.byref(new)):
            raise Error(line("Team.from_list", f"pes = {numbers}: no team could be made"))
        return Team(new.value or 0)

    @staticmethod
    def from_group(group: Any) -> Team:
        """The team of the members of a group of torch.distributed, in its order. The members call,
        and no other PE.
        Ranks of the default group are PEs of the same number."""
        import torch.distributed as dist

        return Team.from_list(dist.get_process_group_ranks(group))

    def copy_engines(self, on: bool) -> None:
        """From here on all_gather, all_to_all and broadcast on streams use the GPUs' copy engines,
        and no compute unit; False: kernels again. All members call, while no such collective is
        running."""
        lib.shmemx_team_copy_engines(self._valid("Team.copy_engines"), int(bool(on)))

    def destroy(self) -> None:
        """All members call."""
        if known.pop(self.handle, None):
            for forget in at_destroy:
                forget(self.handle)
            lib.shmem_team_destroy(self.handle)
        self.handle = 0
        _checked.forget()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()

    def _valid(self, fn: str) -> int:
        _job._ready(fn)
        if not self.handle:
            raise Error(line(fn, "team: has been destroyed"))
        return self.handle


def handle(team: Team | None, fn: str) -> int:
    """The handle of a team; None: of the world."""
    if team is None:
        _job._ready(fn)
        return c.SHMEM_TEAM_WORLD
    if not isinstance(team, Team):
        raise Error(line(fn, f"team: a {type(team).__name__}, which is no shmem.Team"))
    return team._valid(fn)


def size(team: Team | None) -> int:
    return _job.n if team is None else team._n


def world() -> Team:
    """All PEs."""
    _job._ready("world")
    return Team(c.SHMEM_TEAM_WORLD)


def shared() -> Team:
    """The PEs of this node, whose memory this PE has mapped."""
    _job._ready("shared")
    return Team(c.SHMEM_TEAM_SHARED)
