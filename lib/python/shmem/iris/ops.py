# SPDX-License-Identifier: MIT
"""Iris's products of several ranks, over the library's. `ctx` is an Iris object; `ctx.ops` has them
as methods. Each returns a workspace as Iris does, which this library does not need."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import shmem

METHODS = ("matmul_all_reduce", "matmul_all_reduce_preamble", "all_gather_matmul",
           "all_gather_matmul_preamble", "matmul_all_gather", "matmul_all_gather_preamble",
           "matmul_reduce_scatter", "matmul_reduce_scatter_preamble")


@dataclass
class FusedConfig:
    """Iris's parameters of its kernels; nothing reads them here."""
    block_size_m: int = 256
    block_size_n: int = 64
    block_size_k: int = 64
    group_size_m: int = 1
    num_sms: int | None = None
    num_xcds: int = 1
    chunk_size: int = 1
    cache_modifier_a: str = ".ca"
    cache_modifier_b: str = ".ca"
    allow_tf32: bool = True
    all_reduce_variant: str = "two_shot"
    all_reduce_num_rings: int = 1


class FusedWorkspace:
    """The result of a preamble."""


def _end(ctx: Any, async_op: bool, workspace: Any) -> Any:
    if not async_op:
        ctx.barrier()
    return workspace or FusedWorkspace()


def matmul_all_reduce(ctx: Any, output_tensor: torch.Tensor, A: torch.Tensor, B: torch.Tensor,
                      async_op: bool = False, config: Any = None, workspace: Any = None,
                      bias: Any = None) -> Any:
    """output (M, N) = the sum over ranks of A (M, K) @ B (K, N)."""
    shmem.matmul_all_reduce(output_tensor, A, B, bias=bias)
    return _end(ctx, async_op, workspace)


def all_gather_matmul(ctx: Any, output_tensor: torch.Tensor, A_sharded: torch.Tensor,
                      B: torch.Tensor, bias: Any = None, async_op: bool = False, config: Any = None,
                      workspace: Any = None) -> Any:
    """output (M, N) = the A_sharded (M, K / ranks) of all ranks beside each other, @ B (K, N)."""
    m, k = A_sharded.shape
    shards = ctx.scratch("shards", (ctx.num_ranks, m, k), A_sharded.dtype)
    ctx.device_barrier() # all ranks have read the last shards
    shmem.all_gather(shards, A_sharded)
    product = shards.transpose(0, 1).reshape(m, -1) @ B
    output_tensor.copy_(product if bias is None else product + bias)
    return _end(ctx, async_op, workspace)


def matmul_all_gather(ctx: Any, output_tensor: torch.Tensor, A: torch.Tensor, B: torch.Tensor,
                      bias: Any = None, async_op: bool = False, config: Any = None,
                      workspace: Any = None) -> Any:
    """output (M, N) = the A (M / ranks, K) @ B (K, N) of all ranks below each other."""
    shmem.matmul_all_gather(output_tensor, A, B, bias=bias)
    return _end(ctx, async_op, workspace)


def matmul_reduce_scatter(ctx: Any, output_tensor: torch.Tensor, A: torch.Tensor, B: torch.Tensor,
                          async_op: bool = False, config: Any = None, workspace: Any = None,
                          bias: Any = None) -> Any:
    """This rank's part of the sum over ranks of A (M, K) @ B (K, N). The output's shape chooses the
    part: (M, N) gets this rank's rows in their place, (M / ranks, N) is these rows alone, and
    (M, N / ranks) is this rank's columns."""
    m, n = A.shape[0], B.shape[1]
    if tuple(output_tensor.shape) == (m, n) and ctx.num_ranks > 1:
        rows = -(-m // ctx.num_ranks)
        output_tensor = output_tensor[rows * ctx.cur_rank:rows * (ctx.cur_rank + 1)]
    if output_tensor.shape[1] == n:
        shmem.matmul_reduce_scatter(output_tensor, A, B, bias=bias)
    else:
        columns = torch.empty(output_tensor.shape[::-1], dtype=output_tensor.dtype,
                              device=output_tensor.device)
        shmem.matmul_reduce_scatter(columns, B.T.contiguous(), A.T.contiguous())
        mine = slice(len(columns) * ctx.cur_rank, len(columns) * (ctx.cur_rank + 1))
        output_tensor.copy_(columns.T if bias is None else columns.T + bias[mine])
    return _end(ctx, async_op, workspace)


def _preamble(ctx: Any, *tensors: torch.Tensor, config: Any = None, workspace: Any = None) -> Any:
    """Iris's preparation of a product. This library needs none."""
    return workspace or FusedWorkspace()


matmul_all_reduce_preamble = all_gather_matmul_preamble = _preamble
matmul_all_gather_preamble = matmul_reduce_scatter_preamble = _preamble
