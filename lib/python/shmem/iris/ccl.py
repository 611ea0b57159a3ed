# SPDX-License-Identifier: MIT
"""Iris's collectives, over the library's. `ctx` is an Iris object, which has them as `ctx.ccl`."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import shmem
from shmem import Error

METHODS = ("all_to_all", "all_gather", "all_reduce", "all_reduce_preamble", "reduce_scatter",
           "broadcast")


@dataclass
class Config:
    """Iris's parameters of its kernels; nothing reads them here."""
    block_size_m: int = 128
    block_size_n: int = 128
    swizzle_size: int = 6
    comm_sms: int = 64
    num_xcds: int | None = None
    chunk_size: int | None = None
    use_gluon: bool = False
    all_reduce_variant: str = "atomic"
    all_reduce_distribution: int = 0
    all_reduce_num_rings: int = 1
    all_reduce_ring_slice_n: int | None = None
    reduce_scatter_variant: str = "two_shot"


OPS = {"SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max", "BAND": "and", "BOR": "or",
       "BXOR": "xor"}


def _operation(op: Any) -> str:
    """The operation of torch.distributed's ReduceOp, or of a word."""
    name = "SUM" if op is None else str(op).rpartition(".")[2].upper()
    if name not in OPS:
        raise Error(f"iris.ccl: op = {op}: expected one of {', '.join(OPS)}")
    return OPS[name]


def _members(ctx: Any, group: Any) -> tuple[Any, int, int]:
    team = ctx.team(group)
    return (team, team.my_pe(), team.n_pes()) if team else (None, ctx.cur_rank, ctx.num_ranks)


def all_to_all(output_tensor: torch.Tensor, input_tensor: torch.Tensor, ctx: Any, group: Any = None,
               async_op: bool = False, config: Any = None) -> None:
    """Input and output are (M, N * ranks). Columns N*r to N*(r+1) of the input go to rank r; the
    same columns of the output come from rank r."""
    team, me, n = _members(ctx, group)
    m, columns = input_tensor.shape
    if output_tensor.shape != input_tensor.shape or columns % n:
        raise Error(f"iris.ccl.all_to_all: output {tuple(output_tensor.shape)}, input "
                    f"{tuple(input_tensor.shape)}: expected the same, of {n} * N columns")
    mine = input_tensor.view(m, n, -1)
    pes = team.pes() if team else range(n)
    if all(ctx.mapped[pe] for pe in pes):
        for i in range(n): # each rank begins at another rank
            to = (me + i) % n
            shmem.peer(output_tensor, pes[to]).view(m, n, -1)[:, me].copy_(mine[:, to])
    elif team:
        raise Error("iris.ccl.all_to_all: group: a member is on another node")
    else:
        source = ctx.scratch("source", (n, m, columns // n), input_tensor.dtype)
        dest = ctx.scratch("dest", source.shape, input_tensor.dtype)
        source.copy_(mine.transpose(0, 1))
        ctx.device_barrier() # all ranks have taken the last result out of dest
        shmem.all_to_all(dest, source)
        output_tensor.view(m, n, -1).copy_(dest.transpose(0, 1))
    _end(ctx, group, async_op)


def all_gather(output_tensor: torch.Tensor, input_tensor: torch.Tensor, ctx: Any, group: Any = None,
               async_op: bool = False, config: Any = None) -> None:
    """output (ranks * M, N): the inputs (M, N) of all ranks, in their order."""
    shmem.all_gather(output_tensor, input_tensor, ctx.team(group))
    _end(ctx, group, async_op)


def all_reduce_preamble(output_tensor: torch.Tensor, input_tensor: torch.Tensor, ctx: Any,
                        config: Any = None, workspace: Any = None) -> Any:
    """Iris's preparation of all_reduce. This library needs none."""
    return workspace


def all_reduce(output_tensor: torch.Tensor, input_tensor: torch.Tensor, ctx: Any, op: Any = None,
               group: Any = None, async_op: bool = False, config: Any = None, workspace: Any = None
               ) -> Any:
    """The output becomes the sum of the inputs of all ranks."""
    shmem.all_reduce(output_tensor, input_tensor, _operation(op), ctx.team(group))
    _end(ctx, group, async_op)
    return workspace


def reduce_scatter(output_tensor: torch.Tensor, input_tensor: torch.Tensor, ctx: Any,
                   op: Any = None, group: Any = None, async_op: bool = False, config: Any = None
                   ) -> None:
    """Rank r gets rows r*M/ranks to (r+1)*M/ranks of the sum of the inputs, (M, N). An output of M
    rows gets them in the same rows; otherwise they are the whole output."""
    team, me, n = _members(ctx, group)
    rows, rest = divmod(input_tensor.shape[0], n)
    if rest or output_tensor.shape[0] not in (rows, rows * n):
        raise Error(f"iris.ccl.reduce_scatter: output of {output_tensor.shape[0]} rows, input of "
                    f"{input_tensor.shape[0]}: expected a multiple of {n}")
    # A rank's own rows lie elsewhere on each rank, so they are not a symmetric object. The first
    # rows are one.
    part, kept = output_tensor[:rows], output_tensor[:rows].clone()
    shmem.reduce_scatter(part, input_tensor, _operation(op), team)
    if output_tensor.shape[0] != rows:
        result = part.clone()
        part.copy_(kept)
        output_tensor[rows * me:rows * (me + 1)].copy_(result)
    _end(ctx, group, async_op)


def broadcast(output_tensor: torch.Tensor, input_tensor: torch.Tensor, ctx: Any, src: int = 0,
              group: Any = None, async_op: bool = False, config: Any = None) -> None:
    """The output becomes the input of rank `src` of the group."""
    shmem.broadcast(output_tensor, input_tensor, src, ctx.team(group))
    _end(ctx, group, async_op)


def _end(ctx: Any, group: Any, async_op: bool) -> None:
    if not async_op:
        ctx.barrier(group=group)
