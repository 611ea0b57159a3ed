# SPDX-License-Identifier: MIT
"""PyTorch: collectives and products as operators that torch.compile, graphs and autograd take, and
symmetric memory of torch.distributed on this library's heap.

`torch.ops.shmem.all_reduce(x, "sum", 0)` and `shmem.torch.all_reduce(x)` are one operator; the last
argument is 0 for all PEs, or `team.handle`. Operators take and give plain tensors. An input that is
symmetric already is read where it lies; others are copied to a workspace in symmetric memory, and
results are copied from it. `..._out` operators copy nothing: their tensors are symmetric.

The PEs of a team call the same operators in the same order, with the same shapes. A workspace is
made for a team and a device when an operator needs more bytes than there are, rounded up to a power
of two, and is kept until `shmem.finalize`. Making a workspace is collective over *all* PEs: all PEs
make such a call at once, each with a team of its own, as the rows of a grid. Where some PEs have no
such team, all PEs call `reserve` before."""
from __future__ import annotations

from ._backend import register_backend
from ._experts import Experts
from ._ops import Work, all_gather, all_reduce, all_to_all, broadcast, reduce_scatter
from ._products import (
    all_gather_matmul,
    all_reduce_norm,
    matmul_all_gather,
    matmul_all_reduce,
    matmul_reduce_scatter,
)
from ._space import reserve

__all__ = ["Experts", "Work", "all_gather", "all_gather_matmul", "all_reduce", "all_reduce_norm",
           "all_to_all", "broadcast", "matmul_all_gather", "matmul_all_reduce",
           "matmul_reduce_scatter", "reduce_scatter", "register_backend", "reserve"]
