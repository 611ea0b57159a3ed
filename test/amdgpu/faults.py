#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""faults.py PROGRAM FOREIGN: a kernel's fault ends its process with one line, which names
the kernel, the place in it and the instruction; and so does a description of nodes that cannot be
read. The environment has the driver's library, FOREIGN is PROGRAM with code for another GPU."""
import os
import re
import signal
import subprocess
import sys
import tempfile

program, foreign = sys.argv[1:]
WHERE = r": kernel _Z\w+Pi, workgroup [012] 0 0, pc \+0x[0-9a-f]+: "
WANTED = {
    "wild": r"lane 5: memory fault at 0x[0-9a-f]{12,}" + WHERE + r"(global|flat)_store_dword .*",
    "trap": r"trap 2" + WHERE + r"s_trap 2",
    "lds": r"lane 1: LDS offset 0x[0-9a-f]+ is past its \d+ bytes" + WHERE + r"ds_write_b32 .*",
    "misaligned": r"lane 0: an atomic at 0x[0-9a-f]*[159d], not aligned" + WHERE
    + r"(global|flat)_atomic_add .*",
    "unknown": r"unknown instruction" + WHERE + r"ds_(nop|append).*",
}
LATE = (r"[sv]\d+ is used before what a load brings there has come, which {} counts" + WHERE +
        "{}.*, with AMDGPU_STRICT=7")
STRICT = {
    "early": LATE.format("vmcnt", "v_add_u32"),
    "early_scalar": LATE.format("lgkmcnt", "s_add_u32"),
    "early_lds": LATE.format("lgkmcnt", "v_add_u32"),
    "overwritten": r"v\d+ is written while a store still reads it" + WHERE
    + r"v_mov_b32.*, with AMDGPU_STRICT=7",
}
failed = 0


def run(what, exe=program, patience=30, **more):
    done = subprocess.run([exe, what], capture_output=True, text=True, timeout=patience,
                          env={**os.environ, **more})
    return done.returncode, done.stderr.splitlines(), done.stdout


def check(what, good, seen):
    global failed
    failed += not good
    print(f"{'ok' if good else 'NOT OK'}: {what}: {seen}")


for name, pattern in [*WANTED.items(), *STRICT.items()]:
    status, lines, out = run(name)
    if name in STRICT:
        check(name + ", not strictly", (status, lines) == (0, []), (status, lines, out))
        status, lines, _ = run(name, AMDGPU_STRICT="7")
    check(name, status == 134 and len(lines) == 1
          and re.fullmatch("amdgpu: (" + pattern + ")", lines[0]), (status, lines))
status, lines, _ = run("packet")
check("packet", status == 134 and lines == ["amdgpu: unknown packet: header 0x0004, format 0"],
      (status, lines))
status, lines, _ = run("large")
check("large", status == 134
      and lines == [
          "amdgpu: kernel ?: a workgroup of 64 x 1 x 1 with 1048576 bytes of LDS and 8 registers a "
          "lane "
                                          "has no room on a compute unit"], (status, lines))
status, lines, _ = run("wide")
check("wide", status == 134
      and lines == [
          "amdgpu: kernel ?: a workgroup of 320 x 1 x 1 with 0 bytes of LDS and 512 registers a "
          "lane "
                                         "has no room on a compute unit"], (status, lines))
status, lines, _ = run("fine", foreign)  # HIP's line
check("another GPU's code", status in (-signal.SIGABRT, 7) and len(lines) == 1
      and re.search("hipError(NoBinaryForGpu|InvalidDeviceFunction)", lines[0]), (status, lines))
# Kernels that never end: one that waits in vain, and those that have more workgroups than there are
# places, or registers, which wait for the last of them; the same kernels end when all have a place.
for name in "endless", "crowd", "crowd_tight", "crowd_half":
    try:
        check(name, False, run(name, patience=3))
    except subprocess.TimeoutExpired as late:  # it has been killed and waited for
        check(name, not late.stdout and not late.stderr, (late.stdout, late.stderr))
for name in "seated", "seated_tight", "seated_half":
    status, lines, out = run(name)
    check(name, (status, lines, out) == (0, [], "384\n"), (status, lines, out))
status, lines, out = run("fine")
check("fine", (status, lines, out) == (0, [], "384\n"), (status, lines, out))
status, lines, out = run("queues")
check("queues", (status, lines, out) == (0, [], "0\n"), (status, lines, out))
status, lines, out = run("freed")
check("freed by its exporter", (status, lines, out) == (0, [], "384\n"), (status, lines, out))
status, lines, out = run("whole")
check("of whole allocations", (status, lines, out) == (0, [], "1010101 2020202\n"),
      (status, lines, out))
# Stacks in memory that ROCr gives to a queue when a kernel wants it, as long as it has some.
for name in "stack", "tall":
    status, lines, out = run(name)
    check(name, (status, lines, out) == (0, [], "384\n"), (status, lines, out))
status, lines, _ = run("greedy")
check("greedy", status == 8 and len(lines) == 1
      and lines[0].startswith("HSA_STATUS_ERROR_OUT_OF_RESOURCES"), (status, lines))
status, lines, out = run("fine", AMDGPU_STRICT="7")
check("fine, strictly", (status, lines, out) == (0, [], "384\n"), (status, lines, out))
status, lines, _ = run("fine", AMDGPU_STRICT="soon")
check("no seed", status == 134 and lines == ["amdgpu: AMDGPU_STRICT=soon is no number"],
      (status, lines))
status, lines, _ = run("fine", AMDGPU_NODES="/nowhere.txt")
check("no nodes", status == 134 and lines == ["amdgpu: AMDGPU_NODES: cannot read /nowhere.txt"],
      (status, lines))
for text, pattern in {"gpus x": r".*: gpus x: not a number",
                      "name gfx90a\nwheels 4": r".*: wheels 4: unknown word",
                      "name gfx803":
                      r".*: name gfx803: only gfx90a, gfx942 and gfx950 are known"}.items():
    with tempfile.NamedTemporaryFile("w") as file:
        print(text, file=file, flush=True)
        status, lines, _ = run("fine", AMDGPU_NODES=file.name)
        check(text.splitlines()[-1], status == 134 and len(lines) == 1
              and re.fullmatch("amdgpu: " + pattern, lines[0]), (status, lines))
sys.exit(failed > 0)
