#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wrong calls by the templates of products end the job with the library's line: mistakes.py
OSHRUN test_fused."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HEX = "0x[0-9a-f]+"
LINES = {
    "op": f"all_gather: workspace = {HEX}: it was made for all_reduce",
    "shape": "all_reduce: m = 9, n = 16, k = 24 of types 2, 2: the workspace was made for 8, 16, "
             "24 of 2, 2",
    "type": "all_reduce: m = 8, n = 16, k = 24 of types 2, 0: the workspace was made for 8, 16, 24 "
            "of 0, 0",
    "heap": f"all_reduce: c = {HEX}: \\d+ bytes from there are not on the symmetric heap in device "
            "memory, nor in a buffer there",
    "row": "all_reduce: lda = 23: a row has 24 elements",
    "null": "all_reduce: workspace = .*: this PE has no part in it",
    "version": r"matmul: compiled against another version of this library: what they share has "
               r"(\d+) bytes, the library's \d+",
    "alone": "matmul: ldc = 15: a row has 16 elements",
}
LATE = (f"a product of several PEs: team = {HEX}: waited longer than SHMEM_WAIT_LIMIT for a value "
        ">= \\d+ .* last saw \\d+ .* of a kernel")


def wrong(what):
    late = what == "late"  # a member that never comes
    done = subprocess.run([sys.argv[1], "-n", "2" if late else "1", sys.argv[2], what], text=True,
                          capture_output=True,
                          env=os.environ | ({"SHMEM_WAIT_LIMIT": "2"} if late else {}))
    want = f"shmem: PE 0: {LATE}" if late else f"shmem: PE 0: shmem::gemm::(matmul_)?{LINES[what]}"
    good = done.returncode != 0 and any(re.fullmatch(want, row) for row in done.stderr.splitlines())
    return "" if good else f"{what}: status {done.returncode}, no line {want}:\n{done.stderr}"


with ThreadPoolExecutor(len(LINES) + 1) as pool:  # these jobs mostly sleep
    errors = "".join(pool.map(wrong, [*LINES, "late"]))
print(errors)
sys.exit(errors != "")
