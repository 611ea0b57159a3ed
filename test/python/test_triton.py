# SPDX-License-Identifier: MIT
"""Kernels of Triton, in its interpreter where there is no GPU."""
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import shmem
import shmem.triton as st
import torch
import triton
import triton.language as tl

HERE = Path(__file__).resolve().parent
BLOCK = 256


def grid(size):
    return (max(1, triton.cdiv(size, BLOCK)),)


def pattern(pe, size, dtype):
    """Other numbers on each PE, which int8 has, too."""
    return ((torch.arange(size) * 7 + pe * 31) % 120).to(dtype)


@triton.jit
def load_kernel(x, y, size, me, pe, bases, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < size
    tl.store(y + at, st.load(x + at, me, pe, bases, mask=mask, other=0), mask=mask)


@triton.jit
def store_kernel(x, y, size, me, pe, bases, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < size
    st.store(y + at, tl.load(x + at, mask=mask), me, pe, bases, mask=mask)


@triton.jit
def get_kernel(x, y, size, me, pe, bases, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    st.get(x + at, y + at, me, pe, bases, mask=at < size)


@triton.jit
def put_kernel(x, y, size, me, pe, bases, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    st.put(x + at, y + at, me, pe, bases, mask=at < size)


@triton.jit
def copy_here_kernel(x, y, size, me, pe, bases, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    st.copy(x + at, y + at, pe, me, me, bases, mask=at < size)


@triton.jit
def copy_there_kernel(x, y, size, me, pe, bases, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    st.copy(x + at, y + at, me, pe, me, bases, mask=at < size, hint=1)


READS = [load_kernel, get_kernel, copy_here_kernel]
WRITES = [store_kernel, put_kernel, copy_there_kernel]
TYPES = [torch.int8, torch.float16, torch.float32, torch.int64]


@pytest.mark.parametrize("kernel", READS + WRITES, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("size, skip", [(1, 0), (7, 1), (1021, 3), (0, 0)])
def test_moves(kernel, dtype, size, skip, me, n):
    """From or to the next PE, whose array begins `skip` elements into a block; and no element
    beside it is touched."""
    x, y = shmem.empty(size + 8, dtype=dtype), shmem.full((size + 8,), 121, dtype=dtype)
    x.copy_(pattern(me, size + 8, dtype))
    shmem.barrier()
    kernel[grid(size)](x[skip:], y[skip:], size, me, (me + 1) % n, shmem.heap_bases(), BLOCK)
    shmem.barrier()
    other = (me + 1) % n if kernel in READS else (me - 1) % n
    want = torch.full((size + 8,), 121, dtype=dtype)
    want[skip:skip + size] = pattern(other, size + 8, dtype)[skip:skip + size]
    assert torch.equal(y.cpu(), want)
    shmem.barrier()


@triton.jit
def every_third_kernel(x, me, pe, bases, block: tl.constexpr):
    at = tl.arange(0, block)
    st.store(x + at, at + me * 1000, me, pe, bases, mask=at % 3 == 0)


def test_mask_with_gaps(me, n):
    x = shmem.full((BLOCK,), -1, dtype=torch.int32)
    every_third_kernel[(1,)](x, me, (me + 1) % n, shmem.heap_bases(), BLOCK)
    shmem.barrier()
    at = torch.arange(BLOCK, dtype=torch.int32)
    assert torch.equal(x.cpu(), torch.where(at % 3 == 0, at + (me - 1) % n * 1000, -1))
    shmem.barrier()


@triton.jit
def tile_kernel(x, y, rows, columns, me, pe, bases, block: tl.constexpr):
    """A block of two dimensions."""
    r, c = tl.arange(0, block)[:, None], tl.arange(0, block)[None, :]
    mask = (r < rows) & (c < columns)
    st.store(y + r * columns + c, tl.load(x + r * columns + c, mask=mask), me, pe, bases, mask=mask)


def test_two_dimensions(me, n):
    x, y = shmem.empty(13, 9), shmem.zeros(13, 9)
    x.copy_(pattern(me, 13 * 9, torch.float32).view(13, 9))
    tile_kernel[(1,)](x, y, 13, 9, me, (me + 1) % n, shmem.heap_bases(), 16)
    shmem.barrier()
    assert torch.equal(y.cpu().flatten(), pattern((me - 1) % n, 13 * 9, torch.float32))
    shmem.barrier()


@triton.jit
def atomics_kernel(x, old, me, bases):
    """All PEs at once, on words of PE 0."""
    one = 1 << me
    tl.store(old, st.atomic_add(x, 1, me, 0, bases))
    st.atomic_add(x + 1, me + 1, me, 0, bases, sem="relaxed")
    st.atomic_sub(x + 2, me + 1, me, 0, bases, sem="release", scope="sys")
    st.atomic_or(x + 3, one, me, 0, bases, sem="acq_rel")
    st.atomic_xor(x + 4, one, me, 0, bases, sem="acquire")
    st.atomic_and(x + 5, -1 - one, me, 0, bases)
    st.atomic_max(x + 6, me * 5, me, 0, bases)
    st.atomic_min(x + 7, -me * 5, me, 0, bases)
    tl.store(old + 1, st.atomic_xchg(x + 8, me + 1, me, 0, bases))
    tl.store(old + 2, st.atomic_cas(x + 9, 0, me + 1, me, 0, bases, sem="acq_rel", scope="sys"))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_atomics(dtype, me, n):
    x, olds = shmem.zeros(10, dtype=dtype), shmem.zeros(n, 3, dtype=dtype)
    old = shmem.zeros(3, dtype=dtype)
    x[5] = -1
    shmem.barrier()
    step = torch.tensor(me, dtype=dtype).item()
    atomics_kernel[(1,)](x, old, step, shmem.heap_bases())
    shmem.barrier()
    shmem.all_gather(olds, old)
    if me == 0:
        total, mask = n * (n + 1) // 2, (1 << n) - 1
        most = 5 * (n - 1)
        assert x[:8].tolist() == [n, total, -total, mask, mask, -1 - mask, most, -most]
        assert sorted(olds[:, 0].tolist()) == list(range(n)), "each sum is returned once"
        assert sorted([*olds[:, 1].tolist(), int(x[8])]) == list(range(n + 1))
        won = int(x[9])
        assert olds[:, 2].tolist() == [0 if pe + 1 == won else won for pe in range(n)]
    shmem.barrier()


@triton.jit
def block_add_kernel(x, size, me, bases, block: tl.constexpr):
    at = tl.arange(0, block)
    st.atomic_add(x + at, at * 1.0, me, 0, bases, mask=at < size)


def test_atomics_of_a_block(me, n):
    x = shmem.zeros(BLOCK)
    for _ in range(3):
        block_add_kernel[(1,)](x, 100, me, shmem.heap_bases(), BLOCK)
    shmem.barrier()
    if me == 0:
        at = torch.arange(BLOCK)
        assert torch.equal(x.cpu(), torch.where(at < 100, 3.0 * n * at, 0.0))
    shmem.barrier()


@triton.jit
def pass_on_kernel(data, flag, lap, size, me, pe, bases, block: tl.constexpr):
    """Stores to the next PE and raises its flag; waits for its own, and checks nothing itself."""
    at = tl.arange(0, block)
    mask = at < size
    st.store(data + at, at + lap * 1000 + me, me, pe, bases, mask=mask)
    st.atomic_xchg(flag, lap, me, pe, bases, sem="release", scope="sys")
    while tl.atomic_add(flag, 0, sem="acquire", scope="sys") < lap:
        pass


def test_flags_with_a_late_pe(me, n):
    """Launches that follow each other with nothing between, and one PE that comes later."""
    laps, size = 5, 100
    data = shmem.zeros(laps, BLOCK, dtype=torch.int32)
    flag = shmem.zeros(1, dtype=torch.int32)
    for lap in range(1, laps + 1):
        if me == n - 1 and lap == 3:
            time.sleep(0.2)
        pass_on_kernel[(1,)](data[lap - 1], flag, lap, size, me, (me + 1) % n, shmem.heap_bases(),
                             BLOCK)
        if me == 0:
            want = torch.arange(size, dtype=torch.int32) + lap * 1000 + (me - 1) % n
            assert torch.equal(data[lap - 1, :size].cpu(), want)
    shmem.barrier()


@st.jit
def signal_kernel(source, dest, size, signal, lap, pe):
    st.put_signal(dest, source, size, signal, lap, pe)
    st.signal_wait_until(signal, "ge", lap)


@st.jit(do_not_specialize=["value"])
def add_kernel(source, dest, size, signal, value, pe, out):
    st.put_signal(dest, source, size, signal, value, pe, "add")
    st.quiet()
    st.fence()
    st.barrier()
    tl.store(out, st.signal_wait_until(signal, "ne", 0))
    tl.store(out + 1, st.my_pe() * 100 + st.n_pes())


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32], ids=str)
def test_put_signal(dtype, me, n):
    size, to = 1021, (me + 1) % n
    source, dest = shmem.empty(6, size, dtype=dtype), shmem.zeros(6, size + 1, dtype=dtype)
    signal = shmem.zeros(1, dtype=torch.int64)
    for lap in range(1, 6):
        source[lap].copy_(pattern(me + lap, size, dtype))
        if me == 0 and lap == 3:
            time.sleep(0.2)
        signal_kernel[(1,)](source[lap], dest[lap, 1:], size, signal, lap, to)
        got = dest[lap, 1:].cpu()
        assert torch.equal(got, pattern((me - 1) % n + lap, size, dtype))
    shmem.barrier()
    signal.zero_()
    shmem.barrier()
    out = shmem.zeros(2, dtype=torch.int64)
    add_kernel[(1,)](source[1], dest[1], 0, signal, 41, to, out)
    assert out.tolist() == [41, me * 100 + n]
    shmem.barrier()


@triton.jit
def context_kernel(context, x, y, size, rank: tl.constexpr, world: tl.constexpr,
                   block: tl.constexpr):
    ctx = st.DeviceContext.initialize(context, rank, world)
    at = tl.arange(0, block)
    mask = at < size
    to: tl.constexpr = (ctx.rank + 1) % ctx.world_size
    ctx.store(y + at, ctx.load(x + at, to, mask=mask), to, mask=mask)
    ctx.put(x + at, y + block + at, to, mask=mask)
    ctx.get(x + at, y + 2 * block + at, to, mask=mask)
    ctx.copy(x + at, y + 3 * block + at, to, rank, mask=mask)
    count = y + 4 * block
    ctx.atomic_add(count, 5, to)
    ctx.atomic_sub(count, 2, to, sem="relaxed", scope="sys")
    ctx.atomic_cas(count + 1, 0, 7, to, sem="acq_rel", scope="sys")
    ctx.atomic_xchg(count + 2, 9, to)
    ctx.atomic_or(count + 3, 6, to)
    ctx.atomic_xor(count + 3, 3, to)
    ctx.atomic_and(count + 3, 12, to)
    ctx.atomic_max(count + 4, 11, to)
    ctx.atomic_min(count + 5, -11, to)


def test_device_context(me, n):
    x, y = shmem.empty(64, dtype=torch.int32), shmem.zeros(5, 64, dtype=torch.int32)
    x.copy_(pattern(me, 64, torch.int32))
    shmem.barrier()
    context_kernel[(1,)](st.context(), x, y, 50, me, n, 64)
    shmem.barrier()
    before, after = (pattern((me + d) % n, 50, torch.int32) for d in (-1, 1))
    assert torch.equal(y[0, :50].cpu(), pattern(me, 50, torch.int32))
    assert torch.equal(y[1, :50].cpu(), before)
    assert torch.equal(y[2, :50].cpu(), after) and torch.equal(y[3, :50].cpu(), after)
    assert y[4, :7].tolist() == [3, 7, 9, 4, 11, -11, 0] and not y[:4, 50:].any()
    shmem.barrier()


@st.jit
def wrong_word_kernel(signal):
    st.signal_wait_until(signal, "greater", 1)


def test_bad_input(me, n):
    """Mistakes that a kernel's compiler, or the host, can see."""
    signal = shmem.zeros(1, dtype=torch.int64)
    with pytest.raises(Exception, match="'greater': not one of eq ne lt le gt ge"):
        wrong_word_kernel[(1,)](signal)
    with pytest.raises(shmem.Error, match="libshmem_device_gfx000.bc: no such file"):
        st.bitcode("hip", "gfx000")
    for pe in (-1, n, "0"):
        with pytest.raises(shmem.Error, match="expected a PE from 0 to"):
            shmem.peer(signal, pe)
    private = torch.zeros(4, device=signal.device)
    with pytest.raises(shmem.Error, match="not symmetric"):
        shmem.put_signal(private, private, signal, 1, 0)
    assert shmem.heap_bases()[me] != 0 and not shmem.is_symmetric(private)


@pytest.mark.skipif("shmem.n_pes() > 1", reason="with one PE only")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "sm_90"])
def test_compiles_without_a_gpu(arch):
    """All kernels of this file and of the examples, by Triton's own back ends."""
    done = subprocess.run([sys.executable, str(HERE / "compile_kernels.py"), arch],
                          env={**os.environ, "TRITON_INTERPRET": "0"}, capture_output=True,
                          text=True, timeout=280)
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
