#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An all-reduce in one kernel of Triton's: each PE sums its part of all PEs' arrays, in the order
of the PEs, and stores the sum to all of them. All PEs get the same bits.

    oshrun -n 2 examples/python/all_reduce_triton.py
    TRITON_INTERPRET=1 oshrun -n 2 examples/python/all_reduce_triton.py    # on the CPU
"""
import torch
import triton
import triton.language as tl

import shmem
import shmem.triton


@triton.jit
def all_reduce(x, out, n, part, me, pes, heap_bases, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    mask = (offsets < part) & (me * part + offsets < n)
    offsets += me * part
    total = tl.zeros([block], tl.float32)
    for pe in range(pes):
        total += shmem.triton.load(x + offsets, me, pe, heap_bases, mask=mask, other=0)
    for i in range(pes):  # each PE begins with another one, so that all links are in use
        shmem.triton.store(out + offsets, total, me, (me + i) % pes, heap_bases, mask=mask)


def main():
    shmem.init()
    me, pes = shmem.my_pe(), shmem.n_pes()
    n, block = 20011, 2048
    part = triton.cdiv(triton.cdiv(n, pes), 16) * 16
    x, out = shmem.empty(n), shmem.zeros(n)
    torch.manual_seed(1)
    inputs = torch.randn(pes, n).to(x.device)
    for _ in range(2):
        x.copy_(inputs[me])
        shmem.barrier()  # the inputs of all PEs are there
        all_reduce[(triton.cdiv(part, block),)](x, out, n, part, me, pes, shmem.heap_bases(), block)
        shmem.barrier()  # the sums of all PEs are there
        torch.testing.assert_close(out, inputs.sum(0))
    if me == 0:
        print(f"all_reduce_triton: {n} sums over {pes} PEs as PyTorch's")


if __name__ == "__main__":
    main()
