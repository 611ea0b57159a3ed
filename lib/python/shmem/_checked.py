# SPDX-License-Identifier: MIT
"""Calls on two arrays that have passed their checks. With the checks all_reduce took Python 3.8 us
more than C, and without them 1.0 (2026-11-28: CPU platform, one PE, 8 bytes). So a call that has
passed is kept, with its arguments in C's types. Its key has all that decides whether the same call
passes again: the arguments, and of each array the address, the length, the type and whether a GPU
has it. Arrays with gaps have no key. Memory and teams decide, too: when one goes, forget() drops
all calls."""
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _array
from ._array import Array, line, settle, stream_of
from ._library import Error, lib

MOST = 1024 # calls that are kept; beyond them all are dropped, and checked again


class Call(NamedTuple):
    """What a check returns. The form for memory of the host, or the form for streams, is None where
    the library lacks it."""
    fn: str
    on_host: Any
    on_stream: Any
    arguments: tuple[Any, ...]          # without the stream
    on_gpu: bool
    symmetric: tuple[Array, ...]        # what the check has found symmetric; none: do not keep
    what: tuple[str, str] = ("", "")    # TYPENAME and routine


_calls: dict[Any, tuple[Any, tuple[Any, ...], str, bool]] = {}
_addressof, _bytes = ctypes.addressof, ctypes.c_char.from_buffer


def forget() -> None:
    """Drops all calls, after memory or a team has gone. The dict is a new one: another thread may
    have checked a call while the memory was there, and keeps the call in the old dict."""
    global _calls
    _calls = {}


def run(check: Callable[..., Call], dest: Any, source: Any, word: Any, team: Any,
        stream: Any) -> None:
    """Does the Call of check(dest, source, word, team, stream), which raises an Error if a check
    fails. The Call is for memory of the host, unless the arrays are on a GPU or the caller names a
    stream."""
    calls, other = _calls, dest if source is None else source
    key = found = None
    try: # 1, 1.0 and True are the same key, so the type of a word is part of it
        if type(dest) is type(other) is _array._tensor:
            if dest.is_contiguous() and other.is_contiguous():
                on_gpu = dest.is_cuda
                if stream is not None:
                    on = stream_of(stream, on_gpu)
                else: # as stream_of() does, without two calls
                    on = _array._raw(_array._device()) if on_gpu else None
                key = (check, word, type(word), team, on, source is None,
                       dest.data_ptr(), dest.numel(), dest.dtype, on_gpu,
                       other.data_ptr(), other.numel(), other.dtype, other.is_cuda)
        elif type(dest) is type(other) is _array._ndarray: # of one with gaps there are no _bytes
            on = stream_of(stream, False) if stream is not None else None
            key = (check, word, type(word), team, on, source is None,
                   _addressof(_bytes(dest)), dest.size, dest.dtype,
                   _addressof(_bytes(other)), other.size, other.dtype)
        found = calls.get(key)
    except (TypeError, ValueError, BufferError, RuntimeError): # such arguments have no key
        key = None
    if found is None:
        call = check(dest, source, word, team, stream)
        found = _choose(call, stream)
        if key and call.symmetric and _inside(*call.symmetric):
            found = _prepare(*found)
            if len(calls) >= MOST:
                calls.clear()
            calls[key] = found
    routine, arguments, fn, host_waits = found
    status = routine(*arguments)
    if host_waits:
        settle(0)
    if status:
        raise Error(line(fn, f"status {status}"))


def _inside(*arrays: Array) -> bool:
    """Whether arrays are symmetric until forget(). The package does not learn when memory goes that
    is not an array of its own."""
    from ._memory import inside

    return all(inside(a) for a in arrays)


def _choose(call: Call, stream: Any) -> tuple[Any, tuple[Any, ...], str, bool]:
    """The routine, its arguments, and whether the host has to wait for it: a routine that has a
    form for streams only."""
    on = stream_of(stream, call.on_gpu)
    if on is None and call.on_host:
        return call.on_host, call.arguments, call.fn, False
    if not call.on_stream:
        raise Error(line(call.fn, "dest: elements of {}, for which there is no {}".format(
            *call.what)))
    return call.on_stream, (*call.arguments, on or 0), call.fn, on is None


def _prepare(routine: Any, arguments: tuple[Any, ...], *more: Any) -> Any:
    """The same with arguments that ctypes passes on as they are. A call of all_reduce takes 0.27
    us so, and 0.55 us where ctypes converts four numbers first (2026-11-28)."""
    return (lib.bare(routine), tuple(t.from_param(a) for t, a in zip(routine.argtypes, arguments)),
            *more)
