#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py OSHRUN N PACKAGE WHAT...: pytest on N PEs with the Python package in the folder PACKAGE.
WHAT: files of this folder, variables NAME=VALUE, and options of pytest; or a program, as arguments
of Python. Skipped where no Python has what the tests need: TEST_PYTHON, the one that tools/check
makes, this one, or the system's."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

FINDS = """import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))"""
HERE = Path(__file__).resolve().parent


def python_with(*modules, wanted=True):
    kept = [p / "bin/python" for p in HERE.parents[1].glob("build-check/python*")]
    for path in [os.environ.get("TEST_PYTHON"), *kept, sys.executable, "/usr/bin/python3"]:
        if path and shutil.which(path) and subprocess.run(
                [path, "-c", FINDS, *modules], capture_output=True).returncode == 0:
            return str(path)
    if not wanted:
        return None
    print(f"no Python here has all of {', '.join(modules)}")
    sys.exit(77)


def main():
    oshrun, n, package, *what = sys.argv[1:]
    variables = dict(word.split("=", 1) for word in what if word.split("=")[0].isupper())
    numpy = variables.get("ARRAYS") == "numpy"
    python = python_with("pytest", "numpy", *([] if numpy else ["torch", "triton"]))
    words = [str(HERE / w) if w.startswith("test_") else w for w in what
             if w.split("=")[0] not in variables]
    program = any(w.endswith(".py") and Path(w).parent != HERE for w in words)
    done = subprocess.run(
        [oshrun, "-n", n, python, *(words if program else [
            "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *(words or [str(HERE)])])],
        env={**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1",
             "OMP_NUM_THREADS": "1", **variables},
        capture_output=True, text=True)
    passed = int(n) if program else done.stdout.count(" passed")
    if done.returncode or passed != int(n):
        print(done.stdout, done.stderr, sep="\n")
        print(f"status {done.returncode}, and {passed} of {n} PEs passed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
