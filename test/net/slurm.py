#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Jobs of a real Slurm of two nodes. Usage: nodes 2 slurm slurm.py CASE OSHRUN PROGRAM FAR, where
PROGRAM checks what PEs store at each other, and FAR ends as it is told."""
import subprocess
import sys
import time

case, oshrun, program, far = sys.argv[1:]
SRUN = ["srun", "--mpi=pmix", "--overcommit"]


def job(*words, status=0, seconds=15):
    start = time.monotonic()
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60)
    except subprocess.TimeoutExpired as e:
        sys.exit(f"{' '.join(words)}: still there after 60 s: {(e.stdout or b'').decode()}")
    took = time.monotonic() - start
    print(f"{' '.join(words)}: status {done.returncode} after {took:.1f} s")
    good = done.returncode == status if status is not None else done.returncode != 0
    if not good or took > seconds:
        sys.exit(f"wanted status {status} within {seconds} s:\n{done.stdout}")
    return done.stdout


def no_process_left():
    for _ in range(50):
        if subprocess.run(["pgrep", "-f", f"^{far} "], stdout=subprocess.DEVNULL).returncode:
            return
        time.sleep(0.1)
    sys.exit("processes are left")


if case == "block":
    for n in "24":
        job(*SRUN, "-N", "2", "-n", n, program)
elif case == "cyclic":
    for n in "345":
        job(*SRUN, "-N", "2", "-n", n, "-m", "cyclic", program)
elif case == "plane":
    job(*SRUN, "-N", "2", "-n", "4", "-m", "plane=1", program)
    # The PEs of a node are not at equal distances then.
    job(*SRUN, "-N", "2", "-n", "8", "-m", "plane=2", program)
elif case == "uneven":
    job(*SRUN, "-N", "2", "-n", "3", program)
    job(*SRUN, "-N", "2", "-n", "5", program)
elif case == "one-a-node":
    job(*SRUN, "-N", "2", "--ntasks-per-node=1", program)
elif case == "kill":
    text = job(*SRUN, "-N", "2", "-n", "4", far, "die", status=None)
    if "PE " not in text:
        sys.exit(f"no PE is named: {text}")
    no_process_left()
elif case == "status":
    for m in "block", "cyclic":
        job(*SRUN, "-N", "2", "-n", "4", "-m", m, far, "exit", "7", status=7)
    no_process_left()
elif case == "oshrun":
    job("salloc", "-N", "2", "--quiet", "env", "SHMEM_LAUNCHER=srun", oshrun, "-n", "4", program)
    job("sbatch", "--wait", "-N", "2", "--quiet", "--output=/run/nodes/batch", "--wrap",
        f"SHMEM_LAUNCHER=srun {oshrun} -n 4 {program}")
else:
    sys.exit(f"no case {case}")
