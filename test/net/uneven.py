#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PEs that no launcher starts on several nodes, in any order and unevenly: uneven.py NODES PLACES
PROGRAM [ARGUMENT ...], with a digit of PLACES for each PE: the number of its node. Runs itself in
the namespaces of the nodes."""
import os
import random
import shlex
import subprocess
import sys


def start(nodes, places, words):
    """In the namespace of the bridge: all PEs, in any order. The root is PE 0's node."""
    job = {"SHMEM_BOOTSTRAP": "env", "SHMEM_SIZE": str(len(places)),
           "SHMEM_ROOT": f"node{places[0]}:25012", "SHMEM_SECRET": str(random.random())}
    job.update((k, v) for k, v in os.environ.items() if k.startswith(("SHMEM_", "TEST_")))
    pes = []
    for pe in random.sample(range(len(places)), len(places)):
        text = shlex.join(["env", *(f"{k}={v}" for k, v in {**job, "SHMEM_RANK": pe}.items()),
                           *words])
        pes.append(subprocess.Popen([nodes, "enter", f"node{places[pe]}", text]))
    return max(pe.wait() != 0 for pe in pes)


nodes, places, *words = sys.argv[1:]
if "NODES_FOLDER" in os.environ:
    sys.exit(start(nodes, places, words))
sys.exit(subprocess.run([nodes, max(places), sys.executable, *sys.argv]).returncode)
