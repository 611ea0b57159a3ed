# SPDX-License-Identifier: MIT
"""Collectives of a team, or of all PEs.

All members call, in the same order, with arrays of the same type and length; dest and source are
symmetric, and the same call on each member names the same objects. On a GPU's memory a call is work
of a stream, PyTorch's current one unless the caller names another. Such a call returns at once, and
a graph may capture it. A call on memory of the host returns when the work is done."""
from __future__ import annotations

from typing import Any

from . import _job
from ._array import Array, array, line
from ._checked import Call, run
from ._library import Error, lib
from ._memory import symmetric
from ._routines import ROUTINES
from ._team import Team, handle, size

OPS = ("sum", "prod", "max", "min", "and", "or", "xor")


# The routines of the host and of streams by name and TYPENAME; None: there is none.
_forms: dict[tuple[str, str], tuple[Any, Any]] = {}


def _find(routine: str, type: str) -> tuple[Any, Any]:
    name = f"{routine}mem" if type == "mem" else f"{type}_{routine}"
    host = next((p + name for p in ("shmem_", "shmemx_") if p + name in ROUTINES), None)
    stream = f"shmemx_{name}_on_stream"
    found = _forms[routine, type] = (getattr(lib, host) if host else None,
                                     getattr(lib, stream) if stream in ROUTINES else None)
    return found


def _call(fn: str, routine: str, type: str, d: Array, s: Array, *arguments: Any) -> Call:
    """shmem_TYPE_routine and its form for streams. type "mem": bytes."""
    on_host, on_stream = _forms.get((routine, type)) or _find(routine, type)
    return Call(fn, on_host, on_stream, arguments, d.on_gpu, (d, s), (type, routine))


def _pair(fn: str, dest: Any, source: Any, dest_times: int = 1,
          source_times: int = 1) -> tuple[Array, Array]:
    """Both arrays. dest must have dest_times / source_times as many elements as source."""
    d = symmetric(dest, fn, "dest")
    if source is None and dest_times == source_times:
        return d, d
    s = symmetric(source, fn, "source")
    if s.type != d.type:
        raise Error(line(fn, f"source: elements of {s.type}, and dest has {d.type}"))
    if s.on_gpu != d.on_gpu:
        raise Error(line(fn, "source and dest: one is on a GPU, the other is not"))
    if d.count * source_times != s.count * dest_times:
        raise Error(line(fn, f"dest: {d.count} elements, expected "
                         f"{s.count * dest_times / source_times:g} for the {s.count} of source"))
    return d, s


def _op(fn: str, op: str) -> str:
    if op not in OPS:
        raise Error(line(fn, f"op = {op!r}: expected one of {', '.join(OPS)}"))
    return op


def _all_reduce(dest: Any, source: Any, op: str, team: Team | None, _: Any) -> Call:
    t = handle(team, "all_reduce")
    d, s = _pair("all_reduce", dest, source)
    return _call("all_reduce", _op("all_reduce", op) + "_reduce", d.type, d, s, t, d.address,
                 s.address, d.count)


def all_reduce(dest: Any, source: Any = None, op: str = "sum", team: Team | None = None,
               stream: Any = None) -> Any:
    """Each element of dest becomes the sum of that of all members' sources (or op: prod, max, min,
    and, or, xor). source None: in place. The bits are the same on all members, and in each run."""
    run(_all_reduce, dest, source, op, team, stream)
    return dest


def reduce(dest: Any, source: Any = None, root: int = 0, op: str = "sum", team: Team | None = None,
           stream: Any = None) -> Any:
    """As all_reduce; only the root's dest counts. OpenSHMEM's reductions have no root, so the
    others get the result, too."""
    _check_root("reduce", root, team)
    return all_reduce(dest, source, op, team, stream)


def _reduce_scatter(dest: Any, source: Any, op: str, team: Team | None, _: Any) -> Call:
    t = handle(team, "reduce_scatter")
    d, s = _pair("reduce_scatter", dest, source, 1, size(team))
    return _call("reduce_scatter", _op("reduce_scatter", op) + "_reduce_scatter", d.type, d, s, t,
                 d.address, s.address, d.count)


def reduce_scatter(dest: Any, source: Any, op: str = "sum", team: Team | None = None,
                   stream: Any = None) -> Any:
    """source has a block for each member, as long as dest; dest becomes the sum of the blocks that
    the members have for this one."""
    run(_reduce_scatter, dest, source, op, team, stream)
    return dest


def _all_gather(dest: Any, source: Any, _: Any, team: Team | None, __: Any) -> Call:
    t = handle(team, "all_gather")
    d, s = _pair("all_gather", dest, source, size(team))
    return _call("all_gather", "fcollect", "mem", d, s, t, d.address, s.address, s.count * s.size)


def all_gather(dest: Any, source: Any, team: Team | None = None, stream: Any = None) -> Any:
    """dest becomes the members' sources, in their order."""
    run(_all_gather, dest, source, None, team, stream)
    return dest


def _all_to_all(dest: Any, source: Any, _: Any, team: Team | None, __: Any) -> Call:
    t = handle(team, "all_to_all")
    d, s = _pair("all_to_all", dest, source)
    n = size(team)
    if s.count % n:
        raise Error(line("all_to_all", f"source: {s.count} elements are not {n} blocks"))
    return _call("all_to_all", "alltoall", "mem", d, s, t, d.address, s.address,
                 s.count * s.size // n)


def all_to_all(dest: Any, source: Any, team: Team | None = None, stream: Any = None) -> Any:
    """source has a block for each member; dest becomes the blocks that the members have for this
    one, in their order."""
    run(_all_to_all, dest, source, None, team, stream)
    return dest


def _all_to_all_v(dest: Any, source: Any, four: Any, team: Team | None, _: Any) -> Call:
    fn = "all_to_all_v"
    t, n = handle(team, fn), size(team)
    d, s = symmetric(dest, fn, "dest"), symmetric(source, fn, "source")
    if d.type != s.type or tuple(dest.shape[1:]) != tuple(source.shape[1:]):
        raise Error(line(fn, "dest: rows of another type or shape than source's"))
    numbers = []
    for name, x in zip(("recv_counts", "recv_offsets", "counts", "offsets"), four):
        a = array(x, fn, name)
        if a.type not in ("int64", "uint64") or a.count != n or a.on_gpu != d.on_gpu:
            raise Error(line(fn, f"{name}: expected {n} elements of int64, where dest lies"))
        if name.startswith("recv"):
            symmetric(x, fn, name)
        numbers.append(a.address)
    unit = s.size
    for length in source.shape[1:]:
        unit *= length
    call = _call(fn, "alltoallv", "mem", d, s, t, d.address, numbers[0], numbers[1], dest.shape[0],
                 s.address, numbers[2], numbers[3], unit)
    return call._replace(symmetric=()) # the four arrays are no part of a key


def all_to_all_v(dest: Any, recv_counts: Any, recv_offsets: Any, source: Any, counts: Any,
                 offsets: Any, team: Team | None = None, stream: Any = None) -> Any:
    """counts[i] units of source, from unit offsets[i] on, go to member i. They follow each other in
    dest, in the order of the members; recv_counts and recv_offsets say how many came from each, and
    where they begin. A unit is a row of source: what source[0] has. The four arrays have an element
    of int64 or uint64 for each member, in memory as dest's, and recv_counts and recv_offsets are
    symmetric. A dest too short ends in an error of the library."""
    run(_all_to_all_v, dest, source, (recv_counts, recv_offsets, counts, offsets), team, stream)
    return dest


def _check_root(fn: str, root: int, team: Team | None) -> None:
    if not isinstance(root, int) or not 0 <= root < size(team):
        _job._ready(fn)
        raise Error(line(fn, f"root = {root!r}: expected a member from 0 to {size(team) - 1}"))


def _broadcast(dest: Any, source: Any, root: int, team: Team | None, _: Any) -> Call:
    t = handle(team, "broadcast")
    _check_root("broadcast", root, team)
    d, s = _pair("broadcast", dest, source)
    return _call("broadcast", "broadcast", "mem", d, s, t, d.address, s.address, s.count * s.size,
                 root)


def broadcast(dest: Any, source: Any = None, root: int = 0, team: Team | None = None,
              stream: Any = None) -> Any:
    """dest becomes the source of member `root`, on the root too. source None: in place."""
    run(_broadcast, dest, source, root, team, stream)
    return dest


def _scan(dest: Any, source: Any, fn: str, team: Team | None, _: Any) -> Call:
    t = handle(team, fn)
    d, s = _pair(fn, dest, source)
    return _call(fn, f"sum_{fn}", d.type, d, s, t, d.address, s.address, d.count)


def inscan(dest: Any, source: Any = None, team: Team | None = None, stream: Any = None) -> Any:
    """Each element of dest becomes the sum of those of the sources of members 0 up to this one."""
    run(_scan, dest, source, "inscan", team, stream)
    return dest


def exscan(dest: Any, source: Any = None, team: Team | None = None, stream: Any = None) -> Any:
    """As inscan, without this member's own element; 0 on member 0."""
    run(_scan, dest, source, "exscan", team, stream)
    return dest
