#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A wrong element type ends in one error, which names what is right: element_types.py COMPILER
WORD..."""
import subprocess
import sys
import tempfile
from pathlib import Path

PRODUCT = ("#include <hip/hip_runtime.h>\n#include <shmem/device/gemm/fused.hpp>\nstruct Finish {\n"
           "  SHMEM_D_ void operator()(unsigned, unsigned, unsigned, float (&)[8]) const {}\n};\n"
           "void f(shmemx_matmul_workspace_t w, const shmemx_matmul_t &c, hipStream_t s) { %s; "
           "(void)w; }\n")
STORE = (
    "#include <hip/hip_runtime.h>\n#include <shmem/device/shmem.hpp>\nstruct Wide {\n  char "
    "bytes[%d];\n};\n"
         "__global__ void kernel(Wide *p, Wide v) { shmem::arch::store(p, v); }\n")
PRODUCTS = "float, Half, Bfloat16 or Float8"
CASES = {
    "a product": (PRODUCT % "shmem::gemm::matmul<double>(c, Finish{}, s)", PRODUCTS),
    "a shared product": (PRODUCT % "shmem::gemm::matmul_all_reduce<int>(w, c, Finish{}, s)",
                         PRODUCTS),
    "an atomic store of 12 bytes": (STORE % 12, "1, 2, 4 or 8 bytes"),
    "an atomic store of 8 bytes": (STORE % 8, None),
    "what is right": (PRODUCT % "shmem::gemm::matmul<float>(c, Finish{}, s)", None),
}

failed = 0
with tempfile.TemporaryDirectory() as folder:
    for name, (text, types) in CASES.items():
        source = Path(folder) / "source.hip"
        source.write_text(text)
        done = subprocess.run([*sys.argv[1:], "-c", source, "-o", Path(folder) / "source.o"],
                              text=True, capture_output=True)
        # Once for each GPU, and maybe the host.
        errors = {line.split("error", 1)[1] for line in done.stderr.splitlines() if "error:" in line
                  or "error :" in line}
        good = done.returncode == 0 if types is None else done.returncode and len(
            errors) == 1 and types in errors.pop()
        if not good:
            failed += 1
            print(
                f"{name}: status {done.returncode}, not one error that says {types!r}:\n"
                f"{done.stderr}")
sys.exit(failed != 0)
