#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Atomics on hipMalloc's memory of another GPU: where the program says that they cannot be had, one
line names the routine, the argument and the cause. Usage: coarse.py, with OSHRUN and VICTIM."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import faults  # noqa: E402

CASES = {
    "kernel add": "shmem_long_atomic_add: dest",
    "kernel fetch": "shmem_long_atomic_fetch: source",
    "kernel signal": "shmem_signal_add: sig_addr",
    "kernel put": "shmem_long_put_signal: sig_addr",
    "host add": "shmem_long_atomic_add: dest",
    "host fetch": "shmem_long_atomic_fetch: source",
    "host signal": "shmem_signal_add: sig_addr",
    "host lock": "shmem_set_lock: lock",
    "stream add": "shmemx_long_atomic_add_on_stream: dest",
    "stream signal": "shmemx_signal_add_on_stream: sig_addr",
}


def one(name, words):
    job = faults.Job(2, name)
    if "had" in job.out:
        job.expect(job.rc == 0 and not job.lines, f"{name}: {job.rc} {job.lines}")
        return
    line = rf"PE 1: {words} = 0x\w+: PE 0 has it in coarse-grained memory"
    if name.startswith("kernel"):
        line += r".*; in block \(0,0,0\), thread \(0,0,0\) of a kernel"
    faults.says(job, line)


if __name__ == "__main__":
    faults.together(2, lambda case: one(*case), list(CASES.items()))
    sys.exit(faults.finish())
