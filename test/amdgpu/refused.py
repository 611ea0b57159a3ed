#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""refused.py OSHRUN SHMEM_INFO PROGRAM KERNELS NODES: the driver's refusals, on machines like
that of NODES but for a line. PROGRAM is a host program that inits and finalizes several times,
KERNELS one with a device heap. All PEs go on without a device heap, with one line, or end with one
where it was asked for; shmem_info doctor knows the cause. The environment has the driver's
library."""
import os
import re
import subprocess
import sys
import tempfile

oshrun, info, program, kernels, machine = sys.argv[1:]
QUIET = {"SHMEM_SYMMETRIC_SIZE": "16m"}
failed = 0


def run(command, nodes, **more):
    with tempfile.NamedTemporaryFile("w") as file:
        with open(machine) as like:
            print(like.read(), nodes, sep="\n", file=file, flush=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                              env={**os.environ, **QUIET, "AMDGPU_NODES": file.name, **more})
    said = [line for line in done.stderr.splitlines() if line.startswith(("shmem: ", "amdgpu: "))]
    return done.returncode, said, done.stdout


def check(what, good, seen):
    global failed
    failed += not good
    print(f"{'ok' if good else 'NOT OK'}: {what}: {seen}")


def job(what, nodes, lines, fine=True, exe=program, n=2, **more):
    status, said, out = run([oshrun, "-n", str(n), exe], nodes, **more)
    check(what, (status == 0) == fine and len(said) == len(lines)
          and all(re.search(p, s) for p, s in zip(lines, said)), (status, said, out))


def doctor(what, nodes, pattern):
    _, _, out = run([info, "doctor"], nodes)
    check("doctor: " + what, re.search(pattern, out),
          [line for line in out.splitlines() if re.search("GPU|kfd", line)])


# Kernels of the mainline have no calls for IPC. The runtime says so of the export, ROCr 6.1 of the
# import.
no_ipc = "ipc 0"
at_gpu = (r"(GPU \d: hipIpcGetMemHandle of the symmetric heap|"
          r"the symmetric heap of PE \d .*: hipIpcOpenMemHandle: )")
job("no IPC", no_ipc, ["no device heap, because GPU memory cannot be shared: " + at_gpu],
    SHMEM_DEVICE="0")
for name, value in ("SHMEM_DEVICE_SIZE", "16m"), ("SHMEM_HEAP", "device"):
    job(f"no IPC, but {name}", no_ipc, [r"PE \d: " + at_gpu], fine=False, exe=kernels,
        **{name: value})
job("no IPC, and none wanted", no_ipc, [], SHMEM_DEVICE_SIZE="0")
job("no IPC, but one PE needs none", no_ipc, [], exe=kernels, n=1)
# ROCr from 6.3 on can do without, by dmabufs that go over a socket
if "libkfd" in os.environ.get("LD_PRELOAD", ""):
    for nodes in no_ipc, "":
        job(f"no IPC, but dmabufs ({nodes})", nodes, [], exe=kernels,
            HSA_ENABLE_IPC_MODE_LEGACY="0", SHMEM_HEAP="device")
doctor("no IPC", no_ipc,
       r"hipIpcGetMemHandle: .*\n.*the driver does not export GPU memory|FAIL .* maps its memory: "
       r"hipIpcOpenMemHandle: ")
# A user who may not open the device sees no GPU, and host programs run.
job("no right to the device", "open 0", [])
job("no right to the device, but SHMEM_HEAP", "open 0",
    [r"SHMEM_HEAP = \"device\": PE \d sees no GPU"], fine=False, SHMEM_HEAP="device")
doctor("no right to the device", "open 0", r"GPUs: none")
# Memory that was exported is not given back (ROCm 7.2): of 600 MiB there is room for one heap of
# this size.
job("exported memory stays", "pins 1\nmemory_mib 600", [], SHMEM_DEVICE_SIZE="256m")
doctor("all is well", "", r"GPU 0: another process maps its memory")
sys.exit(failed > 0)
