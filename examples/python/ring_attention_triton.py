#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ring attention in one kernel of Triton's: each PE has a block of the sequence. The blocks of keys
and values go from PE to PE by put and signal, while each PE uses the block that it has.

    oshrun -n 2 examples/python/ring_attention_triton.py
    TRITON_INTERPRET=1 oshrun -n 2 examples/python/ring_attention_triton.py    # on the CPU
"""
import torch
import triton.language as tl

import shmem
import shmem.triton


@shmem.triton.jit
def attend(q, kv, out, signal, lap, scale, me, pes, rows: tl.constexpr, dim: tl.constexpr,
           tile: tl.constexpr):
    """kv has a slot for each step: keys, then values, of `rows` x `dim`. Slot 0 is this PE's own;
    the PE before this one sends slot i and sets signal i."""
    first = tl.program_id(0) * tile
    columns = tl.arange(0, dim)
    at = (first + tl.arange(0, tile))[:, None] * dim + columns[None, :]
    queries = tl.load(q + at)
    most = tl.full([tile], float("-inf"), tl.float32)
    weight = tl.zeros([tile], tl.float32)
    total = tl.zeros([tile, dim], tl.float32)
    for step in range(pes):
        if step > 0:
            shmem.triton.signal_wait_until(signal + step, "ge", lap)
        slot = kv + step * 2 * rows * dim
        if (first == 0) & (step + 1 < pes):  # one program sends
            shmem.triton.put_signal(slot + 2 * rows * dim, slot, 2 * rows * dim,
                                    signal + step + 1, lap, (me + 1) % pes)
        for start in range(0, rows, tile):
            block = slot + (start + tl.arange(0, tile))[:, None] * dim + columns[None, :]
            keys, values = tl.load(block), tl.load(block + rows * dim)
            scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
            now = tl.maximum(most, tl.max(scores, 1))
            scores = tl.exp(scores - now[:, None])
            shrink = tl.exp(most - now)
            weight = weight * shrink + tl.sum(scores, 1)
            total = total * shrink[:, None] + tl.dot(scores, values, input_precision="ieee")
            most = now
    tl.store(out + at, total / weight[:, None])


def main():
    shmem.init()
    me, pes = shmem.my_pe(), shmem.n_pes()
    rows, dim, tile = 64, 32, 32
    kv = shmem.empty(pes, 2, rows, dim)
    signal = shmem.zeros(pes, dtype=torch.int64)
    out = torch.empty(rows, dim, device=kv.device)
    torch.manual_seed(1)
    for lap in range(1, 3):
        q, k, v = torch.randn(3, pes, rows, dim).to(kv.device)
        kv[0, 0], kv[0, 1] = k[me], v[me]
        attend[(rows // tile,)](q[me].contiguous(), kv, out, signal, lap, dim**-0.5, me, pes, rows,
                                dim, tile)
        whole = torch.nn.functional.scaled_dot_product_attention(
            q[me][None], k.view(1, -1, dim), v.view(1, -1, dim))[0]
        torch.testing.assert_close(out, whole, rtol=1e-3, atol=1e-3)
        shmem.barrier()  # no PE puts into a slot that another one still reads
    if me == 0:
        print(f"ring_attention_triton: {rows} x {dim} of {pes} PEs as PyTorch's attention")


if __name__ == "__main__":
    main()
