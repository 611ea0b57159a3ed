# SPDX-License-Identifier: MIT
"""Iris for kernels of Gluon's: `ctx = IrisDeviceCtx.initialize(context_tensor)` in a kernel."""
from __future__ import annotations

from typing import Any

from shmem.triton import GluonContext

IrisDeviceCtx = GluonContext


def iris(heap_size: int = 1 << 30, **options: Any) -> Any:
    from shmem.iris import Iris

    return Iris(heap_size, **options)


__all__ = ["GluonContext", "IrisDeviceCtx", "iris"]
