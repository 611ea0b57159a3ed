# SPDX-License-Identifier: MIT
"""Puts, gets, atomics, signals, waits and locks.

The dest of a put, the source of a get, and the objects of atomics, waits and locks are symmetric.
On memory of the host a call is the host's routine. On a GPU's memory, or with a stream, a put or a
get is work of the stream, PyTorch's current one unless the caller names another, and the call
returns at once. Between a GPU's memory and the host's, the host copies after the work of PyTorch's
current stream."""
from __future__ import annotations

import ctypes
import sys
from typing import Any

from . import _job
from . import _library as c
from ._array import Array, array, current_stream, line, settle, stream_of
from ._checked import Call, run
from ._library import Error, lib
from ._memory import check_pe, symmetric
from ._routines import TYPES

COMPARISONS = {"==": c.SHMEM_CMP_EQ, "!=": c.SHMEM_CMP_NE, "<": c.SHMEM_CMP_LT,
               "<=": c.SHMEM_CMP_LE, ">": c.SHMEM_CMP_GT, ">=": c.SHMEM_CMP_GE,
               "eq": c.SHMEM_CMP_EQ, "ne": c.SHMEM_CMP_NE, "lt": c.SHMEM_CMP_LT,
               "le": c.SHMEM_CMP_LE, "gt": c.SHMEM_CMP_GT, "ge": c.SHMEM_CMP_GE}
SIGNAL_OPS = {"set": c.SHMEM_SIGNAL_SET, "add": c.SHMEM_SIGNAL_ADD}


def _two(fn: str, dest: Any, source: Any, remote: str,
         stream: Any = None) -> tuple[int, int, int, bool, tuple[Array, ...]]:
    """Both addresses, the bytes, whether both arrays are in a GPU's memory, and what a Call names
    as symmetric: between a GPU's memory and the host's each call has something to do here."""
    if remote == "dest":
        d, s = symmetric(dest, fn, "dest"), array(source, fn, "source")
    else:
        d, s = array(dest, fn, "dest"), symmetric(source, fn, "source")
    if d.type != s.type:
        raise Error(line(fn, f"source: elements of {s.type}, and dest has {d.type}"))
    whole, part = (d, s) if remote == "dest" else (s, d)
    if part.count > whole.count:
        raise Error(line(fn, f"{'source' if remote == 'dest' else 'dest'}: {part.count} elements, "
                         f"and {remote} has {whole.count}"))
    if d.on_gpu != s.on_gpu:
        host, arg = (s, "source") if d.on_gpu else (d, "dest")
        if stream is None:
            _current_stream_is_done()
        elif host.count and not lib.shmem_addr_accessible(host.address, _job.me):
            raise Error(line(fn, f"{arg}: memory of the host that is not symmetric, which a stream "
                             "does not reach: call without a stream"))
    return (d.address, s.address, part.count * part.size, d.on_gpu and s.on_gpu,
            (whole,) if d.on_gpu == s.on_gpu else ())


def _put(dest: Any, source: Any, pe: int, _: Any, stream: Any) -> Call:
    check_pe(pe, "put")
    d, s, nbytes, on_gpu, kept = _two("put", dest, source, "dest", stream)
    return Call("put", lib.shmem_putmem, lib.shmemx_putmem_on_stream, (d, s, nbytes, pe), on_gpu,
                kept)


def put(dest: Any, source: Any, pe: int, stream: Any = None) -> None:
    """Copies the elements of source to the beginning of dest on PE `pe`. dest is symmetric, of the
    same type and at least as long. source may change when the call returns; on a stream, when the
    stream has done the call. dest has the elements after this PE's `quiet`, or a `barrier`."""
    run(_put, dest, source, pe, None, stream)


def _get(dest: Any, source: Any, pe: int, _: Any, stream: Any) -> Call:
    check_pe(pe, "get")
    d, s, nbytes, on_gpu, kept = _two("get", dest, source, "source", stream)
    return Call("get", lib.shmem_getmem, lib.shmemx_getmem_on_stream, (d, s, nbytes, pe), on_gpu,
                kept)


def get(dest: Any, source: Any, pe: int, stream: Any = None) -> None:
    """Copies the beginning of source on PE `pe` to dest: as many elements as dest has. source is
    symmetric, of the same type and at least as long."""
    run(_get, dest, source, pe, None, stream)


def put_nbi(dest: Any, source: Any, pe: int) -> None:
    """As put, but source must stay as it is until `quiet`."""
    check_pe(pe, "put_nbi")
    d, s, nbytes, *_ = _two("put_nbi", dest, source, "dest")
    lib.shmem_putmem_nbi(d, s, nbytes, pe)


def get_nbi(dest: Any, source: Any, pe: int) -> None:
    """As get, but dest has the elements only after `quiet`."""
    check_pe(pe, "get_nbi")
    d, s, nbytes, *_ = _two("get_nbi", dest, source, "source")
    lib.shmem_getmem_nbi(d, s, nbytes, pe)


def p(dest: Any, value: Any, pe: int) -> None:
    """Stores a number at the first element of dest on PE `pe`."""
    check_pe(pe, "p")
    d = _one("p", dest, "rma")
    getattr(lib, f"shmem_{d.type}_p")(d.address, value, pe)


def g(source: Any, pe: int) -> Any:
    """The first element of source on PE `pe`."""
    check_pe(pe, "g")
    s = _one("g", source, "rma")
    return getattr(lib, f"shmem_{s.type}_g")(s.address, pe)


def _strided(fn: str, dest: Any, source: Any, dst: int, sst: int, count: int, pe: int,
             remote: str) -> None:
    check_pe(pe, fn)
    d, s = array(dest, fn, "dest"), array(source, fn, "source")
    if d.type != s.type:
        raise Error(line(fn, f"source: elements of {s.type}, and dest has {d.type}"))
    for arg, a, stride in ("dest", d, dst), ("source", s, sst):
        if stride < 1 or (count and (count - 1) * stride >= a.count):
            raise Error(line(fn, f"{arg}: {count} elements, {stride} apart, of {a.count}"))
    symmetric(dest if remote == "dest" else source, fn, remote)
    getattr(lib, f"shmem_{fn}{8 * d.size}")(d.address, s.address, dst, sst, count, pe)


def iput(dest: Any, source: Any, dst: int, sst: int, count: int, pe: int) -> None:
    """Elements 0, sst, 2 sst ... of source become elements 0, dst, 2 dst ... of dest on PE `pe`,
    `count` of them."""
    _strided("iput", dest, source, dst, sst, count, pe, "dest")


def iget(dest: Any, source: Any, dst: int, sst: int, count: int, pe: int) -> None:
    """Elements 0, sst, 2 sst ... of source on PE `pe` become elements 0, dst, 2 dst ... of dest,
    `count` of them."""
    _strided("iget", dest, source, dst, sst, count, pe, "source")


def _one(fn: str, x: Any, kind: str, arg: str = "dest") -> Any:
    a = symmetric(x, fn, arg)
    if not a.count:
        raise Error(line(fn, f"{arg}: has no element"))
    if a.type not in TYPES[kind]:
        raise Error(line(fn, f"{arg}: elements of {a.type}, for which there is no {fn}"))
    return a


# By name: the class of types, whether the old value is returned, the number of operands.
_ATOMICS = {"fetch": ("ext", True, 0), "set": ("ext", False, 1), "swap": ("ext", True, 1),
            "compare_swap": ("amo", True, 2), "fetch_inc": ("amo", True, 0),
            "inc": ("amo", False, 0), "fetch_add": ("amo", True, 1), "add": ("amo", False, 1),
            "fetch_and": ("bit", True, 1), "and": ("bit", False, 1), "fetch_or": ("bit", True, 1),
            "or": ("bit", False, 1), "fetch_xor": ("bit", True, 1), "xor": ("bit", False, 1)}
_WORDS = {0: "", 1: "value, ", 2: "cond, value, "}


def _make_atomic(name: str, kind: str, n: int, returns: bool) -> Any:
    fn = "atomic_" + name

    def atomic(dest: Any, *numbers: Any) -> Any:
        if len(numbers) != n + 1:
            raise TypeError(f"shmem.{fn}(dest, {_WORDS[n]}pe)")
        check_pe(numbers[-1], fn)
        d = _one(fn, dest, kind)
        return getattr(lib, f"shmem_{d.type}_{fn}")(d.address, *numbers)

    atomic.__name__ = fn
    atomic.__doc__ = (f"{fn}(dest, {_WORDS[n]}pe): as shmem_{fn}(3), on the first element of dest "
                      f"on PE `pe`{', and returns the old value' if returns else ''}.")
    return atomic


for _name, (_kind, _returns, _n) in _ATOMICS.items():
    globals()["atomic_" + _name] = _make_atomic(_name, _kind, _n, _returns)
__all__ = ["put", "get", "put_nbi", "get_nbi", "p", "g", "iput", "iget", "put_signal",
           "signal_add", "signal_set", "signal_fetch", "signal_wait_until", "wait_until", "test",
           "wait_until_all", "wait_until_any", "set_lock", "clear_lock", "test_lock", "fence",
           "quiet", "barrier", "sync", *("atomic_" + name for name in _ATOMICS)]


def _signal(fn: str, signal: Any, arg: str = "signal") -> int:
    a = symmetric(signal, fn, arg)
    if a.size != 8 or a.type not in ("uint64", "int64") or not a.count:
        raise Error(line(fn, f"{arg}: expected one element of uint64 or int64"))
    return a.address


def _word(words: dict[str, int], value: str, fn: str, arg: str) -> int:
    if value not in words:
        raise Error(line(fn, f"{arg} = {value!r}: expected {', '.join(words)}"))
    return words[value]


def put_signal(dest: Any, source: Any, signal: Any, value: int, pe: int, op: str = "set",
               stream: Any = None) -> None:
    """A put, then signal on PE `pe` becomes value, or is raised by value (op "add"). PE `pe` never
    sees the signal before the data. signal: one uint64 or int64 of symmetric memory."""
    check_pe(pe, "put_signal")
    d, s, nbytes, on_gpu, _ = _two("put_signal", dest, source, "dest")
    sig, how = _signal("put_signal", signal), _word(SIGNAL_OPS, op, "put_signal", "op")
    on = stream_of(stream, on_gpu)
    if on is None:
        lib.shmem_putmem_signal(d, s, nbytes, sig, value, how, pe)
    else:
        lib.shmemx_putmem_signal_on_stream(d, s, nbytes, sig, value, how, pe, on)


def signal_set(signal: Any, value: int, pe: int) -> None:
    """signal on PE `pe` becomes value."""
    check_pe(pe, "signal_set")
    lib.shmem_signal_set(_signal("signal_set", signal), value, pe)


def signal_add(signal: Any, value: int, pe: int) -> None:
    """signal on PE `pe` is raised by value."""
    check_pe(pe, "signal_add")
    lib.shmem_signal_add(_signal("signal_add", signal), value, pe)


def signal_fetch(signal: Any) -> int:
    """The value of this PE's signal."""
    return lib.shmem_signal_fetch(_signal("signal_fetch", signal))


def signal_wait_until(signal: Any, cmp: str, value: int, stream: Any = None) -> int | None:
    """Waits until this PE's signal compares so with value, and returns the signal; with a stream
    the stream waits, and the call returns None."""
    a = array(signal, "signal_wait_until", "signal")
    at = _signal("signal_wait_until", signal)
    how = _word(COMPARISONS, cmp, "signal_wait_until", "cmp")
    on = stream_of(stream, a.on_gpu)
    if on is None:
        return lib.shmem_signal_wait_until(at, how, value)
    lib.shmemx_signal_wait_until_on_stream(at, how, value, on)
    return None


def wait_until(x: Any, cmp: str, value: Any) -> None:
    """Waits until this PE's x, its first element, compares so with value: "==", "!=", "<", "<=",
    ">", ">="."""
    a = _one("wait_until", x, "amo", "x")
    getattr(lib, f"shmem_{a.type}_wait_until")(
        a.address, _word(COMPARISONS, cmp, "wait_until", "cmp"), value)


def test(x: Any, cmp: str, value: Any) -> bool:
    """Whether wait_until would return at once."""
    a = _one("test", x, "amo", "x")
    return bool(getattr(lib, f"shmem_{a.type}_test")(
        a.address, _word(COMPARISONS, cmp, "test", "cmp"), value))


def wait_until_all(x: Any, cmp: str, value: Any) -> None:
    """Waits until all elements of x compare so with value."""
    a = _one("wait_until_all", x, "amo", "x")
    getattr(lib, f"shmem_{a.type}_wait_until_all")(
        a.address, a.count, None, _word(COMPARISONS, cmp, "wait_until_all", "cmp"), value)


def wait_until_any(x: Any, cmp: str, value: Any, skip: Any = None) -> int:
    """Waits until one element of x compares so with value, and returns its index. skip: a list of
    indices that are not looked at."""
    a = _one("wait_until_any", x, "amo", "x")
    status = None
    if skip:
        status = (ctypes.c_int * a.count)()
        for i in skip:
            status[i] = 1
    return getattr(lib, f"shmem_{a.type}_wait_until_any")(
        a.address, a.count, status, _word(COMPARISONS, cmp, "wait_until_any", "cmp"), value)


def _lock(fn: str, lock: Any) -> int:
    a = symmetric(lock, fn, "lock")
    if a.type not in ("int64", "uint64") or not a.count:
        raise Error(line(fn, "lock: expected one int64 of symmetric memory, 0 at first"))
    return a.address


def set_lock(lock: Any) -> None:
    """Waits until this PE has the lock: one int64 of symmetric memory, the same on all PEs."""
    lib.shmem_set_lock(_lock("set_lock", lock))


def clear_lock(lock: Any) -> None:
    """Gives the lock back after this PE's stores are complete."""
    lib.shmem_clear_lock(_lock("clear_lock", lock))


def test_lock(lock: Any) -> bool:
    """Takes the lock if the lock is free. True: this PE has the lock now."""
    return not lib.shmem_test_lock(_lock("test_lock", lock))


def fence() -> None:
    """This PE's earlier stores at another PE arrive there before its later ones."""
    _job._ready("fence")
    lib.shmem_fence()


def _current_stream_is_done() -> None:
    torch = sys.modules.get("torch")
    if torch and c.platform() != "cpu" and torch.cuda.is_initialized():
        settle(current_stream())


def quiet(stream: Any = None) -> None:
    """Completes this PE's stores and nbi gets, those on PyTorch's current stream included. With a
    stream the call completes the work of that stream, and returns at once."""
    _job._ready("quiet")
    on = stream_of(stream, False)
    if on is None:
        _current_stream_is_done()
        lib.shmem_quiet()
    else:
        lib.shmemx_quiet_on_stream(on)


def barrier(stream: Any = None) -> None:
    """Quiet, then waits for all PEs; with a stream the streams of the PEs wait for each other, and
    the call returns at once."""
    _job._ready("barrier")
    on = stream_of(stream, False)
    if on is None:
        _current_stream_is_done()
        lib.shmem_barrier_all()
    else:
        lib.shmemx_barrier_all_on_stream(on)


def sync(team: Any = None, stream: Any = None) -> None:
    """Waits for all members, without quiet."""
    from ._team import handle

    on, at = stream_of(stream, False), handle(team, "sync")
    if on is None:
        lib.shmem_team_sync(at)
    else:
        lib.shmemx_team_sync_on_stream(at, on)
