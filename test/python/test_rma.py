# SPDX-License-Identifier: MIT
import array
import time

import pytest
import shmem
from conftest import TORCH


def same(x, y):
    return bool((x == y).all())


@pytest.mark.parametrize("count", [1, 3, 1021])
@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "int64", "uint8", "complex64"])
def test_put_and_get(arrays, me, n, kind, count):
    dtype = getattr(arrays, kind)
    x = shmem.zeros(count, dtype=dtype)
    source = shmem.full((count,), me + 1, dtype=dtype)
    shmem.put(x, source, (me + 1) % n)
    shmem.barrier()
    assert same(x, (me - 1) % n + 1)
    back = shmem.zeros(count, dtype=dtype)
    shmem.get(back, x, (me + 1) % n)
    assert same(back, me + 1)
    shmem.barrier()


def test_parts_and_misaligned(arrays, me, n):
    x = shmem.zeros(100, dtype=arrays.int8)
    source = shmem.full((100,), me + 1, dtype=arrays.int8)
    for _ in range(5): # each PE stores in a part of its own
        shmem.put(x[20 * (me % 5) + 1:], source[3:20], 0)
    shmem.barrier()
    if me == 0:
        for pe in range(n):
            part = x[20 * pe:20 * pe + 20].tolist()
            assert part == [0] + [pe + 1] * 17 + [0] * 2
    shmem.barrier()


def test_other_sources(me, n):
    x = shmem.zeros(4, dtype="int64") if not TORCH else shmem.zeros(4).long()
    x = shmem.as_symmetric(x)
    shmem.put(x, array.array("q", [me, 1, 2, 3]), (me + 1) % n)
    shmem.barrier()
    assert x.tolist() == [(me - 1) % n, 1, 2, 3]
    back = bytearray(16)
    shmem.get(memoryview(back).cast("q"), x, (me + 1) % n)
    assert list(memoryview(back).cast("q")) == [me, 1]
    shmem.barrier()


def test_strided(arrays, me, n):
    x, source = shmem.zeros(20), shmem.arange(20, dtype=arrays.float32)
    shmem.iput(x, source, 3, 2, 5, (me + 1) % n)
    shmem.barrier()
    assert x[::3][:5].tolist() == [0, 2, 4, 6, 8] and x[1] == 0
    y = shmem.zeros(5)
    shmem.iget(y, x, 1, 3, 5, (me + 1) % n)
    assert y.tolist() == [0, 2, 4, 6, 8]
    shmem.barrier()


def test_single_elements_and_atomics(arrays, me, n):
    x = shmem.zeros(2, dtype=arrays.int64)
    shmem.p(x[1:], 40 + me, (me + 1) % n)
    shmem.atomic_add(x, me + 1, 0)
    shmem.barrier()
    assert shmem.g(x[1:], (me + 1) % n) == 40 + me
    assert shmem.atomic_fetch(x, 0) == n * (n + 1) // 2
    shmem.barrier()
    tickets = [shmem.atomic_fetch_inc(x, 0) for _ in range(10)]
    assert len(set(tickets)) == 10
    shmem.barrier()
    assert shmem.atomic_fetch(x, 0) == n * (n + 1) // 2 + 10 * n
    assert shmem.atomic_compare_swap(x[1:], -1, 7, me) != 7
    assert shmem.atomic_swap(x[1:], 9, me) == 40 + (me - 1) % n
    assert shmem.atomic_fetch_xor(x[1:], 1, me) == 9 and shmem.g(x[1:], me) == 8
    shmem.barrier()


def test_signals(arrays, me, n):
    x, source = shmem.zeros(33), shmem.full((33,), float(me))
    signal = shmem.zeros(1, dtype=arrays.int64)
    for lap in range(1, 4):
        if me == lap % n:
            time.sleep(0.02) # one PE is late
        shmem.put_signal(x, source, signal, 1, (me + 1) % n, op="add")
        shmem.signal_wait_until(signal, ">=", lap)
        assert same(x, (me - 1) % n)
    assert shmem.signal_fetch(signal) == 3
    shmem.barrier()


def test_waits(arrays, me, n):
    x = shmem.zeros(n, dtype=arrays.int32)
    for pe in range(n):
        shmem.p(x[me:], me + 1, pe)
    shmem.wait_until_all(x, ">", 0)
    assert x.tolist() == list(range(1, n + 1))
    assert shmem.wait_until_any(x, "==", n) == n - 1 and shmem.test(x, "==", 1)
    shmem.barrier()


def test_locks(arrays, me, n):
    lock, x = shmem.zeros(1, dtype=arrays.int64), shmem.zeros(1, dtype=arrays.int64)
    for _ in range(5):
        shmem.set_lock(lock)
        shmem.p(x, shmem.g(x, 0) + 1, 0)
        shmem.quiet()
        shmem.clear_lock(lock)
    shmem.barrier()
    assert shmem.g(x, 0) == 5 * n
    shmem.barrier()


def test_streams(arrays, me, n):
    """With a stream also memory of the host goes by it."""
    x, source = shmem.zeros(10), shmem.full((10,), float(me))
    signal = shmem.zeros(1, dtype=arrays.int64)
    shmem.put_signal(x, source, signal, 1, (me + 1) % n, stream=0)
    shmem.signal_wait_until(signal, "==", 1, stream=0)
    shmem.barrier(stream=0)
    shmem._library.lib.shmemx_stream_synchronize(0)
    assert same(x, (me - 1) % n)
    shmem.barrier()


def bad():
    x, y = shmem.zeros(8), shmem.ones(8)
    plain = bytearray(32)
    return [
        (lambda: shmem.put(memoryview(plain).cast("f"), y, 0), "dest = .*: not symmetric"),
        (lambda: shmem.get(y, memoryview(plain).cast("f"), 0), "source = .*: not symmetric"),
        (lambda: shmem.put(x, y, shmem.n_pes()), "pe = "),
        (lambda: shmem.put(x, y, -1), "pe = -1"),
        (lambda: shmem.put(x, bytearray(8), 0), "elements of uint8, and dest has float"),
        (lambda: shmem.put(x[:2], y, 0), "8 elements, and dest has 2"),
        (lambda: shmem.put(x[::2], y[:4], 0), "gaps"),
        (lambda: shmem.put("text", y, 0), "a str, which is no array"),
        (lambda: shmem.atomic_add(x, 1, 0), "for which there is no atomic_add"),
        (lambda: shmem.put_signal(x, y, x, 1, 0), "signal: expected one element"),
        (lambda: shmem.put_signal(x, y, x, 1, 0, op="mul"), "signal|op"),
        (lambda: shmem.iput(x, y, 0, 1, 2, 0), "elements, 0 apart"),
        (lambda: shmem.iput(x, y, 4, 1, 3, 0), "elements, 4 apart"),
        (lambda: shmem.wait_until(x, "==", 1), "no wait_until"),
        (lambda: shmem.set_lock(x), "lock: expected"),
        (lambda: shmem.put(x, y, 0, 1, 2), None),
    ]


def test_bad_input():
    for call, text in bad():
        if text is None:
            with pytest.raises(TypeError):
                call()
            continue
        with pytest.raises(shmem.Error, match=text) as error:
            call()
        assert str(error.value).startswith(f"PE {shmem.my_pe()}: shmem.")
    shmem.barrier()
