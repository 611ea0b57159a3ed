# SPDX-License-Identifier: MIT
"""The types of nvshmem.core: numbers, streams, unique ids, and teams by name and number."""
from __future__ import annotations

import enum
from typing import Any

import shmem

from .. import _job
from .. import _library as c
from .._array import line
from .._library import Error


class NvshmemWarning(UserWarning):
    pass


class Version:
    def __init__(self, openshmem_spec_version: str = "", nvshmem4py_version: str = "",
                 libnvshmem_version: str = "") -> None:
        self.openshmem_spec_version = openshmem_spec_version
        self.nvshmem4py_version = nvshmem4py_version
        self.libnvshmem_version = libnvshmem_version

    def __repr__(self) -> str:
        return (f"Version({self.openshmem_spec_version!r}, {self.nvshmem4py_version!r}, "
                f"{self.libnvshmem_version!r})")


class ComparisonType(enum.IntEnum):
    CMP_EQ, CMP_NE, CMP_GT = c.SHMEM_CMP_EQ, c.SHMEM_CMP_NE, c.SHMEM_CMP_GT
    CMP_LE, CMP_LT, CMP_GE = c.SHMEM_CMP_LE, c.SHMEM_CMP_LT, c.SHMEM_CMP_GE


class SignalOp(enum.IntEnum):
    SIGNAL_SET, SIGNAL_ADD = c.SHMEM_SIGNAL_SET, c.SHMEM_SIGNAL_ADD


class InitStatus(enum.IntEnum):
    STATUS_NOT_INITIALIZED, STATUS_IS_BOOTSTRAPPED, STATUS_IS_INITIALIZED = range(3)


class ThreadSupport(enum.IntEnum):
    THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = range(4)


class NvshmemStream:
    """A stream of PyTorch for calls that want `__cuda_stream__`."""

    def __init__(self, pt_stream: Any) -> None:
        self.pt_stream, self.handle = pt_stream, pt_stream.cuda_stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class NvshmemKernelObject:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    @staticmethod
    def from_handle(handle: int) -> NvshmemKernelObject:
        return NvshmemKernelObject(int(handle))

    @staticmethod
    def from_triton(kernel: Any) -> NvshmemKernelObject:
        return NvshmemKernelObject(int(kernel.handle))


class UniqueID:
    """128 bytes that any transport of Python's takes: pickle, or the buffer of `_data`."""

    def __init__(self, data: bytes = bytes(128)) -> None:
        import numpy

        self._data = numpy.frombuffer(bytearray(data), dtype=numpy.uint8)

    @property
    def ptr(self) -> int:
        return self._data.ctypes.data

    def __bytes__(self) -> bytes:
        return self._data.tobytes()


class TeamConfig:
    def __init__(self) -> None:
        self.version, self.num_contexts = 1, 0


class _Teams:
    """Names of teams and their numbers."""

    def __init__(self) -> None:
        self._members: dict[str, int] = {}
        self._teams: dict[int, shmem.Team] = {}
        self.clear()

    def clear(self) -> None:
        self._members.clear()
        self._members.update(TEAM_INVALID=-1, TEAM_WORLD=0, TEAM_SHARED=1, TEAM_NODE=2)
        self._teams.clear()

    def add(self, key: str, value: int) -> None:
        if key in self._members:
            raise ValueError(f"Member '{key}' already exists.")
        self._members[key] = value

    def remove(self, key: str) -> None:
        del self._members[key]

    def __getattr__(self, key: str) -> int:
        try:
            return self.__dict__["_members"][key]
        except KeyError:
            raise AttributeError(f"No such member: {key}") from None

    def __getitem__(self, key: str) -> int:
        return self._members[key]

    def __contains__(self, key: object) -> bool:
        return key in self._members

    def __iter__(self) -> Any:
        return iter(self._members)

    def keys(self) -> Any:
        return self._members.keys()

    def values(self) -> Any:
        return self._members.values()

    def items(self) -> Any:
        return self._members.items()

    def new(self, team: shmem.Team | None, name: str | None, prefix: str = "TEAM_") -> int | None:
        if team is None or team.n_pes() < 1:
            return None
        number = max(self._teams, default=5) + 1
        self.add(name or f"{prefix}{number}", number)
        self._teams[number] = team
        return number

    def of(self, number: Any, fn: str) -> shmem.Team:
        if number == 0:
            return shmem.world()
        if number in (1, 2):
            return shmem.shared()
        if number not in self._teams:
            raise Error(line(fn, f"team = {number!r}: there is no such team"))
        return self._teams[number]


Teams = _Teams()
_job.at_finalize.append(Teams.clear)
