# SPDX-License-Identifier: MIT
"""python -m shmem.compat program.py [arguments], or -m module [arguments]."""
from __future__ import annotations

import os
import runpy
import sys

from . import install


def main() -> None:
    words = sys.argv[1:]
    if not words or words[0] == "-m" and len(words) == 1:
        sys.exit("usage: python -m shmem.compat program.py [arguments], or -m module [arguments]")
    install()
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
