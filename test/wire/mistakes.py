#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wrong calls end the job with the library's line: mistakes.py OSHRUN test_wire."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

CREATE = "shmemx_wire_create: "
SUM = "shmemx_wire_sum_reduce_on_stream: "
SCATTER = "shmemx_wire_sum_reduce_scatter_on_stream: "
HEX = "0x[0-9a-f]+"
LINES = {
    "null": CREATE + "shape = NULL: expected a shmemx_wire_shape_t",
    "size": CREATE + r"size = 8: the shape has \d+ bytes: begin with SHMEMX_WIRE_SHAPE_INITIALIZER",
    "type": CREATE + "type = 0: not SHMEMX_F16 or SHMEMX_BF16",
    "format": CREATE + "format = 4: not one of 0 to 3",
    "chunks": CREATE + "chunks = 2: not 0, 1, 3, 5, 7 or -1",
    "elements": CREATE + "elements = 1073741825: more than 1073741824",
    "differs": CREATE + r"shape: differs from that of PE \d, member \d of the team",
    "room": CREATE + r"no \d+ bytes on the symmetric heap in device memory",
    "no part": f"{SUM}wire = {HEX}: this PE has no part in it",
    "nil": SUM + r"wire = \(nil\): this PE has no part in it",
    "n": SUM + "nreduce = 101: the wire has room for 100",
    "block": SCATTER + "nreduce = 51: the wire has room for 50",
    "nelems": r"shmemx_wire_fcollect_on_stream: nelems = \d+: the wire has room for 100",
    "dest": SUM + "dest = NULL: expected 1 elements",
    "source": "shmemx_wire_round_on_stream: source = NULL: expected 1 elements",
    "aligned": f"{SUM}source = {HEX}: not aligned to 2 bytes",
    "overlap": f"{SUM}dest = {HEX}: overlaps source = {HEX}",
    "shifted": f"{SCATTER}dest = {HEX}: overlaps source = {HEX}",
    "late": f"a wire on a stream: team = {HEX}: waited longer than SHMEM_WAIT_LIMIT for a value "
            r"[=>]= \d+ .* last saw \d+ .* of a kernel",
}


def wrong(what):
    more = {"late": {"SHMEM_WAIT_LIMIT": "2"}, "room": {"SHMEM_SYMMETRIC_MAX": "64m"}}.get(what, {})
    done = subprocess.run([sys.argv[1], "-n", "2", sys.argv[2], what], text=True,
                          capture_output=True, env=os.environ | more)
    want = f"shmem: PE \\d: {LINES[what]}"
    good = done.returncode != 0 and any(re.fullmatch(want, row) for row in done.stderr.splitlines())
    return "" if good else f"{what}: status {done.returncode}, no line {want}:\n{done.stderr}"


with ThreadPoolExecutor(4) as pool:  # these jobs mostly sleep
    errors = "".join(pool.map(wrong, LINES))
print(errors)
sys.exit(errors != "")
