#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A tensor-parallel MLP in Triton, y = relu(x @ up) @ down. Each PE has some of the hidden columns.
The kernel that multiplies stores each tile of its partial sums to the PE that owns these rows; the
owner sums the tiles in the order of the PEs, and stores the rows to all PEs.

    oshrun -n 2 examples/python/mlp_triton.py
    TRITON_INTERPRET=1 oshrun -n 2 examples/python/mlp_triton.py    # on the CPU
"""
import torch
import triton
import triton.language as tl

import shmem
import shmem.triton


@triton.jit
def multiply(x, up, down, parts, me, pes, heap_bases, dim: tl.constexpr, hidden: tl.constexpr,
             tile: tl.constexpr):
    """Tile t of the rows belongs to PE t % pes, where `parts` has a place for each tile and PE."""
    t = tl.program_id(0)
    rows = tl.arange(0, tile)[:, None] * dim
    columns = tl.arange(0, dim)
    tokens = tl.load(x + t * tile * dim + rows + columns[None, :])
    total = tl.zeros([tile, dim], tl.float32)
    for start in range(0, hidden, tile):
        inner = start + tl.arange(0, tile)
        first = tl.load(up + columns[:, None] * hidden + inner[None, :])
        second = tl.load(down + inner[:, None] * dim + columns[None, :])
        between = tl.maximum(tl.dot(tokens, first, input_precision="ieee"), 0.0)
        total += tl.dot(between, second, input_precision="ieee")
    place = (t // pes * pes + me) * tile * dim
    shmem.triton.store(parts + place + rows + columns[None, :], total, me, t % pes, heap_bases)


@triton.jit
def finish(parts, y, me, pes, heap_bases, size: tl.constexpr):
    mine, offsets = tl.program_id(0), tl.arange(0, size)
    total = tl.zeros([size], tl.float32)
    for pe in range(pes):
        total += tl.load(parts + (mine * pes + pe) * size + offsets)
    for i in range(pes):
        shmem.triton.store(y + (mine * pes + me) * size + offsets, total, me, (me + i) % pes,
                           heap_bases)


def main():
    shmem.init()
    me, pes = shmem.my_pe(), shmem.n_pes()
    tiles, tile, dim, hidden = 2 * pes, 16, 64, 32  # hidden columns of each PE
    parts, y = shmem.empty(2, pes, tile, dim), shmem.zeros(tiles * tile, dim)
    torch.manual_seed(1)
    bases = shmem.heap_bases()
    for _ in range(2):
        x, up, down = (torch.randn(*shape).to(y.device) for shape in (
            (tiles * tile, dim), (dim, pes * hidden), (pes * hidden, dim)))
        mine = slice(me * hidden, (me + 1) * hidden)
        multiply[(tiles,)](x, up[:, mine].contiguous(), down[mine], parts, me, pes, bases, dim,
                           hidden, tile)
        shmem.barrier()  # the parts of all PEs are there
        finish[(2,)](parts, y, me, pes, bases, tile * dim)
        shmem.barrier()  # the rows of all PEs are there
        torch.testing.assert_close(y, torch.relu(x @ up) @ down, rtol=1e-3, atol=1e-3)
    if me == 0:
        print(f"mlp_triton: {tiles * tile} x {dim}, {pes * hidden} hidden columns on {pes} PEs, as "
              "PyTorch's")


if __name__ == "__main__":
    main()
