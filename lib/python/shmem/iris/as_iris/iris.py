# SPDX-License-Identifier: MIT
"""Makes `import iris` an import of shmem.iris, in a program that `python -m shmem.iris` runs and in
the processes that the program starts."""
import sys

import torch
from shmem import iris
from shmem.iris import ccl, experimental, hip, ops, tracing
from shmem.iris.experimental import iris_gluon

if not torch.cuda.is_available():
    from shmem.iris import _no_gpu

    _no_gpu.stand_in()

# Names of Iris's modules, of 2025 and 2026.
for name, module in {
        "": iris, ".ccl": ccl, ".ops": ops, ".hip": hip, ".tracing": tracing,
        ".experimental": experimental, ".experimental.iris_gluon": iris_gluon, ".gluon": iris_gluon,
        ".context": iris_gluon, ".context.gluon": iris_gluon, ".mem": iris, ".mem.triton": iris,
        ".mem.triton.context": iris, ".mem.triton.ops": iris, ".mem.gluon": iris_gluon,
        ".device": iris, ".device.triton": iris, ".device.triton.context": iris,
        **{f".ccl.{word}": ccl for word in (*ccl.METHODS, "config")},
        **{f".ops.{word}": ops for word in (*ops.METHODS, "config", "workspace")}}.items():
    sys.modules["iris" + name] = module
