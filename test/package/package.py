# SPDX-License-Identifier: MIT
"""Installs the build tree into a folder of its own, moves it, and builds examples/build against it as a stranger would:
package.py SOURCE BUILD GPU. Every program runs at 2 PEs."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, BUILD, GPU = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
EXAMPLES = SOURCE / "examples/build"
# Meson sets LD_LIBRARY_PATH, which would hide a wrong rpath; a heap of 64 MiB makes many PEs cheap.
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("SHMEM_", "SMA_", "LD_LIBRARY_PATH", "MAKE"))}
ENV["SHMEM_SYMMETRIC_SIZE"] = "64M"


def run(*argv, cwd=None, **env):
    done = subprocess.run([str(a) for a in argv], env={**ENV, **env}, cwd=cwd, text=True, capture_output=True)
    assert done.returncode == 0, f"{argv}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def programs(folder, oshrun):
    """What the build left in the folder: from this tree's library, at 2 PEs, with the right results."""
    got = run(oshrun, "-n", 2, folder / "sum")
    assert sorted(got.splitlines()) == ["PE 0 of 2: the sum is 3", "PE 1 of 2: the sum is 3"], got
    assert "ring: verified" in run(oshrun, "-n", 2, folder / "ring", "--laps", 50)
    linked = run("ldd", folder / "device_hello")
    assert str(oshrun.parent.parent) in linked, linked
    if GPU == "cpu":
        got = run(oshrun, "-n", 2, folder / "device_hello")
        assert "PE 1 of 2 on GPU" in got and "PE 0 says hello" in got, got


def by_make(tmp, prefix):
    folder = tmp / "make"
    folder.mkdir()
    where = {"PATH": f"{prefix}/bin:{ENV['PATH']}", "PKG_CONFIG_PATH": str(next(prefix.rglob("shmem.pc")).parent)}
    run("make", "-f", EXAMPLES / "Makefile", f"PKG_CONFIG=pkg-config --define-variable=prefix={prefix}", cwd=folder, **where)
    programs(folder, prefix / "bin/oshrun")


def by_cmake(tmp, prefix):
    folder = tmp / "cmake"
    configure = ["cmake", "-S", EXAMPLES, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release"]
    run(*configure, "-B", folder)
    run("cmake", "--build", folder)
    programs(folder, prefix / "bin/oshrun")
    # An older version of the same major is served, a newer one and another major are not.
    own = run("pkg-config", "--modversion", next(prefix.rglob("shmem.pc"))).strip()
    major = own.split(".")[0]
    for version, good in (own, "TRUE"), (major, "TRUE"), (own + ".1", "FALSE"), (f"{int(major) + 1}.0", "FALSE"):
        script = tmp / "version.cmake"
        script.write_text(f"set(PACKAGE_FIND_VERSION {version})\nset(PACKAGE_FIND_VERSION_MAJOR {version.split('.')[0]})\n"
                          f"include({next(prefix.rglob('shmem-config-version.cmake'))})\n"
                          'file(WRITE answer "${PACKAGE_VERSION} ${PACKAGE_VERSION_COMPATIBLE}")\n')
        run("cmake", "-P", script, cwd=tmp)
        assert (tmp / "answer").read_text() == f"{own} {good}", (version, good)


def main(tmp):
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", tmp / "first")
    (tmp / "first").rename(tmp / "moved")
    prefix = next((tmp / "moved").rglob("bin/oshrun")).parent.parent
    by_make(tmp, prefix)
    if shutil.which("cmake"):
        by_cmake(tmp, prefix)
    else:
        print("no cmake here: that part is left out")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="package-") as folder:
        main(Path(folder).resolve())
