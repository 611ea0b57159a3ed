#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wrong calls end the job with the library's line: mistakes.py OSHRUN test_moe."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

CREATE = "shmemx_moe_create: "
DISPATCH = "shmemx_moe_dispatch_on_stream: "
HEX = "0x[0-9a-f]+"
LINES = {
    "size": CREATE + r"size = \d+: the shape has \d+ bytes: begin with "
                     "SHMEMX_MOE_SHAPE_INITIALIZER",
    "bytes": CREATE + "token_bytes = 24: not a multiple of 16 above 0",
    "no bytes": CREATE + "token_bytes = 0: not a multiple of 16 above 0",
    "scales": CREATE + "scale_bytes = 6: not a multiple of 4",
    "hidden": CREATE + "hidden = 6: not a multiple of 4 above 0",
    "type": CREATE + "type = 3: not one of 0 to 2",
    "experts": CREATE + "experts = 3: not a multiple of 2 above 0",
    "top_k": CREATE + "top_k = 33: not one of 1 to 32",
    "tokens": CREATE + "max_tokens = 0: not one of 1 to 16777216",
    "layout": CREATE + "layout = 3: not one of 0 to 2",
    "alignment": CREATE + "alignment = 0: not one of 1 to 65536",
    "rows": CREATE + r"max_tokens = 16777216: \d+ rows, and at most 2147483647 can be numbered",
    "differs": CREATE + r"shape: differs from that of PE \d, member \d of the team",
    "room": CREATE + r"no \d+ bytes on the symmetric heap in device memory",
    "null": DISPATCH + r"moe = \(nil\): this PE has no part in it",
    "view": r"shmemx_moe_view: size = \d+: the view has \d+ bytes",
    "members": "shmemx_moe_members_on_stream: members = 0x8: the team has 2",
    "heap": f"shmemx_moe_combine_on_stream: rows = {HEX}: \\d+ bytes from there are not on the "
            "symmetric heap in device memory, nor in a buffer there",
    "aligned": f"{DISPATCH}tokens = {HEX}: not aligned to 16 bytes",
    "ids": DISPATCH + "expert_ids = NULL",
    "n": DISPATCH + "n_tokens = 5: not one of 0 to 4",
    "expert": f"{DISPATCH}expert_ids: 5 at {HEX}: not one of -1 to 3; in block .* of a kernel",
    "version": r"shmem::moe::kernel_object: compiled against another version of this library: what "
               r"they share has 1 bytes, the library's \d+",
    "threads": "shmem::moe::dispatch_wg: threads = 192: not from 256 to 512; in block .*",
    "tokens of a kernel": "shmem::moe::dispatch_wg: n_tokens = 5: not from 0 to 4; in block .*",
    "late": f"{DISPATCH}moe = {HEX}: waited longer than SHMEM_WAIT_LIMIT for a value >= 1 .* last "
            "saw 0 .* of a kernel",
}


def wrong(what):
    done = subprocess.run([sys.argv[1], "-n", "2", sys.argv[2], what], text=True,
                          capture_output=True,
                          env=os.environ | ({"SHMEM_WAIT_LIMIT": "2"} if what == "late" else {}))
    want = f"shmem: PE \\d: {LINES[what]}"
    good = done.returncode != 0 and any(re.fullmatch(want, row) for row in done.stderr.splitlines())
    return "" if good else f"{what}: status {done.returncode}, no line {want}:\n{done.stderr}"


with ThreadPoolExecutor(4) as pool:
    errors = "".join(pool.map(wrong, LINES))
print(errors)
sys.exit(errors != "")
