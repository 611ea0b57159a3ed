#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training loop on several PEs, each with a part of the batch. All gradients lie in
one tensor of symmetric memory, which an operator sums over the PEs in place.

    oshrun -n 2 python3 examples/python/train.py
"""
import sys

import torch

import shmem
import shmem.torch  # noqa: F401  the operators torch.ops.shmem

STEPS, BATCH, FEATURES = 60, 48, 20


def make_model(device):
    torch.manual_seed(5)  # the same on all PEs
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 64), torch.nn.Tanh(),
                               torch.nn.Linear(64, 1)).to(device)


def gradients_in(bucket, model):
    """Backward passes add to parts of the bucket."""
    at = 0
    for p in model.parameters():
        p.grad = bucket[at:at + p.numel()].view_as(p)
        at += p.numel()


def loss_of(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def main():
    shmem.init()
    me, n = shmem.my_pe(), shmem.n_pes()
    device = shmem.zeros(1).device
    model = make_model(device)
    bucket = shmem.zeros(sum(p.numel() for p in model.parameters()))
    gradients_in(bucket, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    alone = make_model(device)  # what one process does with the whole batch
    optimizer_alone = torch.optim.SGD(alone.parameters(), lr=0.1)

    size = BATCH // n
    losses, wrong = [], 0
    for step in range(STEPS):
        g = torch.Generator().manual_seed(step)
        x = torch.randn(size * n, FEATURES, generator=g).to(device)
        y = x[:, :3].sum(1, keepdim=True).tanh()
        mine = slice(me * size, (me + 1) * size)

        bucket.zero_()
        loss = loss_of(model, x[mine], y[mine])
        loss.backward()
        torch.ops.shmem.all_reduce_out(bucket, bucket, "sum", 0)
        bucket /= n
        optimizer.step()

        optimizer_alone.zero_grad()
        loss_alone = loss_of(alone, x, y)
        loss_alone.backward()
        optimizer_alone.step()
        mean = shmem.torch.all_reduce(loss.detach()) / n
        wrong += not torch.allclose(mean, loss_alone, rtol=1e-3, atol=1e-5)
        losses.append(mean.item())
    wrong += losses[-1] > losses[0] / 2
    if me == 0 or wrong:
        print(f"PE {me} of {n}: {STEPS} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}: "
              f"{'wrong' if wrong else 'as one process'}", flush=True)
    shmem.finalize()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
