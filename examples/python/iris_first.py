#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The first program of Iris's README by Iris's names: rank 0 stores into the memory of rank 1.

    oshrun -n 2 python -m shmem.iris examples/python/iris_first.py

Without a GPU the kernel runs in Triton's interpreter. first.py is the same by this library's names.
"""
import torch
import triton
import triton.language as tl

import iris


@triton.jit
def fill(buffer, n, block: tl.constexpr, target, heap_bases):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    iris.store(buffer + offsets, 1, 0, target, heap_bases, mask=offsets < n)


def main():
    ctx = iris.iris(heap_size=2**28)
    rank, last = ctx.get_rank(), ctx.get_num_ranks() - 1
    n, block = 4001, 1024
    buffer = ctx.zeros(n, device="cuda", dtype=torch.float32)
    if rank == 0:
        fill[(triton.cdiv(n, block),)](buffer, n, block, last, ctx.get_heap_bases())
    ctx.barrier()
    assert torch.equal(buffer, torch.full_like(buffer, rank == last)), f"rank {rank}: wrong"
    if rank == 0:
        print(f"iris_first: rank {last} of {last + 1} has {n} ones")


main()
