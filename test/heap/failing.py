#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each call of HIP fails once on PE 1, on the cpu platform: one line names the PE, the GPU and the
cause, the job ends with
a status, and nothing is left. Usage: failing.py [kernels], with OSHRUN and VICTIM in the
environment."""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import faults  # noqa: E402

FIXED = {"SHMEM_HEAP_GROW": "0", "SHMEM_CPU_HOST_ACCESS": "0"}  # the device heap is one allocation
FAR = FIXED | {"SHMEM_DEVICE_SIZE": "1M"}
# call, which of them, and in what the line must name it
CALLS = [("hipSetDevice", 1, "hipSetDevice"), ("hipDeviceGetPCIBusId", 1, "hipDeviceGetPCIBusId"),
         ("hipMemGetInfo", 1, "hipMemGetInfo"),
         ("hipExtMallocWithFlags", 1, "hipExtMallocWithFlags of \\d+ bytes for the symmetric heap"),
         ("hipExtMallocWithFlags", 2, "hipExtMallocWithFlags of \\d+ bytes for flags"),
         ("hipMemset", 1, "hipMemset"), ("hipDeviceSynchronize", 1, "hipDeviceSynchronize"),
         ("hipIpcGetMemHandle", 1, "hipIpcGetMemHandle of the symmetric heap"),
         ("hipIpcGetMemHandle", 2, "hipIpcGetMemHandle of the flags"),
         ("hipIpcOpenMemHandle", 1, "the symmetric heap of PE 0 on GPU 0 .* hipIpcOpenMemHandle"),
         ("hipIpcOpenMemHandle", 2, "the flags of PE 0 on GPU 0 .* hipIpcOpenMemHandle"),
         ("hipMemcpy", 1, "hipMemcpy"), ("hipMemcpy", 9, "hipMemcpy"),
         ("hipMalloc", 1, "hipMalloc"),
         ("hipStreamCreateWithPriority", 1, "hipStreamCreateWithPriority"),
         ("hipMemcpyAsync", 1, "hipMemcpyAsync"),
         ("hipMemcpyAsync", 2, "hipMemcpyAsync"), ("hipMemcpy2DAsync", 1, "hipMemcpy2DAsync"),
         ("hipStreamSynchronize", 1, "hipStreamSynchronize"), ("hipHostMalloc", 1, "hipHostMalloc"),
         ("hipHostGetDevicePointer", 1, "hipHostGetDevicePointer"),
         ("hipLaunchKernel", 1, "an atomic"),
         ("hipLaunchKernel", 2, "shmem_\\w+_reduce"), ("hipMemsetAsync", 1, "hipMemsetAsync"),
         ("hipFree", 1, "hipFree"), ("hipHostFree", 1, "hipHostFree"),
         ("hipStreamDestroy", 1, "hipStreamDestroy")]


def one(item):
    call, nth, named = item
    job = faults.Job(2, f"{call}:{nth}:hipErrorOutOfMemory", env=FAR)
    pattern = (r"shmem: PE 1: .*GPU 0.*: .*out of memory" if "PE 0" in named
               else rf"shmem: PE 1: GPU 0: {named}.*: out of memory")
    job.expect(job.rc not in (0, 9), f"status {job.rc}")
    job.expect(len(job.lines) == 1 and re.search(pattern, job.lines[0])
               and re.search(named, job.lines[0]),
               f"no single line with {named}: {job.lines}")


def others():
    job = faults.Job(2, env=FAR)
    job.expect(job.rc == 0 and not job.lines, f"without a failure: {job.rc} {job.lines}")
    # no GPU: a host program runs, one that wants the device heap is told
    job = faults.Job(2, "hipGetDeviceCount:1:hipErrorNoDevice", env={"SHMEM_DEBUG": "1"})
    job.expect(job.rc == 9 and any("PE 1 sees no GPU" in line for line in job.lines),
               f"{job.rc} {job.lines}")
    job = faults.Job(2, env={"SHMEM_CPU_DEVICES": "0", "SHMEM_HEAP": "device"})
    job.expect(job.rc != 0 and len(job.lines) == 1 and "sees no GPU" in job.lines[0],
               f"{job.rc} {job.lines}")
    # The system refuses to share: all PEs go on without, with one line, unless they were told to
    # have it.
    for call in "hipIpcGetMemHandle", "hipIpcOpenMemHandle":
        for nth in 1, 2:
            refused = f"{call}:{nth}:hipErrorInvalidValue"
            # 9: there is no block of device memory, of which another line tells
            job = faults.Job(2, refused, env=FIXED)
            lines = [line for line in job.lines if "shmem_malloc_with_hints" not in line]
            job.expect(job.rc == 9 and len(lines) == 1
                       and "PE 1: no device heap, because" in lines[0] and call in lines[0],
                       f"{refused}: {job.rc} {job.lines}")
    job = faults.Job(2, refused, env=FIXED | {"SHMEM_QUIET": "1"})
    job.expect(job.rc == 9 and not job.lines, f"{job.rc} {job.lines}")
    job = faults.Job(2, refused, env=FIXED | {"SHMEM_HEAP": "device"})
    job.expect(job.rc not in (0, 9) and len(job.lines) == 1 and call in job.lines[0],
               f"{job.rc} {job.lines}")
    # two GPUs that do not reach each other
    env = {"SHMEM_CPU_DEVICES": "2", "SHMEM_CPU_NO_PEER": "0-1", "SHMEM_HEAP_GROW": "0"}
    job = faults.Job(2, env=env)
    job.expect(job.rc != 0 and job.lines and all(
        re.search(
            r"PE [01]: the symmetric heap of PE [01] on GPU [01] \(.*\) cannot be mapped .* GPU "
            r"[01] \(.*\): .*link: ", line)
        for line in job.lines), f"{job.rc} {job.lines}")
    job = faults.Job(2, env=env | {"SHMEM_DEVICE": "1"})
    job.expect(job.rc == 0, f"both on GPU 1: {job.rc} {job.lines}")
    for name, value, cause in (("SHMEM_DEVICE", "3", "2 GPUs"), ("SHMEM_DEVICE", "x", "number"),
                               ("SHMEM_DEVICE_SIZE", "90t", "free"),
                               ("SHMEM_WAIT_LIMIT", "-1", "seconds")):
        job = faults.Job(2, env=env | {name: value})
        job.expect(job.rc != 0 and any(f"{name} = \"{value}\"" in line and cause in line
                                       for line in job.lines),
                   f"{job.rc} {job.lines}")


def main():
    others()
    faults.together(3, one, CALLS)
    return faults.finish()


if __name__ == "__main__":
    sys.exit(main())
