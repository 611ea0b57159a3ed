# SPDX-License-Identifier: MIT
"""Tests of what is installed: installed.py CASE, as launch.py."""

import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from launch import BUILD, ENV, HERE, TMP, kernels, main, programs, run  # noqa: E402


def installed():
    """The folder of the tools. The tree is moved after the installation, so nothing may depend
    on where it was put."""
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", TMP / "first")
    (TMP / "first").rename(TMP / "moved here")
    return next((TMP / "moved here").rglob("oshcc")).parent


def case_installed_program():
    oshcc = installed() / "oshcc"
    assert run(oshcc.parent / "oshCC", "--showme:version").startswith("oshc++")
    assert BUILD not in run(oshcc, "--showme") and str(TMP) in run(oshcc, "--showme")
    for name, of in (("oshcxx", "oshc++"), ("shmemc++", "oshc++"), ("shmemCC", "oshc++"),
                     ("shmemcxx", "oshc++"),
                     ("shmemcc", "oshcc"), ("shmemrun", "oshrun")):
        assert run(oshcc.parent / name, "--version" if name == "shmemrun"
                   else "--showme:version").startswith(of + " ")
    link = TMP / "oshcc"
    link.symlink_to(oshcc)
    assert run(link, "--showme") == run(oshcc, "--showme")
    programs(oshcc.parent, oshcc.parent / "oshrun")
    kernels(oshcc.parent)
    assert run(oshcc.parent / "shmem_info", "--version")
    assert "barrier_all" in run(oshcc.parent / "oshrun", "-n", 2, oshcc.parent / "shmem_perf",
                                "--list")
    root = oshcc.parent.parent
    for header in "shmem.h", "shmemx.h", "pshmem.h":
        assert (root / "include" / header).exists() and (root / "include/mpp" / header).exists()
    if (root / "share/man").is_dir():
        got = run("man", "-M", root / "share/man", "-w", "shmem", "shmem_env", "oshrun", "oshcc",
                  "oshc++", "oshCC",
                  "shmem_info", "shmem_perf")
        assert got.count("moved here") == 8, got
        index = HERE.parent.parent / "tools/mandb"
        assert "tools/mandb " in run("meson", "install", "-C", BUILD, "--no-rebuild", "--dry-run",
                                     "--tags", "man")
        run("/bin/sh", index, root / "share/man", PATH="/nonexistent") # a system without it
        if shutil.which("mandb"):
            run(index, "share/man", MESON_INSTALL_PREFIX=str(root))
            assert "shmem_put (3)" in run("apropos", "-M", root / "share/man", "shmem_put")
    # Without the wrappers: what pkg-config says of the tree where it is now.
    config = ["pkg-config", "--define-variable=prefix=" + str(root).replace(" ", "\\ ")]
    ENV["PKG_CONFIG_PATH"] = str(next(root.rglob("shmem.pc")).parent)
    flags = shlex.split(run(*config, "--cflags", "--libs", "shmem"))
    exe = TMP / "plain"
    flags += [w for w in run(oshcc, "--showme:link").split() if "sanitize" in w]
    run(*shlex.split(run(oshcc, "--showme:command")), HERE / "hello.c", '-DWORDS="two  words"',
        *flags, "-o", exe)
    libdir = shlex.split(run(*config, "--variable=libdir", "shmem"))[0]
    got = run(oshcc.parent / "oshrun", "-n", 2, exe, LD_LIBRARY_PATH=libdir)
    assert sorted(got.split("\n")[:-1]) == [f"{r} of 2: two  words" for r in range(2)], got
    assert run(*config, "--modversion",
               "shmem").strip() == run(oshcc, "--showme:version").split()[-1]
    assert run(*config, "--variable=gpu", "shmem").strip()
    leaks(oshcc, Path(shlex.split(run(*config, "--variable=lsan_suppressions", "shmem"))[0]))


CMAKE = """cmake_minimum_required(VERSION 3.18)
project(of_others LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(NVSHMEM 3.0 REQUIRED)
find_package(rocshmem CONFIG REQUIRED)
add_executable(nvshmem host_nvshmem.cpp)
target_link_libraries(nvshmem PRIVATE nvshmem::nvshmem_host nvshmem::nvshmem_device)
add_executable(nvshmem_all host_nvshmem.cpp)
target_link_libraries(nvshmem_all PRIVATE nvshmem::nvshmem)
add_executable(rocshmem host_rocshmem.cpp)
target_link_libraries(rocshmem PRIVATE roc::rocshmem)
"""


def case_installed_homes():
    """Sources for NVSHMEM and rocSHMEM by their own build lines, in prefixes that look like
    theirs."""
    bin = installed()
    source, homes = HERE.parent / "compat", bin.parent / "share/shmem"
    asan = [w for w in run(bin / "oshcc", "--showme:link").split() if "sanitize" in w]
    compiler = [*shlex.split(run(bin / "oshc++", "--showme:command")), "-std=c++17", *asan]
    for name, *libs in (("nvshmem", "-lnvshmem_host", "-lnvshmem_device"), ("nvshmem", "-lnvshmem"),
                        ("rocshmem", "-lrocshmem")):
        home, exe = homes / name, TMP / "of others"
        run(*compiler, f"-I{home}/include", source / f"host_{name}.cpp", f"-L{home}/lib", *libs,
            f"-Wl,-rpath,{home}/lib", "-o", exe)
        run(bin / "oshrun", "-n", 2, exe)
    (TMP / "plain.c").write_text(
        "#include <shmem.h>\nint main(void) { shmem_init(); shmem_finalize(); }\n")
    lib = next((bin.parent).rglob("libsma.so")).parent
    run(*shlex.split(run(bin / "oshcc", "--showme:command")), *asan, f"-I{bin.parent}/include",
        TMP / "plain.c", f"-L{lib}", "-lsma",
        f"-Wl,-rpath,{lib}", "-o", TMP / "plain")
    run(bin / "oshrun", "-n", 2, TMP / "plain")
    # Each header of the folder of the others' names is in one of the two, and leads to it.
    there = {p.name for p in (bin.parent / "include/shmem/compat").iterdir()}
    shown = {p.name: p for home in homes.iterdir() for p in (home / "include").iterdir()}
    assert there <= shown.keys() and all(p.exists() for p in shown.values()), there ^ shown.keys()
    if not shutil.which("cmake"):
        return print("no cmake here: that part is left out")
    for file in source.glob("host_*.cpp"):
        shutil.copy(file, TMP)
    (TMP / "CMakeLists.txt").write_text(CMAKE)
    run("cmake", "-S", TMP, "-B", TMP / "cmake",
        f"-DCMAKE_PREFIX_PATH={homes}/nvshmem;{homes}/rocshmem",
        f"-DCMAKE_CXX_COMPILER={compiler[-2 - len(asan)]}", f"-DCMAKE_CXX_FLAGS={' '.join(asan)}")
    run("cmake", "--build", TMP / "cmake")
    for name in "nvshmem", "nvshmem_all", "rocshmem":
        run(bin / "oshrun", "-n", 2, TMP / "cmake" / name)


def leaks(oshcc, suppressions):
    """A program with AddressSanitizer hears nothing of PMIx's leaks by what is installed, and
    still of its own."""
    assert suppressions == oshcc.parent.parent / "share/libshmem/lsan.supp", suppressions
    assert suppressions.exists(), suppressions
    if "TracerPid:\t0\n" not in Path("/proc/self/status").read_text():
        return print("traced, so LeakSanitizer cannot look")
    exe, asan = TMP / "leaks", ["-g", "-O0", "-fsanitize=address"]
    env = {"LSAN_OPTIONS": f"suppressions='{suppressions}'",
           "ASAN_OPTIONS": "fast_unwind_on_malloc=0"}
    run(oshcc, *asan, HERE / "hello.c", '-DWORDS="x"', "-o", exe)
    assert sorted(run(oshcc.parent / "oshrun", "-n", 2, exe,
                      **env).split("\n")) == ["", "0 of 2: x", "1 of 2: x"]
    (TMP / "own.c").write_text("#include <shmem.h>\n#include <stdlib.h>\nvoid *volatile p;\n"
                               "int main(void) { shmem_init(); p = malloc(12345); p = 0; "
                               "shmem_finalize(); }\n")
    run(oshcc, *asan, TMP / "own.c", "-o", exe)
    assert "12345 byte(s) leaked" in run(oshcc.parent / "oshrun", "-n", 1, exe, status=None, **env)


def case_installed_amd():
    """Eleven runs, of which the long ones are stopped, all within the time, and a file that says
    all of it."""
    file, info = TMP / "amd.txt", installed() / "shmem_info"
    began = time.monotonic()
    done = subprocess.run([info, "doctor", "--amd", "--seconds", "50", file],
                          env={**ENV, "SHMEM_CPU_DEVICES": "2"}, text=True,
                          capture_output=True)
    assert done.returncode == 1 and not done.stderr, done
    assert time.monotonic() - began < 60, time.monotonic() - began
    lines, text = done.stdout.splitlines(), file.read_text()
    assert [line.split()[:4] for line in lines[:3]] == [["ok", str(i), "of", "11"]
                                                        for i in (1, 2, 3)], done.stdout
    assert len(lines) == 12 and re.fullmatch(r"(ok|FAIL) +6 of 11 +kernels of 2 PEs +\d+ s, .*",
                                             lines[5]), done.stdout
    assert any(re.fullmatch(r"FAIL .* s, was stopped", line) for line in lines[3:9]), done.stdout
    assert text.startswith("libshmem ") and ", 2 GPUs\n" in text and text.endswith(
        "\n== all\n" + "\n".join(lines[:11]) + "\n")
    assert "all is well\n" in text and text.count("\n== ") == 12 and "-n 4 " in text, text
    left = subprocess.run(["pgrep", "-f", str(TMP)], text=True, capture_output=True).stdout.split()
    assert not left, left
    for words in ["--seconds", "0"], ["--second"], ["a", "b"]:
        assert "unknown argument" in run(info, "doctor", "--amd", *words, status=2)
    assert "No such file" in run(info, "doctor", "--amd", TMP / "absent/x", status=2)


if __name__ == "__main__":
    main(globals())
