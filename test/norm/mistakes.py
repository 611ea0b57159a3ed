#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Wrong norms end the job with the library's line: mistakes.py OSHRUN test_norm."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HEX = "0x[0-9a-f]+"
ROUTINE = "shmemx_all_reduce_norm_on_stream: "
LINES = {
    "size": r"size = 8: this library's shmemx_norm_t has \d+ bytes; SHMEMX_NORM_INITIALIZER sets "
            "it",
    "type": "type = 3: not SHMEMX_F32, SHMEMX_F16 or SHMEMX_BF16",
    "quantized_type": "quantized_type = 2: not SHMEMX_F8 or SHMEMX_F8_FNUZ",
    "group": "group = 64: not 0 or 128",
    "scales": "scales = NULL, but quantized is given",
    "columns": "columns = 127: not a multiple of 8 up to 32768",
    "long": "columns = 32776: not a multiple of 8 up to 32768",
    "eps": "eps = -1: not a number from 0",
    "scattered": "residual_scattered = 1, but residual and residual_out are NULL",
    "stride": "out_stride = 120: not 0, nor a multiple of 8 from 128",
    "ragged": "quantized_stride = 130: not 0, nor a multiple of 8 from 128",
    "input": "input = NULL: there is nothing to add up",
    "misaligned": f"input = {HEX}: not a multiple of 16 bytes",
    "heap": f"out = {HEX}: not on the symmetric heap in device memory .*, nor in a buffer there",
    "end": f"residual_out = {HEX}: \\d+ bytes from there reach past the end of the symmetric heap",
    "overlap": f"out = {HEX}: overlaps the call's input = {HEX}",
    "shifted": f"residual_out = {HEX}: overlaps the call's residual = {HEX}",
    "team": "team = .*",
    "null": "norm = NULL: expected a shmemx_norm_t",
}
VERSION = (r"shmem::rows::all_reduce_on_stream: compiled against another version of this library: "
           r"what they share has 1 bytes, the library's \d+")
LATE = (f"an all-reduce by rows: team = {HEX}: waited longer than SHMEM_WAIT_LIMIT for a value "
        r"[=>]= \d+ .* last saw \d+ .* of a kernel")


def wrong(what):
    late = what == "late"  # a member that never comes
    done = subprocess.run([sys.argv[1], "-n", "2" if late else "1", sys.argv[2], what], text=True,
                          capture_output=True,
                          env=os.environ | ({"SHMEM_WAIT_LIMIT": "2"} if late else {}))
    want = "shmem: PE 0: " + (LATE if late else VERSION if what == "version"
                              else ROUTINE + LINES[what])
    good = done.returncode != 0 and any(re.fullmatch(want, row) for row in done.stderr.splitlines())
    return "" if good else f"{what}: status {done.returncode}, no line {want}:\n{done.stderr}"


with ThreadPoolExecutor(8) as pool:  # these jobs mostly sleep
    errors = "".join(pool.map(wrong, [*LINES, "version", "late"]))
print(errors)
sys.exit(errors != "")
