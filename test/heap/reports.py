#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A kernel's report ends the job with one line. Usage: reports.py, with OSHRUN and VICTIM in
the environment."""
import os
import pathlib
import sys
import re

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import faults  # noqa: E402

HEX = "0x[0-9a-f]+"
WHERE = r"in block \([01],0,0\), thread \(3,0,0\) of a kernel"
ANY = WHERE.replace("3,", "[0-3],")
SECONDS = os.environ.get("SECONDS", "0.3")  # longer than PEs need to start
CHECK, LIMIT = {"SHMEM_CHECK": "1"}, {"SHMEM_WAIT_LIMIT": SECONDS}
CASES = [("pe", CHECK, f"shmem_long_p: pe = 7: .*{WHERE}"),
         ("foreign", CHECK, f"shmem_long_p: dest = {HEX}: not on the symmetric heap.*{WHERE}"),
         ("misaligned", CHECK, f"shmem_long_p: dest = {HEX}: not aligned to 8 bytes; {WHERE}"),
         # The name is that of the routine that was called, not of the one that does the same.
         ("wave", CHECK, f"shmemx_long_put_wave: pe = 7: .*{ANY}"),
         ("wg", CHECK, f"shmemx_long_put_signal_nbi_wg: pe = 7: .*{ANY}"),
         ("wait", LIMIT,
          rf"shmem_long_wait_until: ivar = {HEX}: waited longer than SHMEM_WAIT_LIMIT .*== 42 .* "
          rf"last saw 0 .*{WHERE}"),
         ("wait", LIMIT | CHECK, f"shmem_long_wait_until: ivar = {HEX}: waited longer"),
         ("host-wait", LIMIT,
          f"waited for the object at {HEX} longer than SHMEM_WAIT_LIMIT = {SECONDS} seconds"),
         ("host-wait", LIMIT | {"SHMEM_CPU_HOST_ACCESS": "0"},
          f"waited for the object at {HEX} longer than")]


def one(case):
    what, env, pattern = case
    job = faults.Job(2, what, env=env | {"SHMEM_DEVICE_SIZE": "1M"})
    job.expect(job.rc != 0, "status 0")
    job.expect(len(job.lines) == 1 and re.match(f"shmem: PE 1: {pattern}", job.lines[0]),
               f"no single line {pattern}: {job.lines}")


good = faults.Job(2, "none", env=CHECK | LIMIT)
good.expect(good.rc == 0 and not good.lines, f"without a mistake: {good.rc} {good.lines}")
faults.together(2, one, CASES)
sys.exit(faults.finish())
