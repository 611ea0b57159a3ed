#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""visible.py OSHRUN PROGRAM GPUS: PEs that see one GPU each, or all of them, or that share some, on
a machine of so many. Each PE says which GPU it took, by its bus address, and the program checks
itself. The environment has the driver's library and the machine; SEES, for what the PEs are wrapped
in, has a list of GPUs for each PE, or `all`."""
import os
import re
import subprocess
import sys

oshrun, program, gpus = sys.argv[1], sys.argv[2], int(sys.argv[3])
WRAP = ["sh", "-c",
        'set -- "$PMIX_RANK" "$@"; me=$1; shift; set_to=$(echo "$SEES" | cut -d " " -f $((me + '
        '1)))\n'
        '[ "$set_to" = all ] || export "$BY=$set_to"\nexec "$@"', "sh"]
failed = 0


def job(what, sees, want, by="ROCR_VISIBLE_DEVICES"):
    """want: the GPU of each PE, by its place on the machine, or None for any one of those that it
    sees."""
    global failed
    env = {**os.environ, "SHMEM_DEBUG": "1", "SHMEM_DEVICE_SIZE": "16m", "SEES": " ".join(sees),
           "BY": by}
    done = subprocess.run([oshrun, "-n", str(len(sees)), *WRAP, program], capture_output=True,
                          text=True, timeout=120, env=env)
    took = {int(pe): bus for pe,
            bus in re.findall(r"PE (\d+): device heap of .* on GPU \d+ \(\w+:(\w+):", done.stderr)}
    buses = [f"{1 + gpu:02x}" if gpu is not None else took.get(pe) for pe, gpu in enumerate(want)]
    good = done.returncode == 0 and [took.get(pe) for pe in range(len(sees))] == buses
    failed += not good
    print(f"{'ok' if good else 'NOT OK'}: {what}: status {done.returncode}, buses {took}")
    if not good:
        print(done.stdout + done.stderr)


pes = 2 * gpus
each = [pe % gpus for pe in range(pes)]
job("all PEs see all", ["all"] * pes, each)
job("each sees one", [str(gpu) for gpu in each], each)
job("each sees one, by HIP", [str(gpu) for gpu in each], each, by="HIP_VISIBLE_DEVICES")
job("all see the last one", [str(gpus - 1)] * 2, [gpus - 1] * 2)
job("one sees one, the other all", [str(gpus - 1), "all"], [gpus - 1, 0])
job("in another order", [f"{gpus - 1},0"] * 2, [gpus - 1, 0])
sys.exit(failed > 0)
