# SPDX-License-Identifier: MIT
"""Where the package finds the library, in processes that are no PEs."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import shmem
from shmem._library import lib

PATH = "import shmem; print(shmem._library.lib.path())"


def python(text, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SHMEM_LIB", "LD_"))}
    return subprocess.run([sys.executable, "-S", "-c", text], env={**env, **variables}, text=True,
                          capture_output=True)


def copied(folder):
    """The package in a folder that has no library."""
    shutil.copytree(Path(shmem.__file__).parent, folder / "shmem")
    return {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}


def test_beside():
    assert os.path.samefile(python(PATH).stdout.strip(), lib.path())


def test_named(tmp_path):
    away = copied(tmp_path)
    found = python(PATH, SHMEM_LIBRARY=lib.path(), **away)
    assert os.path.samefile(found.stdout.strip(), lib.path()), found
    wrong = python(PATH, SHMEM_LIBRARY="/none/libshmem.so.1")
    assert wrong.returncode and wrong.stderr.splitlines()[-1].startswith(
        "ImportError: shmem: /none/libshmem.so.1: cannot open"), wrong


def test_another_library():
    """A library without a routine of this package's."""
    found = python("import shmem; shmem.init()", SHMEM_LIBRARY="libc.so.6")
    assert found.returncode and found.stderr.splitlines()[-1] == (
        "shmem.Error: libc.so.6 has no shmem_init_thread: it is not libshmem, or older than this "
        "package"), found


def test_by_the_loader(tmp_path):
    away = copied(tmp_path)
    found = python(PATH, LD_LIBRARY_PATH=str(Path(lib.path()).parent), **away)
    assert os.path.samefile(found.stdout.strip(), lib.path()), found


def test_beside_oshrun(tmp_path):
    """PATH is all that an installed tree needs."""
    away = copied(tmp_path / "site")
    (tmp_path / "prefix/bin").mkdir(parents=True)
    (tmp_path / "prefix/lib64").mkdir()
    (tmp_path / "prefix/bin/oshrun").write_text("#!/bin/sh\n")
    (tmp_path / "prefix/bin/oshrun").chmod(0o755)
    (tmp_path / "prefix/lib64/libshmem.so.1").symlink_to(lib.path())
    away["PATH"] = f"{tmp_path}/prefix/bin:{away['PATH']}"
    found = python(PATH, **away)
    assert os.path.samefile(found.stdout.strip(), lib.path()), found


def test_none(tmp_path):
    found = python("import shmem; shmem.init()", **copied(tmp_path))
    if found.returncode: # no library is installed on this system
        assert "install libshmem, or set LD_LIBRARY_PATH" in found.stderr, found


def test_loaded():
    """A program's own library, even where SHMEM_LIBRARY has another path: two would be two jobs."""
    text = f"import ctypes; ctypes.CDLL({lib.path()!r}, mode=ctypes.RTLD_GLOBAL); {PATH}"
    found = python(text, SHMEM_LIBRARY="/none")
    assert os.path.samefile(found.stdout.strip(), lib.path()), found


def test_typed():
    folder = Path(shmem.__file__).parent
    assert (folder / "py.typed").exists()
