# SPDX-License-Identifier: MIT
"""Kernels of Triton that reach other PEs: `load store get put copy` and atomics by address
translation, and `put_signal signal_wait_until barrier fence quiet` by the library's bitcode.

    import shmem.triton

    @triton.jit
    def ones(x, n: tl.constexpr, me, heap_bases):
        shmem.triton.store(x + tl.arange(0, n), 1.0, me, 1, heap_bases)

    ones[(1,)](x, 1024, shmem.my_pe(), shmem.heap_bases())

The names, and the order of their arguments, are those of Iris. A pointer is this PE's own address
of a symmetric array. The same address plus the distance between two heaps is the array of another
PE, so these functions are for PEs whose memory is mapped (`heap_bases()[pe] != 0`).

`@shmem.triton.jit` in place of `@triton.jit` marks a kernel that calls the bitcode. With
TRITON_INTERPRET=1 all of this runs in Triton's interpreter, on CPU tensors.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter_ns
from typing import Any, get_type_hints

import triton
import triton.language as tl
from triton import knobs
from triton.language import core
from triton.runtime.jit import JITFunction

from . import _job
from ._library import Error, lib

INTERPRET = knobs.runtime.interpret
LONG, INT = core.dtype("int64"), core.dtype("int32")

if INTERPRET:
    from triton.runtime import interpreter

    _patch = interpreter._patch_lang_tensor

    def _with_numbers(tensor, scope):
        # For range(n): Triton 3.6 calls int() on an array with one dimension, which NumPy 2.4
        # refuses.
        _patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = _with_numbers


@triton.jit
def _at(pointer, here, there, heap_bases, hint: tl.constexpr = None):
    """`pointer`, an address on PE `here`, as the address of the same object on PE `there`.

    The distance is added in elements: a heap starts on a page, so the compiler still knows how
    `pointer` is aligned and contiguous, and loads vectors. `hint` tells it more.
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
    return tl.load(_at(pointer, to_rank, from_rank, heap_bases, hint), mask=mask, other=other,
                   cache_modifier=cache_modifier, volatile=volatile)


@triton.jit
def store(pointer, value, from_rank, to_rank, heap_bases, mask=None, hint: tl.constexpr = None,
          cache_modifier=None):
    """Stores `value` at `pointer` on PE `to_rank`; `from_rank` is this PE."""
    tl.store(_at(pointer, from_rank, to_rank, heap_bases, hint), value, mask=mask,
             cache_modifier=cache_modifier)


@triton.jit
def copy(src_ptr, dst_ptr, from_rank, to_rank, cur_rank, heap_bases, mask=None, other=None,
         load_cache_modifier=None, store_cache_modifier=None, hint: tl.constexpr = None):
    """Copies from PE `from_rank` to PE `to_rank`; both pointers are addresses on PE `cur_rank`."""
    value = tl.load(_at(src_ptr, cur_rank, from_rank, heap_bases, hint), mask=mask, other=other,
                    cache_modifier=load_cache_modifier)
    tl.store(_at(dst_ptr, cur_rank, to_rank, heap_bases, hint), value, mask=mask,
             cache_modifier=store_cache_modifier)


@triton.jit
def get(from_ptr, to_ptr, from_rank, to_rank, heap_bases, mask=None, other=None,
        load_cache_modifier=None, store_cache_modifier=None, hint: tl.constexpr = None):
    """Copies from `from_ptr` on PE `to_rank` to `to_ptr` on this PE, which is `from_rank`.

    That is what Iris's code and its tests do; Iris's own text has the two ranks the other way."""
    value = tl.load(_at(from_ptr, from_rank, to_rank, heap_bases, hint), mask=mask, other=other,
                    cache_modifier=load_cache_modifier)
    tl.store(to_ptr, value, mask=mask, cache_modifier=store_cache_modifier)


@triton.jit
def put(from_ptr, to_ptr, from_rank, to_rank, heap_bases, mask=None, other=None,
        load_cache_modifier=None, store_cache_modifier=None, hint: tl.constexpr = None):
    """Copies from `from_ptr` on this PE, which is `from_rank`, to `to_ptr` on PE `to_rank`."""
    value = tl.load(from_ptr, mask=mask, other=other, cache_modifier=load_cache_modifier)
    tl.store(_at(to_ptr, from_rank, to_rank, heap_bases, hint), value, mask=mask,
             cache_modifier=store_cache_modifier)


def _in_kernel(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that kernels call, and whose Python runs while a kernel is compiled."""
    if not INTERPRET:
        return core.builtin(fn)
    return lambda *args, **options: fn(*args, **options,
                                       _semantic=interpreter.interpreter_semantic)


@_in_kernel
def _publish(sem, _semantic=None):
    """Before an atomic that releases: the stores of all threads of the program are complete. In
    Triton 3.6 one thread does a scalar atomic, and releases its own stores only: the compilers for
    NVIDIA and AMD put no barrier before it, and AMD's barrier does not wait for stores."""
    if getattr(sem, "value", sem) in ("relaxed", "acquire"):
        return
    if not INTERPRET and _semantic.builder.options.backend_name == "hip":
        arch = _semantic.builder.options.arch
        wait = ("s_wait_storecnt 0" if arch.startswith("gfx12") else
                "s_waitcnt vmcnt(0)" if arch.startswith("gfx9") else "s_waitcnt_vscnt null, 0")
        core.inline_asm_elementwise(wait + "\ns_mov_b32 $0, 0", "=r,~{memory}", [], dtype=INT,
                                    is_pure=False, pack=1, _semantic=_semantic)
    _semantic.debug_barrier()


# An atomic returns the old value. `sem` is "relaxed", "acquire", "release" or "acq_rel" (the
# default); a release covers all stores of the program. `scope` is "sys" by default: an atomic of
# scope "gpu" is none between two GPUs.
SYS = tl.constexpr("sys")


@triton.jit
def atomic_add(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Adds `val` at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_add(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                         sem=sem, scope=scope)


@triton.jit
def atomic_sub(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Subtracts `val` at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_add(_at(pointer, from_rank, to_rank, heap_bases, hint), -val, mask=mask,
                         sem=sem, scope=scope)


@triton.jit
def atomic_cas(pointer, cmp, val, from_rank, to_rank, heap_bases, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Stores `val` at `pointer` on PE `to_rank` if `cmp` is there."""
    _publish(sem)
    there = _at(pointer, from_rank, to_rank, heap_bases, hint)
    kind: tl.constexpr = pointer.dtype.element_ty  # which Triton does not make of a number itself
    return tl.atomic_cas(there, tl.cast(cmp, kind), tl.cast(val, kind), sem=sem, scope=scope)


@triton.jit
def atomic_xchg(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
                scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Stores `val` at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_xchg(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                          sem=sem, scope=scope)


@triton.jit
def atomic_xor(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Exclusive or of `val` at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_xor(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                         sem=sem, scope=scope)


@triton.jit
def atomic_and(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Bitwise and of `val` at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_and(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                         sem=sem, scope=scope)


@triton.jit
def atomic_or(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
              scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """Bitwise or of `val` at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_or(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                        sem=sem, scope=scope)


@triton.jit
def atomic_min(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """The smaller of `val` and the value at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_min(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                         sem=sem, scope=scope)


@triton.jit
def atomic_max(pointer, val, from_rank, to_rank, heap_bases, mask=None, sem=None,
               scope: tl.constexpr = SYS, hint: tl.constexpr = None):
    """The larger of `val` and the value at `pointer` on PE `to_rank`."""
    _publish(sem)
    return tl.atomic_max(_at(pointer, from_rank, to_rank, heap_bases, hint), val, mask=mask,
                         sem=sem, scope=scope)


# The routines of the bitcode. A program of Triton's is a workgroup, all of whose threads make a
# call with scalar arguments: the _wg forms are the ones to call. Pointers go as integers, because
# the bitcode has no address spaces in its arguments. In the interpreter a program is one thread of
# a process, so the routine of the host does the same.

OPERATIONS = {"set": 0, "add": 1}                                        # SHMEM_SIGNAL_
COMPARISONS = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}     # SHMEM_CMP_


def _call(name: str, types: str, args: list[Any], _semantic: Any) -> tl.tensor:
    """`types`: the result's and each argument's, l or i. (Triton knows no result of type void.)"""
    result, *kinds = ({"l": LONG, "i": INT}[letter] for letter in types)
    args = [_semantic.cast(_semantic.to_tensor(arg), kind) for arg, kind in zip(args, kinds)]
    if INTERPRET:
        host = name.replace("shmemx_", "shmem_").replace("_wg", "")
        found = getattr(lib, host)(*(int(arg.handle.data.item()) for arg in args))
        return _semantic.cast(_semantic.to_tensor(found or 0), result)
    return core.extern_elementwise("", "", args, {tuple(kinds): (name, result)}, is_pure=False,
                                   _semantic=_semantic)


def _word(words: dict[str, int], word: Any, routine: str) -> int:
    word = getattr(word, "value", word)
    if word not in words:
        raise Error(f"shmem.triton.{routine}: {word!r}: not one of {' '.join(words)}")
    return words[word]


@_in_kernel
def my_pe(_semantic=None):
    """This PE's number."""
    return _call("shmem_my_pe", "i", [], _semantic)


@_in_kernel
def n_pes(_semantic=None):
    """The number of PEs."""
    return _call("shmem_n_pes", "i", [], _semantic)


@_in_kernel
def put_signal(dest, source, nelems, signal, value, pe, op="set", _semantic=None):
    """Copies `nelems` elements from `source` to `dest` on PE `pe`, then sets the 64-bit `signal`
    there to `value` (or adds it: op="add"). Stores of this program to `source` come before.
    Reaches PEs that are not mapped, too."""
    size = (dest.dtype.element_ty.primitive_bitwidth + 7) // 8
    nbytes = _semantic.mul(_semantic.cast(_semantic.to_tensor(nelems), LONG), size, False)
    _semantic.debug_barrier()
    _call("shmemx_putmem_signal_wg", "illlllii",
          [dest, source, nbytes, signal, value, _word(OPERATIONS, op, "put_signal"), pe], _semantic)


@_in_kernel
def signal_wait_until(signal, cmp, value, _semantic=None):
    """Waits until this PE's `signal` compares with `value` ("eq" "ne" "lt" "le" "gt" "ge"), and
    returns it. What was put before the signal can be loaded then."""
    return _call("shmem_signal_wait_until", "llil",
                 [signal, _word(COMPARISONS, cmp, "signal_wait_until"), value], _semantic)


@_in_kernel
def barrier(_semantic=None):
    """All PEs meet, each with one program at a time. Completes the program's stores."""
    quiet(_semantic=_semantic) if not INTERPRET else None
    _call("shmemx_barrier_all_wg", "i", [], _semantic)


@_in_kernel
def fence(_semantic=None):
    """Orders all stores of this program before its later ones: publish data by a flag after it."""
    _call("shmem_fence", "i", [], _semantic)
    _semantic.debug_barrier()
    _call("shmem_fence", "i", [], _semantic)


@_in_kernel
def quiet(_semantic=None):
    """Completes all stores and puts of this program."""
    _call("shmem_quiet", "i", [], _semantic)
    _semantic.debug_barrier()


@cache
def bitcode(backend: str, arch: str | int) -> str:
    """The path of libshmem_device_ARCH.bc, beside the library."""
    name = f"libshmem_device_{arch if backend == 'hip' else f'sm_{arch}'}.bc"
    path = Path(lib.path()).resolve().parent / name
    if not path.exists():
        raise Error(f"shmem.triton.jit: {path}: no such file: the library is not built for this "
                    "GPU, or no clang 19 was there to make it")
    return str(path)


def _is_linked(binary: bytes) -> bool:
    """Whether a module has what `shmemx_module_init` looks for: the bitcode's state."""
    return b"shmemx_module_state" in binary or b"shmemx_one_node_state" in binary


def _loaded(module: int, _function: Any, _name: str, files: dict[str, str], _hash: str) -> None:
    """Triton calls this for each kernel that it loads. A module that is linked with the bitcode is
    to see the job before its first launch."""
    binary = next(Path(p) for n, p in files.items() if n.endswith((".hsaco", ".cubin")))
    if _is_linked(binary.read_bytes()):
        lib.shmemx_module_init(module)
        _modules.append(module)


_modules: list[int] = [] # Triton unloads none


def _show_job() -> None:
    """A second job of this process: kernels that were loaded in the first one see it, too."""
    for module in _modules:
        lib.shmemx_module_init(module)


_job.at_init.append(_show_job)


class _Linked:
    """A kernel that is linked with the bitcode."""
    _libs: dict[str, Any] | None = None # found at the first launch
    _linked = ""

    def run(self, *args, grid, warmup, **options):
        if self._libs is None:
            target = triton.runtime.driver.active.get_current_target()
            path = bitcode(target.backend, target.arch)
            self._libs = {"extern_libs": {"shmem": path}}
            self._linked = f"{path}@{Path(path).stat().st_mtime_ns}"
        return super().run(*args, grid=grid, warmup=warmup, **{**self._libs, **options})

    @property
    def cache_key(self) -> str:
        # Triton's cache for AMD knows libraries by their paths only (3.6). A kernel that was linked
        # with the bitcode of another version of the library would end the job.
        return super().cache_key + self._linked


class _Kernel(_Linked, JITFunction):
    pass


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`triton.jit` for kernels that call the bitcode; takes the options of triton.jit."""
    if fn is None:
        return lambda fn: jit(fn, **options)
    return triton.jit(fn, **options) if INTERPRET else _Kernel(fn, **options)


def gluon_jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`gluon.jit` for kernels that call the bitcode. (Triton's interpreter does not run Gluon.)"""
    if fn is None:
        return lambda fn: gluon_jit(fn, **options)
    from triton.experimental.gluon._runtime import GluonJITFunction

    return type("_GluonKernel", (_Linked, GluonJITFunction), {})(fn, **options)


if not INTERPRET:
    knobs.runtime.kernel_load_end_hook.add(_loaded)


# Iris's device context: the functions above as methods, without the rank and the heap bases. It is
# made of a tensor of int64: this PE, the number of PEs, the heap bases, and three words of the
# records: how many fit, the address of their counter, and that of the first one.

RECORD = ("event_id", "pid", "pid_m", "pid_n", "target_rank", "address", "payload_size", "start",
          "end")                                      # the int64s of a record
_method = (lambda fn: fn) if INTERPRET else triton.jit
_constructor = (lambda fn: fn) if INTERPRET else triton.constexpr_function
_constant = (lambda value: value) if INTERPRET else tl.constexpr


def _aggregate(cls):
    """A class whose objects kernels make. Triton wants its annotations as types, not as text."""
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


@_in_kernel
def _clock(_semantic=None):
    """The time in ticks: nanoseconds; on AMD GPUs 100 MHz."""
    if INTERPRET:
        return _semantic.cast(_semantic.to_tensor(perf_counter_ns()), LONG)
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
        """Begins a record; returns its number, for `record_event_end`. Records that do not fit are
        counted and not kept. `address` is a block of pointers, the least of which is kept."""
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
    if enabled:  # noqa: SIM102  known to the compiler, and the other not
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
    """The tensor of which a kernel makes a DeviceContext or a GluonContext; with records, those of
    the kernel's events go to `records`, int64 of shape (limit, len(RECORD)), and are counted in
    `counter`, one int64."""
    import torch

    from . import heap_bases, my_pe, n_pes

    bases = heap_bases()
    kept = [0, 0, 0] if records is None else [len(records), counter.data_ptr(), records.data_ptr()]
    return torch.tensor([my_pe(), n_pes(), *bases.tolist(), *kept], dtype=torch.int64,
                        device=bases.device)
