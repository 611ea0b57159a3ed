#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A mixture of experts with its gradients. Each PE has tokens and some of the experts; a token
goes to the experts that a router chooses, and comes back as their weighted sum.

    oshrun -n 2 python3 examples/python/experts.py
"""
import sys

import torch

import shmem
import shmem.torch

HIDDEN, INNER, EACH, TOP_K, TOKENS = 32, 64, 2, 2, 40


def of_pe(pe, *shape):
    """Numbers that all PEs know, so that one process can check the others."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(pe)) / shape[-1] ** 0.5


def choose(x, router):
    """Of each token the experts, and their weights."""
    weights, ids = (x @ router).softmax(-1).topk(TOP_K)
    return ids, weights


def alone(tokens, router, up, down):
    """One process, with all experts: each makes all tokens, of which the weights keep a few."""
    made = torch.einsum("th,ehi->tei", tokens, up).relu()
    made = torch.einsum("tei,eih->teh", made, down)
    ids, weights = choose(tokens, router)
    return (made.gather(1, ids.unsqueeze(2).expand(-1, -1, HIDDEN)) * weights.unsqueeze(2)).sum(1)


def close(a, b):
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4)


def main():
    shmem.init()
    me, n = shmem.my_pe(), shmem.n_pes()
    device = shmem.zeros(1).device
    tokens = [of_pe(pe, TOKENS, HIDDEN).to(device) * 6 for pe in range(n)]
    router = of_pe(100, HIDDEN, n * EACH).to(device).requires_grad_()
    up = of_pe(101, n * EACH, HIDDEN, INNER).to(device).requires_grad_()
    down = of_pe(102, n * EACH, INNER, HIDDEN).to(device).requires_grad_()
    want = alone(torch.cat(tokens), router, up, down)
    want.square().sum().backward()

    # This PE's experts; the router is the same everywhere.
    part = slice(me * EACH, (me + 1) * EACH)
    my_router = router.detach().clone().requires_grad_()
    my_up, my_down = (w.detach()[part].clone().requires_grad_() for w in (up, down))
    experts = shmem.torch.Experts(HIDDEN, n * EACH, TOP_K, TOKENS, torch.float32,
                                  layout="by_expert")
    ids, weights = choose(tokens[me], my_router)
    rows = experts.dispatch(tokens[me], ids.int(), weights)
    made = torch.bmm(rows.view(EACH, -1, HIDDEN), my_up).relu()
    made = torch.bmm(made, my_down)
    got = experts.combine(made.view(-1, HIDDEN))
    got.square().sum().backward()
    d_router = shmem.torch.all_reduce(my_router.grad)

    good = [close(got, want[me * TOKENS:(me + 1) * TOKENS]), close(my_up.grad, up.grad[part]),
            close(my_down.grad, down.grad[part]), close(d_router, router.grad)]
    came = int(experts.core.expert_count.sum())
    print(f"PE {me} of {n}: {came} rows for {EACH} experts: "
          f"{'as one process' if all(good) else f'wrong: {good}'}", flush=True)
    shmem.barrier()
    experts.destroy()
    shmem.finalize()
    return not all(good)


if __name__ == "__main__":
    sys.exit(main())
