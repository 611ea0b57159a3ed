#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far a heap grows, and what tells that it cannot. Usage: growing.py, with OSHRUN, VICTIM and
NET in the environment."""
import os
import pathlib
import re
import resource
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import faults  # noqa: E402

MIB = 1 << 20
GROW = {"SHMEM_HEAP_GROW": "1", "SHMEM_SYMMETRIC_SIZE": "4M", "SHMEM_HEAP": "host",
        "SHMEM_DEVICE_SIZE": "0"}
HUGE = 1 << 60
# the block, the variables, the status, and what one line says
DEVICE = GROW | {"SHMEM_HEAP": "device", "SHMEM_SYMMETRIC_MAX": "64M"}
FULL = "SHMEM_SYMMETRIC_SIZE sets its size"
CASES = [(40 * MIB, {"SHMEM_HEAP_GROW": "0"}, 9, FULL), (40 * MIB, {"SHMEM_HEAP_GROW": ""}, 9,
                                                         FULL),
         (40 * MIB, DEVICE | {"SHMEM_HEAP_GROW": "0"}, 9, FULL),
         (40 * MIB, DEVICE | {"SHMEM_HEAP_GROW": ""}, 0, None),
         (40 * MIB, {}, 0, None),
         (40 * MIB, {"SHMEM_SYMMETRIC_MAX": "64M"}, 0, None),
         (65 * MIB, {"SHMEM_SYMMETRIC_MAX": "64M"}, 9,
          f"of its {64 * MIB} are free.*SHMEM_SYMMETRIC_MAX sets its size"),
         (5 * MIB, {"SHMEM_SYMMETRIC_MAX": "1M"}, 9,
          f"of its {4 * MIB} are free.*SHMEM_SYMMETRIC_SIZE sets its size"),
         (HUGE, {}, 9, "the node's memory, shared by its PEs, sets its size"),
         (HUGE, {"SHMEM_SYMMETRIC_MAX": "4096t"}, 9,
          "the node's memory, shared by its PEs, sets its size")]


def one(case):
    size, env, status, pattern = case
    job = faults.Job(2, str(size), env=GROW | env)
    job.expect(job.rc == status, f"status {job.rc}: {job.lines}")
    # The launcher tells the status
    lines = [line for line in job.lines if line.startswith("shmem:")]
    job.expect(len(lines) == (pattern is not None), f"lines {lines}")
    if pattern:
        job.expect(any(re.match(f"shmem: PE 0: shmem_malloc: no {size} bytes.*{pattern}", line)
                       for line in lines), f"{lines}")


faults.together(2, one, CASES)
for value, name in (("2", "SHMEM_HEAP_GROW"), ("1x", "SHMEM_SYMMETRIC_MAX")):
    bad = faults.Job(2, "64", env=GROW | {name: value})
    bad.expect(bad.rc not in (0, 9) and any(f'{name} = "{value}"' in line for line in bad.lines),
               f"{bad.rc} {bad.lines}")

# The heap in device memory: when a call fails on one PE, the block is NULL on all, with one line,
# and the next time is as if nothing had been. Before that, at the start, it is one allocation.
CALLS = {"hipMemCreate": 2, "hipMemExportToShareableHandle": 2,
         "hipMemImportFromShareableHandle": 2, "hipMemMap": 3,
         "hipMemSetAccess": 4}


def refused(call):
    pe = str(CALLS[call] % 2)
    job = faults.Job(2, str(40 * MIB), pe, f"{call}:{CALLS[call]}:hipErrorOutOfMemory", env=DEVICE)
    job.expect(job.rc == 9, f"status {job.rc}: {job.lines}")
    lines = [line for line in job.lines if line.startswith("shmem:")]
    job.expect(len(lines) == 1 and re.match(
        f"shmem: PE {pe}: shmem_malloc: the heap in device memory cannot grow by {36 * MIB} bytes: "
        "GPU 0: out of memory",
        lines[0]), f"{lines}")
    job = faults.Job(2, str(40 * MIB), pe, f"{call}:1:hipErrorNotSupported",
                     env=DEVICE | {"SHMEM_DEBUG": "1"})
    job.expect(job.rc == 7, f"status {job.rc}: {job.lines}")
    job.expect(any("heap in device memory stays as it is: operation not supported" in line
                   for line in job.lines), f"{job.lines}")


faults.together(2, refused, list(CALLS))
full = faults.Job(2, str(65 * MIB), env=DEVICE)
full.expect(full.rc == 9 and any("SHMEM_SYMMETRIC_MAX sets its size" in line
                                 for line in full.lines), f"{full.rc} {full.lines}")
full = faults.Job(2, str(HUGE), env=DEVICE | {"SHMEM_SYMMETRIC_MAX": "0"})
full.expect(full.rc == 9 and any("the GPU's memory, shared by its PEs, sets its size" in line
                                 for line in full.lines),
            f"{full.rc} {full.lines}")

# Where files may be of 256 MiB DEBUG says what does not grow.
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (256 * MIB, hard))
for n, env, status, *patterns in (
    (2, {}, 9, "the heap stays as it is: 2 PEs would map .* ulimit -f is 268435456 bytes"),
                                (1, {"SHMEM_SYMMETRIC_MAX": "64M"}, 0,
                                 "heap of 4194304 bytes, up to 67108864,")):
    job = faults.Job(n, str(40 * MIB), env=GROW | env | {"SHMEM_DEBUG": "1"})
    job.expect(job.rc == status, f"status {job.rc}")
    for pattern in patterns:
        job.expect(any(re.search(pattern, line) for line in job.lines),
                   f"no line {pattern}: {job.lines}")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
if os.environ["NET"] != "none":
    # Each PE as on a node of its own: the least of what fits counts.
    for size, env, status in ((40 * MIB, {}, 0), (65 * MIB, {"SHMEM_SYMMETRIC_MAX": "64M"}, 9),
                              (65 * MIB, DEVICE, 9)):
        job = faults.Job(2, str(size), env=GROW | {"SHMEM_P2P": "0"} | env)
        job.expect(job.rc == status, f"{job.rc} {job.lines}")
        job.expect(not status or any("SHMEM_SYMMETRIC_MAX sets its size" in line
                                     for line in job.lines), f"{job.lines}")
sys.exit(faults.finish())
