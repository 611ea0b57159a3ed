# SPDX-License-Identifier: MIT
"""closed.py OSHRUN PROGRAM: a child has its parent's globals, and the job ends and says why."""
import subprocess
import sys

for n in (1, 2):
    # libevent's thread in PMIx fills stderr until the end.
    done = subprocess.run(["timeout", "10", sys.argv[1], "-n", str(n), sys.argv[2]],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    said = [line for line in done.stderr.decode().splitlines() if "close_range" in line]
    seen = done.stdout.decode().count("saw 42")
    if seen != n or done.returncode != 1 or len(said) != 1:
        sys.exit(f"{n} PEs: status {done.returncode}, {seen} children saw 42, {said}")
