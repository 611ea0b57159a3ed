#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""When a GPU is opened, and which one, on the cpu platform. VICTIM in the environment is late.cpp's
program, OSHRUN the launcher."""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import faults  # noqa: E402

DEBUG = {"SHMEM_DEBUG": "1", "SHMEM_CPU_DEVICES": "4"}


def opened(n, *args, env=None):
    """The device of each PE that has opened one."""
    job = faults.Job(n, *args, env=DEBUG | (env or {}))
    job.expect(job.rc == 0, f"status {job.rc}")
    found = [re.search(r"PE (\d+): device heap of .* on GPU (\d+)", line) for line in job.lines]
    return job, {int(m[1]): int(m[2]) for m in found if m}


def expect(want, n, *args, env=None):
    job, found = opened(n, *args, env=env)
    job.expect(found == want, f"opened {found}, not {want}")


in_turn = {0: 0, 1: 1, 2: 2}
expect({}, 3, "closed")
expect({}, 3, "closed", env={"SHMEM_DEVICE": "none"})
expect({}, 3, "closed", env={"SHMEM_DEVICE_SIZE": "0"})
expect(in_turn, 3, "closed", env={"SHMEM_DEVICE_SIZE": "1M"})
expect(in_turn, 3, "closed", env={"SHMEM_HEAP": "device"})
expect({0: 2, 1: 2, 2: 2}, 3, "closed", env={"SHMEM_DEVICE": "2"})
expect({0: 0, 1: 0, 2: 0}, 3, "closed", env={"SHMEM_DEVICE": "current"})
expect(in_turn, 3, "memory")
# The device that a process has made current is its PE's; if all have device 0, none has made one
# current.
expect({0: 3, 1: 1, 2: 0}, 3, "current", "3", "1", "0")
expect(in_turn, 3, "current", "0", "0", "0")
expect({0: 0}, 1, "current", "0")
expect({0: 3, 1: 3}, 2, "current", "3", "3")
expect({0: 1, 1: 1}, 2, "current", "3", "3", env={"SHMEM_DEVICE": "1"})
expect({0: 0, 1: 0}, 2, "current", "0", "0", env={"SHMEM_DEVICE": "current"})
for what, call in ("stream", "shmemx_barrier_all_on_stream"), ("team", "shmemx_team_buffer"):
    job = faults.Job(2, what)
    faults.says(job, f"{call}.*no PE has asked for a GPU yet", most=2)
sys.exit(faults.finish())
