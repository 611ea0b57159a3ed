# SPDX-License-Identifier: MIT
import pytest
import shmem
from conftest import TORCH

KINDS = ["float32", "float64", "int32", "int64"] + (["bfloat16", "float16"] if TORCH else [])


def same(x, y):
    return bool((x == y).all())


def beside(x):
    """The same as an array of symmetric memory, on the GPU if the library's arrays are there."""
    return shmem.as_symmetric(x.to(shmem.empty(1).device) if TORCH else x)


def numbers(arrays, count, dtype, by):
    """Small integers, which all types have: element i on PE by."""
    x = arrays.arange(count) * 3 % 7 + by
    return beside(x.to(dtype) if TORCH else x.astype(dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 13, 1000])
def test_all_reduce(arrays, me, n, kind, count):
    dtype = getattr(arrays, kind)
    x = numbers(arrays, count, dtype, me)
    whole = n * (arrays.arange(count) * 3 % 7) + n * (n - 1) // 2
    out = shmem.empty(count, dtype=dtype)
    for _ in range(3): # no barrier between them
        shmem.all_reduce(out, x)
    assert out.tolist() == whole.tolist()
    shmem.all_reduce(x, op="max")
    assert x.tolist() == (arrays.arange(count) * 3 % 7 + n - 1).tolist()


def test_bits(arrays, me, n):
    x = shmem.full((5,), 1 << me, dtype=arrays.int32)
    shmem.all_reduce(x, op="or")
    assert same(x, (1 << n) - 1)
    x = shmem.full((5,), 1 << me, dtype=arrays.int32)
    shmem.all_reduce(x, op="xor")
    assert same(x, (1 << n) - 1)


@pytest.mark.parametrize("count", [1, 13, 1000])
def test_moves(arrays, me, n, count):
    x = numbers(arrays, count, arrays.float32, me)
    all = shmem.empty(n * count)
    shmem.all_gather(all, x)
    for pe in range(n):
        assert all[pe * count:(pe + 1) * count].tolist() == numbers(
            arrays, count, arrays.float32, pe).tolist()
    mine = shmem.empty(count)
    shmem.reduce_scatter(mine, all)
    assert mine.tolist() == [n * v for v in x.tolist()]
    out = shmem.empty(n * count)
    shmem.all_to_all(out, all)
    for pe in range(n): # all have the same: of each the block for this PE
        assert same(out[pe * count:(pe + 1) * count], x)
    y = shmem.full((count,), float(me))
    shmem.broadcast(y, root=n - 1)
    assert same(y, n - 1)
    z = shmem.zeros(count)
    shmem.broadcast(z, x, root=0)
    assert z.tolist() == numbers(arrays, count, arrays.float32, 0).tolist()


def test_scans(arrays, me, n):
    x, y = shmem.full((7,), me + 1, dtype=arrays.int64), shmem.empty(7, dtype=arrays.int64)
    shmem.inscan(y, x)
    assert same(y, (me + 1) * (me + 2) // 2)
    shmem.exscan(y, x)
    assert same(y, me * (me + 1) // 2)


def test_all_to_all_v(arrays, me, n):
    # Member i gets i + me + 1 rows of 3.
    counts = beside(arrays.arange(n) + me + 1)
    offsets = shmem.zeros(n, dtype=arrays.int64)
    for i in range(1, n):
        offsets[i] = offsets[i - 1] + counts[i - 1]
    source = shmem.empty(40, 3)
    source[...] = me
    dest = shmem.full((40, 3), -1.0)
    got, at = shmem.zeros(n, dtype=arrays.int64), shmem.zeros(n, dtype=arrays.int64)
    shmem.all_to_all_v(dest, got, at, source, counts, offsets)
    assert got.tolist() == [me + i + 1 for i in range(n)]
    for i in range(n):
        assert same(dest[int(at[i]):int(at[i] + got[i])], i)
    assert same(dest[int(at[n - 1] + got[n - 1]):], -1)


def test_teams(arrays, me, n):
    world = shmem.world()
    assert (world.my_pe(), world.n_pes()) == (me, n) and shmem.shared().n_pes() == n
    with shmem.Team.from_list(reversed(range(n))) as back:
        assert back.my_pe() == n - 1 - me and back.pes() == list(reversed(range(n)))
        x = shmem.full((3,), float(me))
        all = shmem.empty(3 * n)
        shmem.all_gather(all, x, team=back)
        assert all[::3].tolist() == list(reversed(range(n)))
        shmem.sync(back)
    with pytest.raises(shmem.Error, match="has been destroyed"):
        shmem.all_reduce(x, team=back)
    odd = world.split_strided(0, 2, (n + 1) // 2)
    assert (odd is None) == bool(me % 2)
    if odd:
        one = [x for x in (0,)]
        assert odd.translate(odd.my_pe()) == me and one == [0]
        odd.destroy()
    row, column = world.split_2d(2)
    assert row.n_pes() <= 2 and column.my_pe() == me // 2
    y = shmem.ones(2)
    shmem.all_reduce(y, team=row)
    assert same(y, row.n_pes())
    row.destroy()
    column.destroy()
    with pytest.raises(shmem.Error, match="not among them|expected different"):
        shmem.Team.from_list([(me + 1) % n, (me + 1) % n])
    shmem.barrier()


def test_bad_input(arrays, device):
    x, y, n = shmem.zeros(12), shmem.zeros(7), shmem.n_pes()
    plain = arrays.zeros(12, device=device) if TORCH else arrays.zeros(12, dtype="float32")
    for call, text in [
            (lambda: shmem.all_reduce(x, y), "dest: 12 elements, expected 7"),
            (lambda: shmem.all_reduce(x, op="avg"), "op = 'avg'"),
            (lambda: shmem.all_reduce(plain), "dest = .*: not symmetric"),
            (lambda: shmem.all_reduce(x, plain), "source = .*: not symmetric"),
            (lambda: shmem.all_gather(x, y), f"expected {7 * n}"),
            (lambda: shmem.reduce_scatter(x, y), "dest: 12"),
            (lambda: shmem.all_to_all(x, shmem.zeros(12, dtype=arrays.int32)), "elements of int32"),
            (lambda: shmem.broadcast(x, root=n), "root = "),
            (lambda: shmem.all_reduce(x, op="xor"), "no xor_reduce"),
            (lambda: shmem.all_reduce(x, team="world"), "no shmem.Team")]:
        with pytest.raises(shmem.Error, match=text) as error:
            call()
        assert str(error.value).startswith(f"PE {shmem.my_pe()}: shmem.")
    shmem.barrier()
