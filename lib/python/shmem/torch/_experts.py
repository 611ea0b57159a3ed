# SPDX-License-Identifier: MIT
"""Tokens to experts and back, with gradients: the operators dispatch and combine."""
from __future__ import annotations

import weakref
from typing import Any

import torch

import shmem

from .._array import line
from ._ops import _operator, ops

_known: weakref.WeakValueDictionary[int, Experts] = weakref.WeakValueDictionary()


class Experts:
    """shmem.Experts for training: its arguments, and dispatch and combine that autograd and
    torch.compile take. Rows are plain tensors, [n_rows, hidden], with zeros where a row is empty.

    A backward pass takes the routing of its own forward pass. After another dispatch, as in a layer
    that is used twice, the backward pass sends the routing again."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        if named.get("token_dtype") or named.get("scale_bytes"):
            raise shmem.Error(line("torch.Experts", "token_dtype, scale_bytes: tokens of fewer "
                                   "bits have no gradient: take shmem.Experts"))
        self.core = core = shmem.Experts(*arguments, **named)
        self._serial, self.number = 0, 0 # the last dispatch; the name of these experts in operators
        self._last: tuple[Any, ...] = ()
        if named.get("team") == "none":
            return
        self.n_experts = arguments[1] if len(arguments) > 1 else named["experts"]
        self.by_pe = named.get("layout", "by_pe") == "by_pe"
        self.hidden, self.n_rows, self.dtype = core.hidden, core.n_rows, core.dtype
        team = named.get("team")
        me = shmem.my_pe() if team is None else team.my_pe()
        self.first = me * core.experts # the number of this PE's first expert
        self.number = max(_known.keys(), default=0) + 1
        _known[self.number] = self

    def dispatch(self, tokens: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor | None = None
                 ) -> torch.Tensor:
        """Sends tokens [n, hidden] to experts ids [n, top_k], int32, -1 for none. Returns the rows
        that have come to this PE. weights: [n, top_k], float32, are for combine."""
        rows, routing = ops.dispatch(tokens, ids, weights, self.number)
        self._last = ids, weights, routing
        return rows

    def combine(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns [n, hidden]: for each token of the last dispatch the sum of weight * row over the
        token's experts."""
        if not self._last:
            raise shmem.Error(line("torch.Experts.combine", "before the first dispatch"))
        return ops.combine(rows, *self._last, self.number)

    def destroy(self) -> None:
        """All PEs of the job call."""
        self.core.destroy()


def _of(number: int, fn: str) -> Experts:
    experts = _known.get(number)
    if experts is None:
        raise shmem.Error(line(f"torch.{fn}", f"experts = {number}: there are no such experts"))
    return experts


def _rows(e: Experts) -> torch.Tensor:
    """A copy of the rows that have come: a later dispatch overwrites the rows."""
    return e.core.rows.masked_fill((e.core.source_token < 0).unsqueeze(1), 0)


def _dispatch(tokens: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor | None, experts: int
              ) -> tuple[torch.Tensor, torch.Tensor]:
    e = _of(experts, "dispatch")
    e.core.dispatch(tokens.contiguous(), ids.contiguous(),
                    None if weights is None else weights.contiguous())
    e._serial += 1
    return _rows(e), torch.tensor(e._serial)


def _route(e: Experts, ids: torch.Tensor, weights: torch.Tensor | None, routing: torch.Tensor,
           tokens: torch.Tensor | None) -> None:
    """Makes a routing the current one, and sends tokens, if there are any, by this routing."""
    if int(routing) == e._serial:
        if tokens is not None:
            e.core.replay(tokens)
        return
    if tokens is None:
        tokens = torch.zeros(ids.shape[0], e.hidden, dtype=e.dtype, device=ids.device)
    e.core.dispatch(tokens, ids.contiguous(), None if weights is None else weights.contiguous())
    e._serial = int(routing)


def _dispatch_backward(grad: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor | None,
                       routing: torch.Tensor, experts: int) -> torch.Tensor:
    e = _of(experts, "dispatch_backward")
    _route(e, ids, weights, routing, None)
    e.core.rows.copy_(grad)
    out = torch.empty(ids.shape[0], e.hidden, dtype=e.dtype, device=grad.device)
    return e.core.sum(e.core.rows, out)


def _combine(rows: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor | None,
             routing: torch.Tensor, experts: int) -> torch.Tensor:
    e = _of(experts, "combine")
    if rows.shape != e.core.rows.shape or rows.dtype != e.dtype:
        raise shmem.Error(line("torch.combine", f"rows: {rows.dtype} {tuple(rows.shape)}: expected "
                               f"{e.dtype} {tuple(e.core.rows.shape)}, as dispatch gave them"))
    _route(e, ids, weights, routing, None)
    e.core.rows.copy_(rows)
    out = torch.empty(ids.shape[0], e.hidden, dtype=e.dtype, device=rows.device)
    return e.core.combine(e.core.rows, out)


def _combine_backward(grad: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor,
                      weights: torch.Tensor | None, routing: torch.Tensor, experts: int,
                      of_weights: bool) -> tuple[torch.Tensor, torch.Tensor]:
    e = _of(experts, "combine_backward")
    _route(e, ids, weights, routing, grad.contiguous())
    sent = _rows(e)
    if e.by_pe: # in this layout the rows contain the weights
        return sent, grad.new_empty(0)
    full = (e.core.source_token >= 0).unsqueeze(1)
    d_rows = (sent.float() * e.core.weight.masked_fill(~full, 0)).to(e.dtype)
    if not of_weights:
        return d_rows, grad.new_empty(0)
    # The gradient of a weight is its row times the gradient of the token. A row carries this
    # gradient home, in the column of the expert.
    dots = (sent.float() * rows.float()).sum(1, keepdim=True).masked_fill(~full, 0).to(e.dtype)
    column = (e.core.expert + e.first).clamp(min=0).long()
    e.core.rows.zero_().scatter_(1, column, dots)
    home = torch.empty(ids.shape[0], e.hidden, dtype=e.dtype, device=grad.device)
    e.core.sum(e.core.rows, home)
    d_weights = home.gather(1, ids.clamp(min=0).long()).float().masked_fill(ids < 0, 0)
    return d_rows, d_weights


def _dispatch_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, ids, weights, ctx.experts = inputs
    ctx.save_for_backward(ids, weights, output[1])


def _combine_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    rows, ids, weights, routing, ctx.experts = inputs
    ctx.of_weights = weights is not None and weights.requires_grad
    e = _of(ctx.experts, "combine")
    if ctx.of_weights and (e.by_pe or e.n_experts > e.hidden):
        raise shmem.Error(line("torch.combine", "weights: no gradient in the layout by_pe, whose "
                               "experts weigh their rows, nor of more experts than hidden"))
    ctx.save_for_backward(rows, ids, weights, routing)


def _combine_gradient(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    d_rows, d_weights = ops.combine_backward(grad, *ctx.saved_tensors, ctx.experts, ctx.of_weights)
    return d_rows, None, d_weights if ctx.of_weights else None, None, None


def _fake_rows(like: torch.Tensor, experts: int) -> torch.Tensor:
    e = _of(experts, "dispatch")
    return like.new_empty(e.n_rows, e.hidden)


def _fake_out(like: torch.Tensor, ids: torch.Tensor, experts: int) -> torch.Tensor:
    e = _of(experts, "combine")
    return torch.empty(ids.shape[0], e.hidden, dtype=e.dtype, device=like.device)


_operator("dispatch(Tensor tokens, Tensor ids, Tensor? weights, int experts) -> (Tensor, Tensor)",
          _dispatch, lambda tokens, ids, weights, experts: (
              _fake_rows(tokens, experts), torch.empty((), dtype=torch.int64)),
          _dispatch_setup,
          lambda ctx, grad, _: (ops.dispatch_backward(grad, *ctx.saved_tensors, ctx.experts), None,
                                None, None))
_operator("dispatch_backward(Tensor grad, Tensor ids, Tensor? weights, Tensor routing, int experts)"
          " -> Tensor", _dispatch_backward,
          lambda grad, ids, weights, routing, experts: _fake_out(grad, ids, experts))
_operator("combine(Tensor rows, Tensor ids, Tensor? weights, Tensor routing, int experts)"
          " -> Tensor", _combine,
          lambda rows, ids, weights, routing, experts: _fake_out(rows, ids, experts),
          _combine_setup, _combine_gradient)
_operator("combine_backward(Tensor grad, Tensor rows, Tensor ids, Tensor? weights, Tensor routing, "
          "int experts, bool of_weights) -> (Tensor, Tensor)", _combine_backward,
          lambda grad, rows, ids, weights, routing, experts, of_weights: (
              torch.empty_like(rows), torch.empty(ids.shape if of_weights else (0,),
                                                  dtype=torch.float32, device=grad.device)))
