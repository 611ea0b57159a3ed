# SPDX-License-Identifier: MIT
"""Shared by compare and network: shmem_perf built with another library, and how both are run."""

import glob
import os
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PERF_SOURCES = os.path.normpath(os.path.join(HERE, "..", "..", "tools", "shmem_perf"))


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: error: {message}")


def environment(extra):
    env = dict(os.environ)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    for word in extra:
        name, equals, value = word.partition("=")
        if not equals or not name:
            fail(f"'{word}' is not NAME=VALUE")
        env[name] = value
    return env


def existing(option, given, candidates):
    for path in [given] if given else candidates:
        found = shutil.which(path)
        if found:
            return found
    fail(f"{option}: no such program: {given or ' or '.join(candidates)}")


def build_peer(oshcc, cflags, folder):
    program = os.path.join(folder, "shmem_perf_peer")
    sources = sorted(glob.glob(os.path.join(PERF_SOURCES, "*.c")))
    if not sources:
        fail(f"no sources in {PERF_SOURCES}")
    command = [oshcc, "-std=c11", *shlex.split(cflags), "-o", program, *sources, "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, env=environment([]))
    if built.returncode != 0:
        fail(f"{oshcc} cannot build shmem_perf:\n{built.stderr.strip()}")
    return program
