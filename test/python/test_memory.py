# SPDX-License-Identifier: MIT
import gc
import math

import pytest
import shmem
from conftest import TORCH
from shmem import _memory


def same(x, y):
    return bool((x == y).all())


def test_creators(arrays, me, n):
    assert same(shmem.zeros(3, 5), 0) and tuple(shmem.zeros(3, 5).shape) == (3, 5)
    assert same(shmem.ones((7,), dtype=arrays.int16), 1)
    assert same(shmem.full((2, 2), 4), 4) and shmem.full((2, 2), 4).dtype == arrays.int64
    assert same(shmem.full((2,), 0.5), 0.5)
    assert shmem.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert shmem.arange(2, 8, 3).tolist() == [2, 5]
    assert shmem.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert shmem.empty(0).shape[0] == 0
    x = shmem.ones(9, dtype=arrays.float64)
    assert same(shmem.zeros_like(x), 0) and shmem.zeros_like(x).dtype == arrays.float64
    assert same(shmem.full_like(x, 3), 3)
    if TORCH:
        assert shmem.zeros(4, dtype=arrays.bfloat16).dtype == arrays.bfloat16


def test_numpy_beside_torch():
    import numpy

    x = shmem.zeros(4, dtype=numpy.int32)
    assert isinstance(x, numpy.ndarray) and shmem.is_symmetric(x)


def whole(make, count, **more):
    """All PEs' parts of an array, in order."""
    part = make(count, **more)
    all = shmem.empty(count * shmem.n_pes(), dtype=part.dtype)
    shmem.all_gather(all, part)
    return all


def test_random_numbers_do_not_depend_on_the_pes(arrays, me, n):
    # The same whole in parts of another size: as with half as many PEs.
    count = 24 * 4
    shmem.manual_seed(42)
    a = whole(shmem.rand, count // n)
    shmem.manual_seed(42)
    alone = shmem.rand(count) # its first part is PE 0's
    shmem.broadcast(alone, root=0)
    assert same(a, alone) and not same(a[1:], a[:-1])
    assert bool((a >= 0).all()) and bool((a < 1).all())


def test_random_numbers_are_spread(arrays):
    x = shmem.randn(4000, dtype=arrays.float64)
    mean, deviation = float(x.mean()), float(x.std())
    assert abs(mean) < 0.1 and abs(deviation - 1) < 0.1
    k = shmem.randint(-3, 4, (4000,))
    assert sorted(set(k.tolist())) == list(range(-3, 4))
    u = shmem.uniform(1000, low=2.0, high=3.0)
    assert float(u.min()) >= 2 and float(u.max()) <= 3 and not math.isclose(u.min(), u.max())
    shmem.manual_seed(5)
    x = shmem.rand(10)
    shmem.manual_seed(5)
    assert same(x, shmem.rand(10))


def test_memory_comes_back_without_a_collective_in_a_destructor(me, n):
    gc.collect()
    shmem.collect()
    before = len(_memory._order)
    kept = shmem.zeros(100)
    for _ in range(3):
        gone = shmem.zeros(1000)
    view = gone[10:20]
    del gone
    shmem.collect()
    assert len(_memory._order) == before + 2 # the view keeps its array
    del view
    if me == 0: # one PE still has it
        again = kept
    del kept
    shmem.collect()
    assert len(_memory._order) == before + 1
    if me == 0:
        del again
    assert shmem.collect() == 1
    assert len(_memory._order) == before


def test_the_heap_serves_more_than_it_has(arrays):
    for _ in range(40): # 40 times 8 MiB of a heap of 64
        x = shmem.empty(1 << 20, dtype=arrays.float64)
    assert shmem.is_symmetric(x)


def test_no_room_is_an_error():
    with pytest.raises(shmem.Error, match="no room for .* bytes on the symmetric heap"):
        shmem.empty(1 << 50)
    shmem.barrier()


def test_peer(me, n):
    x = shmem.full((5,), float(me))
    for pe in range(n):
        assert same(shmem.peer(x, pe), pe)
    shmem.barrier()
    shmem.peer(x, (me + 1) % n)[2] = 100 + me
    shmem.barrier()
    assert x[2] == 100 + (me - 1) % n
    shmem.barrier()


def test_heap_bases(me, n):
    x = shmem.zeros(1)
    bases = [int(b) for b in shmem.heap_bases()]
    assert len(bases) == n
    for pe in range(n):
        there = shmem.address(shmem.peer(x, pe))
        assert there - shmem.address(x) == bases[pe] - bases[me]


def test_symmetric(arrays, device):
    x = shmem.zeros(10)
    assert shmem.is_symmetric(x) and shmem.is_symmetric(x[3:])
    plain = arrays.ones(10, device=device) if TORCH else arrays.ones(10)
    assert not shmem.is_symmetric(plain)
    y = shmem.as_symmetric(plain)
    assert shmem.is_symmetric(y) and same(y, plain) and y is not plain
    assert shmem.as_symmetric(y) is y
    assert shmem.as_symmetric(y if shmem.my_pe() else plain) is not y or shmem.n_pes() == 1


def test_free(me):
    x, y = shmem.zeros(10), shmem.zeros(10)
    shmem.free(x)
    with pytest.raises(shmem.Error, match="has been freed"):
        shmem.put(x, y, me)
    with pytest.raises(shmem.Error, match="has been freed"):
        shmem.free(x)
    with pytest.raises(shmem.Error, match="not its start"):
        shmem.free(y[1:])
    with pytest.raises(shmem.Error, match="not an array of shmem"):
        shmem.free(bytearray(8))


def test_freed_memory_serves_again(arrays, me):
    """Memory that C allocates where an array was is symmetric."""
    x = shmem.zeros(5000)
    shmem.free(x)
    e = shmem.Experts(64, shmem.n_pes(), 1, 64, arrays.float32)
    assert shmem.is_symmetric(e.rows)
    e.destroy()


@pytest.mark.parametrize("make, text", [
    (lambda: shmem.zeros(-1), r"size = \(-1,\)"),
    (lambda: shmem.zeros("x"), "size = "),
    (lambda: shmem.zeros(2, dtype="nothing"), "dtype = 'nothing'"),
    (lambda: shmem.zeros(2, device="tpu"), "device = tpu"),
    (lambda: shmem.randint(3, 3), "no number between"),
    (lambda: shmem.peer(shmem.zeros(1), shmem.n_pes()), "expected a PE from 0"),
    (lambda: shmem.init(), "is a PE already"),
])
def test_bad_input(make, text):
    with pytest.raises(shmem.Error, match=text) as error:
        make()
    assert str(error.value).startswith(f"PE {shmem.my_pe()}: shmem.")
    assert "\n" not in str(error.value)
    shmem.barrier() # the job goes on


def test_freed_and_kept(arrays, n):
    """An array that has been freed goes after another one has got its memory."""
    gc.collect() # of other tests
    shmem.collect()
    old = shmem.ones(100)
    at = shmem.address(old)
    shmem.free(old)
    new = shmem.zeros(100)
    assert shmem.address(new) == at
    del old
    gc.collect()
    assert shmem.collect() == 0
    shmem.all_reduce(new)
    assert (new == 0).all()
    shmem.free(new)
