#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A kernel of Triton's on PE 0 stores into the memory of the last PE.

    oshrun -n 2 examples/python/first.py                       # on GPUs
    TRITON_INTERPRET=1 oshrun -n 2 examples/python/first.py    # on the CPU
"""
import torch
import triton
import triton.language as tl

import shmem
import shmem.triton


@triton.jit
def fill(buffer, n, block: tl.constexpr, target, heap_bases):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    shmem.triton.store(buffer + offsets, 1, 0, target, heap_bases, mask=offsets < n)


def main():
    shmem.init()
    me, last = shmem.my_pe(), shmem.n_pes() - 1
    n, block = 4001, 1024
    buffer = shmem.zeros(n)
    if me == 0:
        fill[(triton.cdiv(n, block),)](buffer, n, block, last, shmem.heap_bases())
    shmem.barrier()
    assert torch.equal(buffer, torch.full_like(buffer, me == last)), f"PE {me}: wrong"
    if me == 0:
        print(f"first: PE {last} of {last + 1} has {n} ones")


if __name__ == "__main__":
    main()
