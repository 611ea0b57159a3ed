# SPDX-License-Identifier: MIT
"""Calls that have passed their checks are kept. Each test here makes a call that passes, and then
one that must be checked again."""
import subprocess
import sys

import pytest
import shmem
from conftest import TORCH
from shmem import _checked
from shmem._array import array
from shmem._library import lib


def same(x, y):
    return bool((x == y).all())


def fails(text, call, *arguments, **named):
    with pytest.raises(shmem.Error, match=text):
        call(*arguments, **named)


def test_a_second_call_is_kept(n):
    x, y = shmem.zeros(3), shmem.ones(3)
    _checked.forget()
    for call, words in [(shmem.all_reduce, ()), (shmem.all_reduce, ("max",)),
                        (shmem.all_to_all, ()), (shmem.broadcast, (n - 1,)), (shmem.inscan, ()),
                        (shmem.exscan, ()), (shmem.put, (0,)), (shmem.get, (0,))]:
        if call is shmem.all_to_all and 3 % n:
            continue
        before = len(_checked._calls)
        for _ in range(3):
            call(x, y, *words)
        assert len(_checked._calls) == before + 1, call
    shmem.barrier()
    before = len(_checked._calls)
    for _ in range(2):
        shmem.all_reduce(x, y)
        assert same(x, n)
        shmem.all_reduce(x, y, stream=0)
        shmem.quiet(0)
    shmem.all_reduce(y)
    # In place; and on the host that of stream 0, which on a GPU is the current one.
    assert same(y, n)
    assert len(_checked._calls) == before + (1 if getattr(x, "is_cuda", False) else 2)


def test_freed(arrays, me):
    x, y = shmem.zeros(100), shmem.ones(100)
    at = shmem.address(x)
    shmem.all_reduce(x, y)
    shmem.all_reduce(x)
    shmem.put(x, y, me)
    shmem.barrier()
    shmem.free(x)
    fails("dest = .*: has been freed", shmem.all_reduce, x, y)
    fails("dest = .*: has been freed", shmem.all_reduce, x)
    fails("dest = .*: has been freed", shmem.put, x, y, me)
    new = shmem.zeros(50)
    assert shmem.address(new) == at
    fails("dest: 50 elements, expected 100", shmem.all_reduce, new, y)
    fails("source: 100 elements, and dest has 50", shmem.put, new, y, me)
    shmem.all_reduce(new, y[:50])
    assert same(new, shmem.n_pes())


def test_collected():
    """An array whose tensor has gone, and whose address another kind of array still has."""
    x = shmem.zeros(100)
    at = shmem.address(x)
    shmem.all_reduce(x)
    kept = len(_checked._calls)
    assert kept
    del x
    shmem.collect()
    assert not _checked._calls
    assert shmem.address(shmem.zeros(100)) == at


def test_gaps(me):
    x, y = shmem.zeros(8), shmem.ones(8)
    for call, words in (shmem.all_reduce, ()), (shmem.put, (me,)), (shmem.get, (me,)):
        call(x[:4], y[:4], *words)
        fails("dest: elements with gaps", call, x[::2], y[:4], *words)
        fails("source: elements with gaps", call, x[:4], y[::2], *words)
    square = shmem.zeros(2, 2)
    shmem.all_reduce(square)
    fails("dest: elements with gaps", shmem.all_reduce, square.T)
    shmem.barrier()


def test_lengths(me, n):
    x, y = shmem.zeros(4), shmem.ones(4)
    shmem.all_reduce(x, y)
    fails("dest: 2 elements, expected 4", shmem.all_reduce, x[:2], y)
    fails("dest: 4 elements, expected 2", shmem.all_reduce, x, y[:2])
    shmem.put(x, y, me)
    fails("source: 4 elements, and dest has 2", shmem.put, x[:2], y, me)
    shmem.barrier()
    shmem.all_reduce(x[:2], y[:2])
    assert x.tolist() == [n, n, 1, 1]


def test_types(arrays, me, n):
    x, y = shmem.zeros(4, dtype=arrays.int32), shmem.ones(4, dtype=arrays.int32)
    shmem.all_reduce(x, y)
    shmem.put(x, y, me)
    shmem.all_reduce(x, y)
    assert x.tolist() == [n] * 4
    floats = x.view(arrays.float32)
    fails("source: elements of int32, and dest has float", shmem.all_reduce, floats, y)
    fails("source: elements of int32, and dest has float", shmem.put, floats, y, me)
    fails("source: elements of float, and dest has int32", shmem.all_reduce, x,
          y.view(arrays.float32))
    floats[...] = 0.5
    shmem.all_reduce(floats)
    assert same(floats, n / 2)
    shmem.all_reduce(x, op="xor")
    fails("no xor_reduce", shmem.all_reduce, floats, op="xor")
    shmem.barrier()


def test_words(me):
    """Words that are equal, and of which one only is right."""
    x, y = shmem.zeros(4), shmem.ones(4)
    shmem.broadcast(x, y, root=0)
    fails("root = 0.0", shmem.broadcast, x, y, root=0.0)
    fails(r"root = \[0\]", shmem.broadcast, x, y, root=[0])
    shmem.put(x, y, me)
    fails("pe = .*: expected a PE", shmem.put, x, y, float(me))
    shmem.put(x, x, me)
    fails("source: a NoneType, which is no array", shmem.put, x, None, me)
    fails("dest: a NoneType, which is no array", shmem.all_reduce, None)
    fails("team: a list, which is no shmem.Team", shmem.all_reduce, x, team=[])
    shmem.barrier()


def test_other_memory():
    """A buffer may go without a word to the package, so its calls are checked each time."""
    at = lib.shmem_malloc(64)
    x = shmem._memory.view(at, (16,), "float32" if not TORCH else None, "cpu",
                           sys.modules["torch"] if TORCH else None, None)
    x[...] = 1
    _checked.forget()
    if not TORCH or shmem.platform() == "cpu":
        for _ in range(2):
            shmem.all_reduce(x)
        assert not _checked._calls and same(x, shmem.n_pes() ** 2)
    lib.shmem_free(at)


def test_teams(me, n):
    x, y = shmem.ones(2), shmem.zeros(2)
    with shmem.Team.from_list([me]) as alone:
        for team, sum in (None, n), (alone, 1), (shmem.world(), n), (None, n), (alone, 1):
            shmem.all_reduce(y, x, team=team)
            assert same(y, sum)
    for make in (lambda: shmem.Team.from_list(range(n))), shmem.world:
        team = make()
        shmem.all_reduce(x, op="max", team=team)
        shmem.all_gather(shmem.zeros(2 * n), x, team=team)
        shmem.all_reduce(x, op="max", team=team)
        team.destroy()
        fails("team: has been destroyed", shmem.all_reduce, x, op="max", team=team)
    shmem.barrier()


def test_finalize():
    """In a process of its own: one PE, and another one at the same addresses."""
    done = subprocess.run([sys.executable, "-c", """
import numpy, shmem
for job in range(2):
    shmem.init(uid=shmem.get_unique_id(), rank=0, size=1)
    x = shmem.ones(4, dtype=numpy.float32)
    for _ in range(2):
        shmem.all_reduce(x)
        shmem.put(x, x, 0)
    shmem.finalize()
    for call in lambda: shmem.all_reduce(x), lambda: shmem.put(x, x, 0):
        try:
            call()
        except shmem.Error as error:
            print(error)
"""], capture_output=True, text=True)
    text = [f"shmem.{fn}: before shmem.init, or after shmem.finalize"
            for fn in ("all_reduce", "put")]
    assert done.stdout.splitlines() == 2 * text, done


def test_the_number_is_bounded(me):
    x, y = shmem.zeros(10001), shmem.ones(1)
    for i in range(10000):
        shmem.put(x[i:i + 1], y, me)
        assert len(_checked._calls) <= _checked.MOST
    shmem.barrier()
    assert same(x[:-1], 1) and x[-1] == 0


def test_a_status_is_an_error_each_time(me):
    x = shmem.zeros(1)
    call = _checked.Call("fn", lib.shmem_addr_accessible, None, (shmem.address(x), me), False,
                         (array(x, "fn", "x"),))

    def check(*_):
        return call

    for _ in range(3): # that routine returns 1
        fails("shmem.fn: status 1", _checked.run, check, x, None, None, None, None)
    assert sum(key[0] is check for key in _checked._calls) == 1


def test_memory_goes_during_a_check(me):
    """As another thread may free an array that is no part of the call."""
    x = shmem.zeros(1)

    def check(*_):
        _checked.forget()
        return _checked.Call("fn", lib.shmem_putmem, None, (shmem.address(x),) * 2 + (0, me), False,
                             (array(x, "fn", "x"),))

    _checked.run(check, x, None, None, None, None)
    assert not _checked._calls
