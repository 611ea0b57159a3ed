# SPDX-License-Identifier: MIT
"""python -m shmem.iris program.py [ARGUMENT...]: runs a program that says `import iris`."""
from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m shmem.iris program.py [ARGUMENT...]")
    program = sys.argv[1]
    # A folder, and not an entry of sys.modules, because the program may start processes.
    folder = str(Path(__file__).parent / "as_iris")
    package = str(Path(__file__).parents[2])
    paths = [folder, package, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = [str(Path(program).resolve().parent), folder]
    sys.argv = sys.argv[1:]
    # The program becomes __main__: processes that the program spawns look for it there.
    main = sys.modules["__main__"]
    main.__spec__, main.__file__ = None, program
    try:
        code = compile(Path(program).read_bytes(), program, "exec")
    except OSError as error:
        sys.exit(f"shmem.iris: {program}: {error.strerror}")
    exec(code, main.__dict__)  # noqa: S102  the program


if __name__ == "__main__":
    main()
