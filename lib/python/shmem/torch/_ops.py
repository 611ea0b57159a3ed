# SPDX-License-Identifier: MIT
"""The operators: their functions, the shapes of their results, and their gradients."""
from __future__ import annotations

from typing import Any, Callable

import torch

import shmem

from .._array import line
from ._space import _pending, members, my_number, number, on_the_heap, take, team_of

_library = torch.library.Library("shmem", "DEF")
ops = torch.ops.shmem


def _operator(schema: str, real: Callable[..., Any], fake: Callable[..., Any],
              setup: Callable[..., None] | None = None,
              backward: Callable[..., Any] | None = None) -> None:
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.needs_fixed_stride_order,))
    _library.impl(name, real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"shmem::{name}", fake, lib=_library)
    if backward is not None:
        torch.library.register_autograd(f"shmem::{name}", backward, setup_context=setup,
                                        lib=_library)


def _bad(fn: str, text: str) -> shmem.Error:
    return shmem.Error(line(f"torch.{fn}", text))


def _source(fn: str, x: torch.Tensor, team: Any, *dests: tuple[Any, torch.dtype]
            ) -> list[torch.Tensor]:
    """The input in symmetric memory, and memory for the results."""
    x = x.contiguous()
    if x.numel() and on_the_heap(x):
        return [x, *take(fn, team, x.device, *dests)]
    found = take(fn, team, x.device, (x.shape, x.dtype), *dests)
    found[0].copy_(x)
    return found


def _turn(team: int) -> None:
    """Puts an operator on the current stream behind the asynchronous operators of the team: all
    members must have a team's collectives in one order."""
    if _pending:
        event = _pending.pop(team, None)
        if event is not None:
            torch.cuda.current_stream().wait_event(event)


# --- collectives ----------------------------------------------------------------------------------

def _all_reduce(x: torch.Tensor, op: str = "sum", team: int = 0) -> torch.Tensor:
    of = team_of(team, "torch.all_reduce")
    _turn(team)
    source, dest = _source("all_reduce", x, of, (x.shape, x.dtype))
    shmem.all_reduce(dest, source, op=op, team=of)
    return dest.clone()


def _sum_only(fn: str) -> Callable[..., None]:
    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.op, ctx.team = inputs
        if ctx.op != "sum" and inputs[0].requires_grad:
            raise _bad(fn, f"op = {ctx.op!r}: only sum has a gradient")

    return setup


_operator("all_reduce(Tensor x, str op='sum', int team=0) -> Tensor", _all_reduce,
          lambda x, op="sum", team=0: torch.empty(x.shape, dtype=x.dtype, device=x.device),
          _sum_only("all_reduce"),
          lambda ctx, grad: (ops.all_reduce(grad, "sum", ctx.team), None, None))


def _scattered(fn: str, x: torch.Tensor, team: int) -> tuple[int, ...]:
    n = members(team, f"torch.{fn}")
    if x.dim() == 0 or x.shape[0] % n:
        raise _bad(fn, f"x: shape {tuple(x.shape)}: the first dimension is not a multiple of the "
                   f"team's {n} PEs")
    return (x.shape[0] // n, *x.shape[1:])


def _reduce_scatter(x: torch.Tensor, op: str = "sum", team: int = 0) -> torch.Tensor:
    shape, of = _scattered("reduce_scatter", x, team), team_of(team, "torch.reduce_scatter")
    _turn(team)
    source, dest = _source("reduce_scatter", x, of, (shape, x.dtype))
    shmem.reduce_scatter(dest, source, op=op, team=of)
    return dest.clone()


_operator("reduce_scatter(Tensor x, str op='sum', int team=0) -> Tensor", _reduce_scatter,
          lambda x, op="sum", team=0: x.new_empty(_scattered("reduce_scatter", x, team)),
          _sum_only("reduce_scatter"),
          lambda ctx, grad: (ops.all_gather(grad, ctx.team), None, None))


def _gathered(fn: str, x: torch.Tensor, team: int) -> tuple[int, ...]:
    if x.dim() == 0:
        raise _bad(fn, "x: a tensor without dimensions: expected at least one")
    return (x.shape[0] * members(team, f"torch.{fn}"), *x.shape[1:])


def _all_gather(x: torch.Tensor, team: int = 0) -> torch.Tensor:
    shape, of = _gathered("all_gather", x, team), team_of(team, "torch.all_gather")
    _turn(team)
    source, dest = _source("all_gather", x, of, (shape, x.dtype))
    shmem.all_gather(dest, source, team=of)
    return dest.clone()


def _keep_team(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.team = inputs[-1]


_operator("all_gather(Tensor x, int team=0) -> Tensor", _all_gather,
          lambda x, team=0: x.new_empty(_gathered("all_gather", x, team)), _keep_team,
          lambda ctx, grad: (ops.reduce_scatter(grad, "sum", ctx.team), None))


def _all_to_all(x: torch.Tensor, team: int = 0) -> torch.Tensor:
    _scattered("all_to_all", x, team)
    of = team_of(team, "torch.all_to_all")
    _turn(team)
    source, dest = _source("all_to_all", x, of, (x.shape, x.dtype))
    shmem.all_to_all(dest, source, team=of)
    return dest.clone()


def _all_to_all_fake(x: torch.Tensor, team: int = 0) -> torch.Tensor:
    _scattered("all_to_all", x, team)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


_operator("all_to_all(Tensor x, int team=0) -> Tensor", _all_to_all, _all_to_all_fake, _keep_team,
          lambda ctx, grad: (ops.all_to_all(grad, ctx.team), None))


def _broadcast(x: torch.Tensor, root: int, team: int = 0) -> torch.Tensor:
    of, n = team_of(team, "torch.broadcast"), members(team, "torch.broadcast")
    if not 0 <= root < n:
        raise _bad("broadcast", f"root = {root}: expected a PE of the team, from 0 to {n - 1}")
    _turn(team)
    source, dest = _source("broadcast", x, of, (x.shape, x.dtype))
    # In a broadcast the root waits for no member. Without a sync the root could be two broadcasts
    # ahead of a slow member.
    shmem.sync(team=of, stream=torch.cuda.current_stream() if x.is_cuda else None)
    shmem.broadcast(dest, source, root, team=of)
    return dest.clone()


def _broadcast_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, ctx.root, ctx.team = inputs


def _broadcast_backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    whole = ops.all_reduce(grad, "sum", ctx.team)
    mine = my_number(ctx.team, "torch.broadcast") == ctx.root
    return whole if mine else torch.zeros_like(whole), None, None


_operator("broadcast(Tensor x, int root, int team=0) -> Tensor", _broadcast,
          lambda x, root, team=0: torch.empty(x.shape, dtype=x.dtype, device=x.device),
          _broadcast_setup, _broadcast_backward)


# --- the same, on symmetric tensors and without a copy --------------------------------------------

def _out_operator(name: str, more: str, call: Callable[..., Any]) -> None:
    _operator(f"{name}_out(Tensor(a!) out, Tensor x, {more}int team=0) -> ()", call,
              lambda *arguments, **named: None)


def _all_reduce_out(out: torch.Tensor, x: torch.Tensor, op: str = "sum", team: int = 0) -> None:
    _turn(team)
    shmem.all_reduce(out, x, op=op, team=team_of(team, "torch.all_reduce_out"))


def _reduce_scatter_out(out: torch.Tensor, x: torch.Tensor, op: str = "sum", team: int = 0) -> None:
    _turn(team)
    shmem.reduce_scatter(out, x, op=op, team=team_of(team, "torch.reduce_scatter_out"))


def _all_gather_out(out: torch.Tensor, x: torch.Tensor, team: int = 0) -> None:
    _turn(team)
    shmem.all_gather(out, x, team=team_of(team, "torch.all_gather_out"))


def _all_to_all_out(out: torch.Tensor, x: torch.Tensor, team: int = 0) -> None:
    _turn(team)
    shmem.all_to_all(out, x, team=team_of(team, "torch.all_to_all_out"))


def _broadcast_out(out: torch.Tensor, x: torch.Tensor, root: int, team: int = 0) -> None:
    _turn(team)
    shmem.broadcast(out, x, root, team=team_of(team, "torch.broadcast_out"))


_out_operator("all_reduce", "str op='sum', ", _all_reduce_out)
_out_operator("reduce_scatter", "str op='sum', ", _reduce_scatter_out)
_out_operator("all_gather", "", _all_gather_out)
_out_operator("all_to_all", "", _all_to_all_out)
_out_operator("broadcast", "int root, ", _broadcast_out)


# --- as functions ---------------------------------------------------------------------------------

class Work:
    """An operator that has been started. `wait` returns the result and puts later work of the
    current stream behind it; the host does not wait."""

    def __init__(self, result: torch.Tensor, event: Any) -> None:
        self._result, self._event = result, event

    def wait(self) -> torch.Tensor:
        """Returns the result."""
        if self._event is not None:
            stream = torch.cuda.current_stream()
            stream.wait_event(self._event)
            self._result.record_stream(stream)
            self._event = None
        return self._result

    def is_completed(self) -> bool:
        """Whether the stream has done the operator."""
        return self._event is None or self._event.query()


_streams: dict[int, Any] = {} # by device: the stream of asynchronous operators


def _call(operator: Any, x: torch.Tensor, *rest: Any, async_op: bool) -> Any:
    if not async_op:
        return operator(x, *rest)
    if not x.is_cuda: # without streams, the result is there when the operator returns
        return Work(operator(x, *rest), None)
    stream = _streams.get(x.device.index)
    if stream is None:
        stream = _streams[x.device.index] = torch.cuda.Stream(x.device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = operator(x, *rest)
        x.record_stream(stream)
        event = stream.record_event()
    _pending[rest[-1]] = event
    return Work(result, event)


def all_reduce(x: torch.Tensor, op: str = "sum", team: shmem.Team | None = None, *,
               async_op: bool = False) -> Any:
    """Element by element over the PEs of the team: sum, prod, min, max, and, or, xor. x: any shape,
    the same on all. The gradient of a sum is the sum of the gradients. async_op: a Work."""
    return _call(ops.all_reduce, x, op, number(team), async_op=async_op)


def reduce_scatter(x: torch.Tensor, op: str = "sum", team: shmem.Team | None = None, *,
                   async_op: bool = False) -> Any:
    """x: [n * rows, ...]; member i gets block i of what all_reduce gives, [rows, ...]. The gradient
    is all_gather. async_op: a Work."""
    return _call(ops.reduce_scatter, x, op, number(team), async_op=async_op)


def all_gather(x: torch.Tensor, team: shmem.Team | None = None, *, async_op: bool = False) -> Any:
    """x: [rows, ...]; all get the blocks of all members in their order, [n * rows, ...]. The
    gradient is reduce_scatter. async_op: a Work."""
    return _call(ops.all_gather, x, number(team), async_op=async_op)


def all_to_all(x: torch.Tensor, team: shmem.Team | None = None, *, async_op: bool = False) -> Any:
    """x: [n * rows, ...]; block i of the result is this PE's block of member i's x. The gradient is
    all_to_all. async_op: a Work."""
    return _call(ops.all_to_all, x, number(team), async_op=async_op)


def broadcast(x: torch.Tensor, root: int, team: shmem.Team | None = None, *,
              async_op: bool = False) -> Any:
    """x of member `root`. The gradient there is the sum of all, and zeros elsewhere. async_op: a
    Work."""
    return _call(ops.broadcast, x, root, number(team), async_op=async_op)
