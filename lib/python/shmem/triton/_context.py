# SPDX-License-Identifier: MIT
"""Iris's device context: the functions of _address.py as methods, without the rank and the heap
bases. A context is made of a tensor of int64: this PE, the number of PEs, the heap bases, and three
words of the records: how many fit, the address of their counter, the address of the first one."""
from __future__ import annotations

from time import perf_counter_ns
from typing import Any, get_type_hints

import triton
import triton.language as tl
from triton.language import core

from ._address import (SYS, atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or,
                       atomic_sub, atomic_xchg, atomic_xor, copy, get, load, put, store)
from ._jit import INTERPRET, in_kernel

RECORD = ("event_id", "pid", "pid_m", "pid_n", "target_rank", "address", "payload_size", "start",
          "end")                                      # the int64s of a record
_method = (lambda fn: fn) if INTERPRET else triton.jit
_constructor = (lambda fn: fn) if INTERPRET else triton.constexpr_function
_constant = (lambda value: value) if INTERPRET else tl.constexpr


def _aggregate(cls):
    """Marks a class whose objects kernels make. Triton wants the annotations of the class as types,
    not as text."""
    cls.__annotations__ = get_type_hints(cls)
    return cls if INTERPRET else core._aggregate(cls)


class _Methods:
    @_method
    def load(self, pointer, from_rank, mask=None, other=None, cache_modifier=None, volatile=False,
             hint: tl.constexpr = None):
        return load(pointer, self.rank, from_rank, self.heap_bases, mask, other, cache_modifier,
                    volatile, hint)

    @_method
    def store(self, pointer, value, to_rank, mask=None, cache_modifier=None,
              hint: tl.constexpr = None):
        store(pointer, value, self.rank, to_rank, self.heap_bases, mask, hint, cache_modifier)

    @_method
    def get(self, from_ptr, to_ptr, from_rank, mask=None, other=None, load_cache_modifier=None,
            store_cache_modifier=None, hint: tl.constexpr = None):
        get(from_ptr, to_ptr, self.rank, from_rank, self.heap_bases, mask, other,
            load_cache_modifier, store_cache_modifier, hint)

    @_method
    def put(self, from_ptr, to_ptr, to_rank, mask=None, other=None, load_cache_modifier=None,
            store_cache_modifier=None, hint: tl.constexpr = None):
        put(from_ptr, to_ptr, self.rank, to_rank, self.heap_bases, mask, other,
            load_cache_modifier, store_cache_modifier, hint)

    @_method
    def copy(self, src_ptr, dst_ptr, from_rank, to_rank, mask=None, other=None,
             load_cache_modifier=None, store_cache_modifier=None, hint: tl.constexpr = None):
        copy(src_ptr, dst_ptr, from_rank, to_rank, self.rank, self.heap_bases, mask, other,
             load_cache_modifier, store_cache_modifier, hint)

    @_method
    def atomic_add(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                   hint: tl.constexpr = None):
        return atomic_add(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint)

    @_method
    def atomic_sub(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                   hint: tl.constexpr = None):
        return atomic_sub(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint)

    @_method
    def atomic_cas(self, pointer, cmp, val, to_rank, sem=None, scope: tl.constexpr = SYS,
                   hint: tl.constexpr = None):
        return atomic_cas(pointer, cmp, val, self.rank, to_rank, self.heap_bases, sem, scope, hint)

    @_method
    def atomic_xchg(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                    hint: tl.constexpr = None):
        return atomic_xchg(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope,
                           hint)

    @_method
    def atomic_xor(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                   hint: tl.constexpr = None):
        return atomic_xor(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint)

    @_method
    def atomic_and(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                   hint: tl.constexpr = None):
        return atomic_and(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint)

    @_method
    def atomic_or(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                  hint: tl.constexpr = None):
        return atomic_or(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint)

    @_method
    def atomic_min(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                   hint: tl.constexpr = None):
        return atomic_min(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint)

    @_method
    def atomic_max(self, pointer, val, to_rank, mask=None, sem=None, scope: tl.constexpr = SYS,
                   hint: tl.constexpr = None):
        return atomic_max(pointer, val, self.rank, to_rank, self.heap_bases, mask, sem, scope, hint)


@in_kernel
def _clock(_semantic=None):
    """The time in ticks of a nanosecond; on AMD GPUs in ticks of 100 MHz."""
    if INTERPRET:
        return _semantic.cast(_semantic.to_tensor(perf_counter_ns()), tl.int64)
    if _semantic.builder.options.backend_name == "cuda":
        from triton.language.extra.cuda import globaltimer
        return globaltimer(_semantic=_semantic)
    from triton.language.extra.hip import memrealtime
    return memrealtime(_semantic=_semantic)


@_aggregate
class DeviceTracing:
    """Records of events in a kernel; `enabled` is known when the kernel is compiled."""
    enabled: tl.constexpr
    words: tl.tensor

    @_constructor
    def __init__(self, enabled, words):
        self.enabled = _constant(enabled)
        self.words = words

    @_method
    def record_event_start(self, event_id, target_rank, address, pid_m, pid_n, mask=None):
        """Begins a record; returns its number, for `record_event_end`. A record that does not fit
        is counted and not kept. `address` is a block of pointers; the record keeps the least."""
        return _record_start(self.enabled, self.words, event_id, target_rank, address, pid_m, pid_n,
                             mask)

    @_method
    def record_event_end(self, handle):
        """Ends the record."""
        _record_end(self.enabled, self.words, handle)


@triton.jit
def _record_start(enabled: tl.constexpr, words, event_id, target_rank, address, pid_m, pid_n, mask):
    number = tl.full([], 0, tl.int64)
    if enabled:
        limit = tl.load(words)
        if limit > 0:
            counter = tl.load(words + 1).to(tl.pointer_type(tl.int64))
            number = tl.atomic_add(counter, 1)
            if number < limit:
                row = tl.load(words + 2).to(tl.pointer_type(tl.int64)) + number * 9
                tl.store(row, event_id)
                tl.store(row + 1, tl.program_id(0))
                tl.store(row + 2, pid_m)
                tl.store(row + 3, pid_n)
                tl.store(row + 4, target_rank)
                tl.store(row + 5, tl.min(address.to(tl.int64)))
                if mask is not None:
                    size: tl.constexpr = (address.dtype.element_ty.primitive_bitwidth + 7) // 8
                    tl.store(row + 6, tl.sum(mask.to(tl.int64)) * size)
                tl.store(row + 8, 0)
                tl.store(row + 7, _clock())
    return number


@triton.jit
def _record_end(enabled: tl.constexpr, words, handle):
    if enabled:  # noqa: SIM102  the compiler knows this condition, and not the other
        if handle < tl.load(words):
            time = _clock()
            tl.store(tl.load(words + 2).to(tl.pointer_type(tl.int64)) + handle * 9 + 8, time)


@_aggregate
class DeviceContext(_Methods):
    """`ctx = DeviceContext.initialize(context_tensor, rank, world_size)` in a kernel, whose `rank`
    and `world_size` are tl.constexpr: then `ctx.load(pointer, from_rank)` and its like."""
    rank: tl.constexpr
    world_size: tl.constexpr
    heap_bases: tl.tensor
    tracing: DeviceTracing

    @_constructor
    def __init__(self, rank, world_size, heap_bases, tracing):
        self.rank = _constant(rank)
        self.world_size = _constant(world_size)
        self.heap_bases = heap_bases
        self.tracing = tracing

    @staticmethod
    @_method
    def initialize(context_tensor, rank, world_size, tracing: tl.constexpr = False):
        return DeviceContext(rank, world_size, context_tensor + 2,
                             DeviceTracing(tracing, context_tensor + (2 + world_size)))


@_aggregate
class GluonContext(_Methods):
    """`ctx = GluonContext.initialize(context_tensor)` in a kernel of Gluon's. Rank and size are
    loaded, so one kernel serves all PEs."""
    rank: tl.tensor
    num_ranks: tl.tensor
    heap_bases: tl.tensor
    tracing: DeviceTracing

    @_constructor
    def __init__(self, rank, num_ranks, heap_bases, tracing):
        self.rank = rank
        self.num_ranks = num_ranks
        self.heap_bases = heap_bases
        self.tracing = tracing

    @staticmethod
    @_method
    def initialize(context_tensor, tracing: tl.constexpr = False):
        n = tl.load(context_tensor + 1)
        return GluonContext(tl.load(context_tensor), n, context_tensor + 2,
                            DeviceTracing(tracing, context_tensor + 2 + n))


def context(counter: Any = None, records: Any = None) -> Any:
    """The tensor of which a kernel makes a DeviceContext or a GluonContext. If `records`, int64 of
    shape (limit, len(RECORD)), is given, the kernel's events are recorded there and counted in
    `counter`, one int64."""
    import torch

    from .. import heap_bases, my_pe, n_pes

    bases = heap_bases()
    kept = [0, 0, 0] if records is None else [len(records), counter.data_ptr(), records.data_ptr()]
    return torch.tensor([my_pe(), n_pes(), *bases.tolist(), *kept], dtype=torch.int64,
                        device=bases.device)
