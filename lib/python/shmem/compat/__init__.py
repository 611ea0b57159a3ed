# SPDX-License-Identifier: MIT
"""Programs for mori.shmem, nvshmem.core (nvshmem4py) and rocshmem4py, on this library:

    python -m shmem.compat program.py [arguments]

or, in a program, `shmem.compat.install()` before its imports. `DIFFERS` of each module is a table
of the differences from the other library: a name and a sentence."""
from __future__ import annotations

import importlib
import sys
import types

# The module that a program imports, and the module of this package that the program gets.
NAMES = {"mori.shmem": "mori", "mori.shmem.api": "mori", "mori.shmem.tensor_utils": "mori",
         "nvshmem.core": "nvshmem", "nvshmem.core.interop.torch": "nvshmem",
         "rocshmem4py": "rocshmem4py", "rocshmem4py.interop.torch": "rocshmem4py"}


class _Package(types.ModuleType):
    """An empty package above these modules."""

    __path__: list[str] = []


def install() -> None:
    """From now on imports of these names find this library, even if the others are installed."""
    for name, file in NAMES.items():
        sys.modules[name] = importlib.import_module(f"{__name__}.{file}")
        parent, _, last = name.rpartition(".")
        while parent:
            if parent not in NAMES and not isinstance(sys.modules.get(parent), _Package):
                sys.modules[parent] = _Package(parent)
            setattr(sys.modules[parent], last, sys.modules[f"{parent}.{last}"])
            parent, _, last = parent.rpartition(".")


def differs() -> list[tuple[str, str, str]]:
    """The rows of all three tables: package, name, difference."""
    rows = []
    for package, file in (("mori.shmem", "mori"), ("nvshmem.core", "nvshmem"),
                          ("rocshmem4py", "rocshmem4py")):
        module = importlib.import_module(f"{__name__}.{file}")
        rows += [(package, name, text) for name, text in module.DIFFERS]
    return rows
