# SPDX-License-Identifier: MIT
"""Products of several PEs and an all-reduce with its norm, as operators."""
from __future__ import annotations

from typing import Any

import torch

import shmem

from ._ops import _bad, _operator, _source, _turn, ops
from ._space import _products, members, my_number, number, take, team_of


def _product(fn: str, a: torch.Tensor, b: torch.Tensor) -> None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise _bad(fn, f"a: {a.dtype} {tuple(a.shape)}, b: {b.dtype} {tuple(b.shape)}: expected "
                   "matrices of one type, [m, k] and [k, n]")


def _shard(m: int, n: int, i: int) -> tuple[int, int]:
    """As shmemx_matmul_shard: the first row of shard i of n, and its number of rows."""
    whole = -(-m // n)
    first = min(whole * i, m)
    return first, min(m - first, whole)


def _gather_rows(shard: torch.Tensor, m: int, team: int) -> torch.Tensor:
    """The m rows of all shards. The last shards may be shorter."""
    whole = -(-m // members(team, "torch.all_gather"))
    short = whole - shard.shape[0]
    if short:
        shard = torch.cat([shard, shard.new_zeros(short, shard.shape[1])])
    return ops.all_gather(shard, team)[:m]


def _scatter_rows(x: torch.Tensor, team: int) -> torch.Tensor:
    """This PE's shard of the sum of all members' x."""
    m, n = x.shape[0], members(team, "torch.reduce_scatter")
    short = -(-m // n) * n - m
    if short:
        x = torch.cat([x, x.new_zeros(short, x.shape[1])])
    _, rows = _shard(m, n, my_number(team, "torch.reduce_scatter"))
    return ops.reduce_scatter(x, "sum", team)[:rows]


def _multiply(operation: str, team: int, of: Any, m: int, c: torch.Tensor, a: torch.Tensor,
              b: torch.Tensor) -> None:
    a, b = (x if 1 in x.stride() else x.contiguous() for x in (a, b))
    key = operation, team, m, b.shape[1], a.shape[1], a.dtype
    product = _products.get(key)
    if product is None:
        product = _products[key] = shmem.Matmul(operation, *key[2:], team=of)
    product(c, a, b)


def _matmul_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    a, b, ctx.team = inputs[0], inputs[1], inputs[-1]
    ctx.m = inputs[2] if len(inputs) == 4 else a.shape[0]
    ctx.save_for_backward(a, b)


def _matmul_all_reduce(a: torch.Tensor, b: torch.Tensor, team: int = 0) -> torch.Tensor:
    _product("matmul_all_reduce", a, b)
    of = team_of(team, "torch.matmul_all_reduce")
    _turn(team)
    c, = take("matmul_all_reduce", of, a.device, ((a.shape[0], b.shape[1]), a.dtype))
    _multiply("all_reduce", team, of, a.shape[0], c, a, b)
    return c.clone()


def _matmul_all_reduce_fake(a: torch.Tensor, b: torch.Tensor, team: int = 0) -> torch.Tensor:
    _product("matmul_all_reduce", a, b)
    return a.new_empty(a.shape[0], b.shape[1])


def _matmul_all_reduce_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    whole = ops.all_reduce(grad, "sum", ctx.team)
    return whole @ b.t(), a.t() @ whole, None


_operator("matmul_all_reduce(Tensor a, Tensor b, int team=0) -> Tensor", _matmul_all_reduce,
          _matmul_all_reduce_fake, _matmul_setup, _matmul_all_reduce_backward)


def _my_rows(fn: str, m: int, team: int) -> int:
    return _shard(m, members(team, f"torch.{fn}"), my_number(team, f"torch.{fn}"))[1]


def _matmul_reduce_scatter(a: torch.Tensor, b: torch.Tensor, team: int = 0) -> torch.Tensor:
    _product("matmul_reduce_scatter", a, b)
    of = team_of(team, "torch.matmul_reduce_scatter")
    _turn(team)
    c = a.new_empty(_my_rows("matmul_reduce_scatter", a.shape[0], team), b.shape[1])
    _multiply("reduce_scatter", team, of, a.shape[0], c, a, b)
    return c


def _matmul_reduce_scatter_fake(a: torch.Tensor, b: torch.Tensor, team: int = 0) -> torch.Tensor:
    _product("matmul_reduce_scatter", a, b)
    return a.new_empty(_my_rows("matmul_reduce_scatter", a.shape[0], team), b.shape[1])


def _matmul_reduce_scatter_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    whole = _gather_rows(grad.contiguous(), ctx.m, ctx.team)
    return whole @ b.t(), a.t() @ whole, None


_operator("matmul_reduce_scatter(Tensor a, Tensor b, int team=0) -> Tensor", _matmul_reduce_scatter,
          _matmul_reduce_scatter_fake, _matmul_setup, _matmul_reduce_scatter_backward)


def _check_shard(fn: str, a: torch.Tensor, b: torch.Tensor, m: int, team: int) -> None:
    _product(fn, a, b)
    rows = _my_rows(fn, m, team)
    if a.shape[0] != rows:
        raise _bad(fn, f"a: {a.shape[0]} rows: of m = {m}, this PE's shard has {rows}")


def _gathering(name: str, operation: str, symmetric: bool) -> tuple[Any, Any]:
    def real(a: torch.Tensor, b: torch.Tensor, m: int, team: int = 0) -> torch.Tensor:
        _check_shard(name, a, b, m, team)
        of = team_of(team, f"torch.{name}")
        _turn(team)
        if symmetric:
            c, = take(name, of, a.device, ((m, b.shape[1]), a.dtype))
        else:
            c = a.new_empty(m, b.shape[1])
        _multiply(operation, team, of, m, c, a, b)
        return c.clone() if symmetric else c

    def fake(a: torch.Tensor, b: torch.Tensor, m: int, team: int = 0) -> torch.Tensor:
        _check_shard(name, a, b, m, team)
        return a.new_empty(m, b.shape[1])

    return real, fake


def _matmul_all_gather_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    mine = _scatter_rows(grad.contiguous(), ctx.team)
    return mine @ b.t(), a.t() @ mine, None, None


def _all_gather_matmul_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    da = ops.matmul_reduce_scatter(grad.contiguous(), b.t().contiguous(), ctx.team)
    return da, _gather_rows(a.contiguous(), ctx.m, ctx.team).t() @ grad, None, None


_operator("matmul_all_gather(Tensor a, Tensor b, int m, int team=0) -> Tensor",
          *_gathering("matmul_all_gather", "all_gather", True),
          _matmul_setup, _matmul_all_gather_backward)
_operator("all_gather_matmul(Tensor a, Tensor b, int m, int team=0) -> Tensor",
          *_gathering("all_gather_matmul", "all_gather_matmul", False),
          _matmul_setup, _all_gather_matmul_backward)


# --- an all-reduce with its norm ------------------------------------------------------------------

def _all_reduce_norm(x: torch.Tensor, residual: torch.Tensor | None = None,
                     weight: torch.Tensor | None = None, eps: float = 1e-6,
                     weight_offset: float = 0.0, team: int = 0
                     ) -> tuple[torch.Tensor, torch.Tensor]:
    of = team_of(team, "torch.all_reduce_norm")
    if x.dim() != 2 or residual is not None and residual.shape != x.shape:
        raise _bad("all_reduce_norm", f"x: {tuple(x.shape)}: expected [rows, columns], and "
                   "residual of the same shape")
    _turn(team)
    source, out, sums = _source("all_reduce_norm", x, of, (x.shape, x.dtype), (x.shape, x.dtype))
    shmem.all_reduce_norm(source, out, residual=None if residual is None else residual.contiguous(),
                          residual_out=sums, weight=None if weight is None else weight.contiguous(),
                          eps=eps, weight_offset=weight_offset, team=of)
    return out.clone(), sums.clone()


def _all_reduce_norm_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, residual, weight, ctx.eps, ctx.weight_offset, ctx.team = inputs
    ctx.has_residual = residual is not None
    ctx.save_for_backward(output[1], weight)


def _all_reduce_norm_backward(ctx: Any, grad: torch.Tensor, grad_sums: torch.Tensor
                              ) -> tuple[Any, ...]:
    sums, weight = ctx.saved_tensors
    s, g = sums.float(), grad.float()
    r = torch.rsqrt(s.square().mean(-1, keepdim=True) + ctx.eps)
    d_weight = None if weight is None else (g * s * r).sum(0).to(weight.dtype)
    if weight is not None:
        g = g * (weight.float() + ctx.weight_offset)
    else:
        g = g * (1 + ctx.weight_offset)
    ds = r * g - s * r.pow(3) * (g * s).mean(-1, keepdim=True) + grad_sums.float()
    ds = ds.to(sums.dtype)
    dx = ops.all_reduce(ds, "sum", ctx.team)
    return dx, ds if ctx.has_residual else None, d_weight, None, None, None


_operator("all_reduce_norm(Tensor x, Tensor? residual=None, Tensor? weight=None, float eps=1e-6, "
          "float weight_offset=0., int team=0) -> (Tensor, Tensor)", _all_reduce_norm,
          lambda x, residual=None, weight=None, eps=1e-6, weight_offset=0.0, team=0:
          (x.new_empty(x.shape), x.new_empty(x.shape)),
          _all_reduce_norm_setup, _all_reduce_norm_backward)


# --- as functions --------------------------------------------------------------------------------

def matmul_all_reduce(a: torch.Tensor, b: torch.Tensor, team: shmem.Team | None = None
                      ) -> torch.Tensor:
    """The sum of all members' a @ b. a: [m, k], b: [k, n], each member its part of the whole k;
    result [m, n]."""
    return ops.matmul_all_reduce(a, b, number(team))


def matmul_reduce_scatter(a: torch.Tensor, b: torch.Tensor, team: shmem.Team | None = None
                          ) -> torch.Tensor:
    """This PE's rows of the sum of all members' a @ b: ceil(m / members) rows a member; the last
    members may have fewer."""
    return ops.matmul_reduce_scatter(a, b, number(team))


def matmul_all_gather(a: torch.Tensor, b: torch.Tensor, m: int, team: shmem.Team | None = None
                      ) -> torch.Tensor:
    """All rows of A @ b, [m, n]. a: this PE's rows of A, ceil(m / members), the last members' maybe
    fewer; b: [k, n], the same on all, so that its gradient is a part: the sum over the members is
    the whole."""
    return ops.matmul_all_gather(a, b, m, number(team))


def all_gather_matmul(a: torch.Tensor, b: torch.Tensor, m: int, team: shmem.Team | None = None
                      ) -> torch.Tensor:
    """A @ b, [m, n], where a is this PE's rows of A, as in matmul_all_gather, and each member has a
    b of its own."""
    return ops.all_gather_matmul(a, b, m, number(team))


def all_reduce_norm(x: torch.Tensor, residual: torch.Tensor | None = None,
                    weight: torch.Tensor | None = None, *, eps: float = 1e-6,
                    weight_offset: float = 0.0, team: shmem.Team | None = None
                    ) -> tuple[torch.Tensor, torch.Tensor]:
    """(norm, sum): sum = all members' x + residual, norm = sum / sqrt(mean(sum^2) + eps) *
    (weight_offset + weight), row by row. x, residual: [rows, columns], weight: [columns], all of
    one type; a row has a multiple of 16 bytes."""
    return ops.all_reduce_norm(x, residual, weight, eps, weight_offset, number(team))
