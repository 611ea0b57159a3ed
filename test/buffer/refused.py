#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory that cannot be made symmetric: one line names the routine, the argument and the cause, the
job ends with a status, and nothing is left. Usage: refused.py, with OSHRUN and VICTIM in the
environment."""
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import faults  # noqa: E402

CASES = {
    "null": "register: ptr = NULL: not a buffer",
    "empty": "register: bytes = 0: not the size",
    "huge": "register: bytes = 18446744073709551615: not the size",
    "no handle": "register: handle = NULL",
    "sizes": "register: bytes = 100 on PE 0, but 200 on PE 1",
    "freed": r"register: ptr = 0x\w+: there is no memory at 0x\w+: freed",
    "read-only": r"register: ptr = 0x\w+: the memory at 0x\w+ cannot be written to",
    "shared": r"register: ptr = 0x\w+: the memory at 0x\w+ is shared",
    "stack": r"register: ptr = 0x\w+: the memory at 0x\w+ is a stack",
    "heap": r"register: ptr = 0x\w+: 100 bytes from there meet what is symmetric already",
    "static": r"register: ptr = 0x\w+: 100 bytes from there meet what is symmetric already",
    "pinned": r"register: ptr = 0x\w+: a GPU has these pages",
    "overlap": r"register: ptr = 0x\w+: 100 bytes from there overlap the buffer of 100 bytes at 0x",
    "many": "register: 1024 buffers are registered",
    "unknown": r"unregister: handle = 0x\w+: not of a registered buffer",
    "twice": r"unregister: handle = 0x\w+: not of a registered buffer",
    "gone": "shmem_int_p: dest = 0x.*: not a symmetric address: .*registered buffer",
    "device:freed": r"register: ptr = 0x\w+: there is no memory at 0x\w+: freed",
    "device:other": r"register: ptr = 0x\w+: memory of GPU \d, and this PE has its heap on GPU \d",
    "device:end": r"register: ptr = 0x\w+: 1000 bytes from there, but its allocation on GPU \d "
                  r"ends after 536",
    "device:overlap": r"register: ptr = 0x\w+: 1000 bytes from there overlap the buffer of 100 "
                      r"bytes at 0x",
    "device:alike": "register: ptr lies 0 bytes behind a multiple of 16 on PE 0, but 7 on PE 1",
    "team:sizes": "team_buffer_register: bytes = 100 on PE 1, but 200 on PE 2",
    "team:invalid": "team_buffer_register: team = SHMEM_TEAM_INVALID: this PE is not a member",
    "team:put": r"shmem_int_p: dest = 0x\w+: in a buffer of 100 bytes that PE 0 does not have",
    "team:atomic": r"shmem_int_atomic_fetch_inc: dest = 0x\w+: in a buffer of 100 bytes that PE 0 "
                   r"does not have",
    "team:stream": r"shmemx_int_sum_reduce_on_stream: dest = 0x\w+: in a buffer of 100 bytes that "
                   r"PE 0 does not have",
    "team:product": r"shmemx_matmul_all_reduce_on_stream: c = 0x\w+: in a buffer of 100 bytes that "
                    r"PE 0 does not have",
    "team:others": "shmem_int_p: dest = 0x.*: not a symmetric address: .*registered buffer",
    "team:destroy": "shmem_team_destroy: team: 1 buffers are registered with it",
    "team:part": "longer than SHMEM_WAIT_LIMIT",
    "device:host": "register: ptr is in device memory on PE 0, but not on PE 1",
}


CHECK = {"SHMEM_CHECK": "1"}
KERNEL = r"; in block \(0,0,0\), thread \("


def one(name, line):
    what, _, how = name.partition(":")
    env = {"SHMEM_CPU_DEVICES": "2"} | ({"SHMEM_WAIT_LIMIT": "1"} if how == "part" else {})
    if how in ("stream", "product", "other"):  # the GPU is open before there is such memory
        env["SHMEM_DEVICE_SIZE"] = "64M"
    job = faults.Job(3 if what == "team" else 2, what, how, env=env)
    if name == "device:other" and job.rc == 77:
        print("device:other: this machine has one GPU")
    else:
        faults.says(job, line, 2 if name == "twice" else 1)


def main():
    faults.together(3, lambda case: one(*case), list(CASES.items()))
    faults.says(faults.Job(2, "past end", "", env={"SHMEM_CPU_DEVICES": "2"} | CHECK),
                "104 bytes from there reach past the end of the registered buffer")
    job = faults.Job(2, "unmapped")
    job.expect(job.rc == 0 and not job.lines, f"unmapped: {job.rc} {job.lines}")
    faults.VICTIM = os.environ["KERNELS"]
    faults.says(faults.Job(2, "past", env=CHECK),
                r"PE 1: shmem_long_put: dest = 0x\w+: 16 bytes from there reach past the end of "
                r"the "
                "registered buffer" + KERNEL + "3")
    for env in {}, CHECK:
        faults.says(faults.Job(3, "outside", env=env),
                    r"PE 1: shmem_long_p: dest = 0x\w+: in a buffer that PE 0 does not have: .*" +
                    KERNEL + "2")
    return faults.finish()


if __name__ == "__main__":
    sys.exit(main())
