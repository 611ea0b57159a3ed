# SPDX-License-Identifier: MIT
"""The C library: its routines by name, with the types of their arguments, and its structures."""
from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable

from ._routines import CONSTANTS, INITIAL, ROUTINES, STRUCTS

NAME = "libshmem.so.1"
CTYPES = {"v": None, "b": ctypes.c_byte, "B": ctypes.c_ubyte, "h": ctypes.c_short,
          "H": ctypes.c_ushort, "i": ctypes.c_int, "I": ctypes.c_uint, "l": ctypes.c_long,
          "L": ctypes.c_ulong, "q": ctypes.c_longlong, "Q": ctypes.c_ulonglong,
          "f": ctypes.c_float, "d": ctypes.c_double, "g": ctypes.c_longdouble,
          "N": ctypes.c_size_t, "n": ctypes.c_ssize_t, "P": ctypes.c_void_p}


class Error(RuntimeError):
    """A failed operation, in one line: PE, routine, argument, value, cause."""

    __module__ = "shmem"


def beside(libs: Iterable[Path]) -> list[str]:
    """The library in the first of these folders, of a prefix or of a build tree, that has one."""
    places = [q for p in libs for q in (p, *sorted(p.glob("*-linux-gnu")), p / "libshmem/lib")]
    return [str(p / NAME) for p in places if (p / NAME).exists()][:1]


def load() -> ctypes.CDLL:
    """The library. One that the process has already comes first: the program's own, or the tracer
    that oshrun loads, whose routines record a call before they do it. The next is SHMEM_LIBRARY, a
    path. If that is not set, the library is looked for beside this package, in the loader's
    folders, and beside the oshrun of PATH. Its names are global, because extensions and bitcode
    link with them."""
    loaded = ctypes.CDLL(None)
    if hasattr(loaded, "shmemx_platform"):
        return loaded
    named, prefix = os.environ.get("SHMEM_LIBRARY"), Path(shutil.which("oshrun") or "/").resolve()
    here = beside(p for p in Path(__file__).resolve().parents if p.name in ("lib", "lib64"))
    there = beside(prefix.parent.parent / name for name in ("lib", "lib64"))
    reasons = []
    for path in [named] if named else [*here, NAME, *there]:
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            reasons.append(str(error))
    raise ImportError(f"shmem: {'; '.join(reasons)}: install libshmem, or set LD_LIBRARY_PATH to "
                      f"its folder, or SHMEM_LIBRARY to {NAME}")


class Library:
    """Calls as `lib.shmem_putmem(dest, source, bytes, pe)`. A routine is looked up once."""

    def __init__(self) -> None:
        self._dll: ctypes.CDLL | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        letters = ROUTINES.get(name)
        if letters is None:
            raise AttributeError(f"libshmem has no routine {name}")
        if self._dll is None:
            self._dll = load()
        try:
            routine = self._dll[name] # a function of its own, with types of its own
        except AttributeError:
            raise Error(f"{self._dll._name} has no {name}: it is not libshmem, or older than this "
                        "package") from None
        routine.restype = CTYPES[letters[0]]
        routine.argtypes = [CTYPES[c] for c in letters[1:]]
        setattr(self, name, routine)
        return routine

    def bare(self, routine: Any) -> Any:
        """The same routine, for arguments that from_param() of its types has made."""
        assert self._dll is not None
        bare = self._dll[routine.__name__]
        bare.restype = routine.restype
        return bare

    def path(self) -> str:
        """The path of the loaded library."""
        self.shmemx_platform()
        assert self._dll is not None
        with open("/proc/self/maps") as maps:
            files = {line.split()[-1] for line in maps if "/libshmem.so" in line}
        return sorted(files)[0] if files else self._dll._name


lib = Library()


def _structure(name: str) -> type:
    fields = [(field, CTYPES[letter] if n == 1 else CTYPES[letter] * n)
              for field, letter, n in STRUCTS[name]]
    first = INITIAL.get(name)

    def __init__(self: Any, **values: Any) -> None:
        ctypes.Structure.__init__(self)
        if fields[0][0] == "size":
            self.size = ctypes.sizeof(self)
        for (field, _), value in zip(fields[1:], first or []):
            setattr(self, field, value)
        for field, value in values.items():
            setattr(self, field, value)

    return type(name, (ctypes.Structure,), {"_fields_": fields, "__init__": __init__})


for _name in STRUCTS:
    globals()[_name] = _structure(_name)
globals().update(CONSTANTS)



def platform() -> str:
    """The platform of the library's build: "amd", "nvidia" or "cpu". On cpu, threads run the
    kernels, and the device heap is memory of the host."""
    return ctypes.string_at(lib.shmemx_platform()).decode()


def has_torch() -> bool:
    """Whether the program has imported PyTorch. This package never imports PyTorch first, because
    the import takes seconds."""
    return "torch" in sys.modules
