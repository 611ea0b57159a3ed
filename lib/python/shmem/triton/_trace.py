# SPDX-License-Identifier: MIT
"""Records of what kernels do, for SHMEM_TRACE: one for each call of a program. Without a trace
nothing of this is in a kernel."""
from __future__ import annotations

import ctypes
from time import perf_counter_ns
from typing import Any

import triton
import triton.language as tl
from triton.language import core

from .. import _routines
from ._jit import INTERPRET, TRACED, in_kernel, tracer

if TRACED and not INTERPRET:
    tracer.shmem_traced_begin()


def is_recorded(semantic: Any) -> bool:
    """Whether this kernel records. It does so by the bitcode, so a GPU's has to be linked."""
    return TRACED and (
        INTERPRET or any(name == "shmem" for name, _ in semantic.builder.options.extern_libs))


def extern(name: str, types: str, args: list[Any], semantic: Any) -> tl.tensor:
    """A call of the bitcode. `types`: the result's and each argument's, l or i. (Triton knows no
    result of type void.)"""
    result, *kinds = ({"l": tl.int64, "i": tl.int32}[letter] for letter in types)
    args = [semantic.cast(semantic.to_tensor(arg), kind) for arg, kind in zip(args, kinds)]
    return core.extern_elementwise("", "", args, {tuple(kinds): (name, result)}, is_pure=False,
                                   _semantic=semantic)


def begin(semantic: Any) -> Any:
    """The time, for `end`; None in a kernel that does not record."""
    if not is_recorded(semantic):
        return None
    if INTERPRET:
        return perf_counter_ns()
    return extern("shmemx_traced_begin", "l", [], semantic)


def end(name: str, begun: Any, nbytes: Any, pe: Any, semantic: Any) -> None:
    """Records a call, of a routine or of gen.TRITON, that moved bytes to or from a PE, or -1."""
    if begun is None:
        return
    if not INTERPRET:
        extern("shmemx_traced_end", "illii", [begun, nbytes, pe, _routines.TRACED[name]], semantic)
        return
    time = perf_counter_ns()
    x, y, z = semantic.builder.grid_idx
    wide, high, _ = semantic.builder.grid_dim
    nbytes, pe = (int(semantic.to_tensor(word).handle.data.item()) for word in (nbytes, pe))
    tracer.shmem_traced_call(
        _routines.TRACED[name], *map(ctypes.c_uint64, (begun, time, nbytes)), pe,
        ctypes.c_int64(x + wide * (y + high * z)))


@in_kernel
def start(_semantic=None):
    """Begins the record of a call."""
    return begin(_semantic)


@in_kernel
def _records(_semantic=None):
    return is_recorded(_semantic)


@in_kernel
def _end(name, begun, nbytes, pe, _semantic=None):
    end(getattr(name, "value", name), begun, nbytes, pe, _semantic)


@triton.jit
def _stop(name: tl.constexpr, begun, pointer, mask, pe):
    """Ends the record of a call on a block of pointers, whose bytes are those of the mask."""
    if _records():
        size: tl.constexpr = (pointer.dtype.element_ty.primitive_bitwidth + 7) // 8
        if mask is None:
            _end(name, begun, pointer.numel * size, pe)
        elif pointer.type.is_block():
            lanes = tl.broadcast_to(mask, pointer.shape).to(tl.int32)
            _end(name, begun, tl.sum(tl.reshape(lanes, [pointer.numel])) * size, pe)
        else:
            _end(name, begun, mask.to(tl.int32) * size, pe)


stop = _stop if TRACED else in_kernel(lambda *_, _semantic=None: None)
