#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""reference.py CPU GPU: the two programs of reference.hip must print the same."""
import subprocess
import sys

texts = []
for program in sys.argv[1:3]:
    done = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=50)
    if done.returncode:
        sys.exit(f"{program}: status {done.returncode}, after {done.stdout.splitlines()[-1:]}")
    texts.append(done.stdout.splitlines())
differ = [(a, b) for a, b in zip(*texts) if a != b]
for a, b in differ[:20]:
    print(f"{a} on the CPU, and {b.split()[-1]}")
print(f"{len(texts[0])} and {len(texts[1])} results, {len(differ)} differ")
sys.exit(bool(differ) or len(texts[0]) != len(texts[1]) or not texts[0])
