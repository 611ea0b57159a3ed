# SPDX-License-Identifier: MIT
"""Loads, stores, copies and atomics by address translation."""
from __future__ import annotations

import triton
import triton.language as tl
from triton.language import core

from ._jit import INTERPRET, in_kernel
from ._trace import start, stop


@triton.jit
def _at(pointer, here, there, heap_bases, hint: tl.constexpr = None):
    """`pointer`, an address on PE `here`, as the address of the same object on PE `there`.

    The distance is added in elements: a heap starts on a page, so the compiler still knows how
    `pointer` is aligned and contiguous, and loads vectors. `hint` tells the compiler more.
    """
    size: tl.constexpr = (pointer.dtype.element_ty.primitive_bitwidth + 7) // 8
    start = tl.load(heap_bases + here).to(tl.int64)
    distance = (tl.load(heap_bases + there).to(tl.int64) - start) // size
    result = pointer + tl.multiple_of(distance, 4096 // size)
    if hint is not None:
        result = tl.max_contiguous(tl.multiple_of(result, hint), hint)
    return result


@triton.jit
def load(pointer, to_rank, from_rank, heap_bases, mask=None, other=None, cache_modifier=None,
         volatile=False, hint: tl.constexpr = None):
    """The values at `pointer` on PE `from_rank`; `to_rank` is this PE."""
    begun = start()
    value = tl.load(_at(pointer, to_rank, from_rank, heap_bases, hint), mask=mask, other=other,
                    cache_modifier=cache_modifier, volatile=volatile)
    stop("triton.load", begun, pointer, mask, from_rank)
    return value


@triton.jit
def store(pointer, value, from_rank, to_rank, heap_bases, mask=None, hint: tl.constexpr = None,
          cache_modifier=None):
    """Stores `value` at `pointer` on PE `to_rank`; `from_rank` is this PE."""
    begun = start()
    tl.store(_at(pointer, from_rank, to_rank, heap_bases, hint), value, mask=mask,
             cache_modifier=cache_modifier)
    stop("triton.store", begun, pointer, mask, to_rank)


@triton.jit
def copy(src_ptr, dst_ptr, from_rank, to_rank, cur_rank, heap_bases, mask=None, other=None,
         load_cache_modifier=None, store_cache_modifier=None, hint: tl.constexpr = None):
    """Copies from PE `from_rank` to PE `to_rank`; both pointers are addresses on PE `cur_rank`."""
    begun = start()
    value = tl.load(_at(src_ptr, cur_rank, from_rank, heap_bases, hint), mask=mask, other=other,
                    cache_modifier=load_cache_modifier)
    tl.store(_at(dst_ptr, cur_rank, to_rank, heap_bases, hint), value, mask=mask,
             cache_modifier=store_cache_modifier)
    stop("triton.copy", begun, src_ptr, mask, to_rank)


@triton.jit
def get(from_ptr, to_ptr, from_rank, to_rank, heap_bases, mask=None, other=None,
        load_cache_modifier=None, store_cache_modifier=None, hint: tl.constexpr = None):
    """Copies from `from_ptr` on PE `to_rank` to `to_ptr` on this PE, which is `from_rank`.

    Iris's code and tests give the two ranks this meaning; Iris's own text has them exchanged."""
    begun = start()
    value = tl.load(_at(from_ptr, from_rank, to_rank, heap_bases, hint), mask=mask, other=other,
                    cache_modifier=load_cache_modifier)
    tl.store(to_ptr, value, mask=mask, cache_modifier=store_cache_modifier)
    stop("triton.get", begun, from_ptr, mask, to_rank)


@triton.jit
def put(from_ptr, to_ptr, from_rank, to_rank, heap_bases, mask=None, other=None,
        load_cache_modifier=None, store_cache_modifier=None, hint: tl.constexpr = None):
    """Copies from `from_ptr` on this PE, which is `from_rank`, to `to_ptr` on PE `to_rank`."""
    begun = start()
    value = tl.load(from_ptr, mask=mask, other=other, cache_modifier=load_cache_modifier)
    tl.store(_at(to_ptr, from_rank, to_rank, heap_bases, hint), value, mask=mask,
             cache_modifier=store_cache_modifier)
    stop("triton.put", begun, from_ptr, mask, to_rank)


@in_kernel
def _publish(sem, _semantic=None):
    """Completes the stores of all threads of the program before an atomic that releases. In Triton
    3.6 one thread does a scalar atomic, and releases its own stores only: the compilers for NVIDIA
    and AMD put no barrier before the atomic, and AMD's barrier does not wait for stores."""
    if getattr(sem, "value", sem) in ("relaxed", "acquire"):
        return
    if not INTERPRET and _semantic.builder.options.backend_name == "hip":
        arch = _semantic.builder.options.arch
        wait = ("s_wait_storecnt 0" if arch.startswith("gfx12") else
                "s_waitcnt vmcnt(0)" if arch.startswith("gfx9") else "s_waitcnt_vscnt null, 0")
        core.inline_asm_elementwise(wait + "\ns_mov_b32 $0, 0", "=r,~{memory}", [], dtype=tl.int32,
                                    is_pure=False, pack=1, _semantic=_semantic)
    _semantic.debug_barrier()


# An atomic returns the old value. `sem` is "relaxed", "acquire", "release" or "acq_rel" (the
# default); a release covers all stores of the program. `scope` is "sys" by default: an operation
# of scope "gpu" is not atomic between two GPUs.
SYS = tl.constexpr("sys")


@triton.jit
def atomic_add(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Adds `val` at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_add(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                        sem=sem, scope=scope)
    stop("triton.atomic_add", begun, pointer, mask, to_rank)
    return old


@triton.jit
def atomic_sub(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Subtracts `val` at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_add(_at(pointer, from_rank, to_rank, heap_bases, hint), -val, mask=mask,
                        sem=sem, scope=scope)
    stop("triton.atomic_sub", begun, pointer, mask, to_rank)
    return old


@triton.jit
def atomic_cas(pointer, cmp, val, from_rank, to_rank, heap_bases, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Stores `val` at `pointer` on PE `to_rank` if `cmp` is there."""
    begun = start()
    _publish(sem)
    there = _at(pointer, from_rank, to_rank, heap_bases, hint)
    kind: tl.constexpr = pointer.dtype.element_ty  # Triton does not convert a number itself
    old = tl.atomic_cas(there, tl.cast(cmp, kind), tl.cast(val, kind), sem=sem, scope=scope)
    stop("triton.atomic_cas", begun, pointer, None, to_rank)
    return old


@triton.jit
def atomic_xchg(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
                scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Stores `val` at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_xchg(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                         sem=sem, scope=scope)
    stop("triton.atomic_xchg", begun, pointer, mask, to_rank)
    return old


@triton.jit
def atomic_xor(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Exclusive or of `val` at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_xor(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                        sem=sem, scope=scope)
    stop("triton.atomic_xor", begun, pointer, mask, to_rank)
    return old


@triton.jit
def atomic_and(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Bitwise and of `val` at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_and(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                        sem=sem, scope=scope)
    stop("triton.atomic_and", begun, pointer, mask, to_rank)
    return old


@triton.jit
def atomic_or(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
              scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Bitwise or of `val` at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_or(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                       sem=sem, scope=scope)
    stop("triton.atomic_or", begun, pointer, mask, to_rank)
    return old


@triton.jit
def atomic_min(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """The smaller of `val` and the value at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_min(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                        sem=sem, scope=scope)
    stop("triton.atomic_min", begun, pointer, mask, to_rank)
    return old


@triton.jit
def atomic_max(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """The larger of `val` and the value at `pointer` on PE `to_rank`."""
    begun = start()
    _publish(sem)
    old = tl.atomic_max(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                        sem=sem, scope=scope)
    stop("triton.atomic_max", begun, pointer, mask, to_rank)
    return old
