# SPDX-License-Identifier: MIT
"""Tests of the names of other libraries. compat.py SOURCE CASE [COMPILER...]

defined  each name that include/compat.def says a function of include/compat/ is for is one there
refused  a call of a name that is not kept does not compile, and one line tells why"""

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tools"))
import gen_compat  # noqa: E402

HEADERS = {"nvshmem": "nvshmemx.h", "rocshmem": "rocshmem/rocshmem.hpp"}


def defined():
    texts = [p.read_text() for p in sorted((SOURCE / "include/compat").rglob("*.h*"))]
    known = set(re.findall(r"\b(n?v?\w*shmemx?_\w+)\(", "\n".join(texts)))
    ours = gen_compat.Ours(SOURCE / "include/shmem.def")
    missing, told = [], set()
    for library in HEADERS:
        for row in gen_compat.parse(SOURCE / "include/compat.def", library)[1]:
            names = {name.theirs for name in row.names(ours)}
            if row.how in ("+", "~"):
                told |= names
                missing += sorted(names - known)
    assert not missing, f"no function for: {missing}"
    # A floor, so that a table that is read wrongly does not pass.
    assert len(told) > 50, told


def refused(compiler):
    calls = {"nvshmem": ["nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, nullptr)",
                         "nvshmemx_qp_create(1, nullptr)",
                         "nvshmemx_culibrary_init(nullptr)",
                         "nvshmem_half_atomic_fetch(nullptr, 0)", "NVSHMEMX_TEAM_SAME_MYPE_NODE"],
             "rocshmem": ["rocshmem::rocshmem_get_device_ctx()"]}
    for library, each in calls.items():
        for call in [None, *each]:
            source = (f"#include <{HEADERS[library]}>\nint main() {{ "
                      f"{f'(void){call};' if call else ''} return 0; }}\n")
            done = subprocess.run([*compiler, "-fsyntax-only", "-x", "c++", "-"], input=source,
                                  text=True,
                                  capture_output=True)
            errors = [line for line in done.stderr.splitlines() if "error:" in line]
            if not call:
                assert done.returncode == 0, done.stderr
                continue
            name = re.search(r"(\w+)(\(|$)", call.replace("rocshmem::", "", 1))[1]
            assert done.returncode != 0 and len(errors) == 1, f"{call}: {done.stderr}"
            assert re.search(rf"{name}_?: not kept: \w+ \w+", errors[0]), errors[0]


if sys.argv[2] == "defined":
    defined()
else:
    refused(sys.argv[3:])
