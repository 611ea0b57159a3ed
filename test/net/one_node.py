#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kernels that reach PEs of one node only run there, and a job with other nodes ends with one line.
Usage: one_node.py OSHRUN PROGRAM [ARGUMENTS]"""
import os
import subprocess
import sys

oshrun, *program = sys.argv[1:]


def run(**variables):
    return subprocess.run([oshrun, "-n", "2", *program], capture_output=True, text=True, timeout=60,
                          env=os.environ | variables)


done = run()
assert done.returncode == 0, done
done = run(SHMEM_P2P="0")
lines = done.stderr.splitlines()
assert done.returncode and lines and all("compile it without SHMEM_ONE_NODE" in line
                                         for line in lines) and len(lines) <= 2, done
