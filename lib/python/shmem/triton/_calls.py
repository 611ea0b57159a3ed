# SPDX-License-Identifier: MIT
"""Calls of the library's bitcode. A program of Triton's is a workgroup, all of whose threads make a
call with scalar arguments: the _wg forms are the ones to call. Pointers go as integers, because the
bitcode has no address spaces in its arguments. In the interpreter a program is one thread of a
process, so a call is the routine of the host."""
from __future__ import annotations

from typing import Any

import triton.language as tl

from .._library import Error, lib
from .._routines import TRACED as NUMBERS
from ._jit import INTERPRET, in_kernel
from ._trace import begin, end, extern

OPERATIONS = {"set": 0, "add": 1}                                        # SHMEM_SIGNAL_
COMPARISONS = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}     # SHMEM_CMP_


def call(name: str, types: str, args: list[Any], _semantic: Any, nbytes: Any = 0,
         pe: Any = -1) -> tl.tensor:
    """`types`: see extern. A trace has the routine, with the bytes for a PE; in the interpreter the
    routine of the host records itself."""
    if not INTERPRET:
        begun = begin(_semantic) if name in NUMBERS else None
        result = extern(name, types, args, _semantic)
        end(name, begun, nbytes, pe, _semantic)
        return result
    host = name.replace("shmemx_", "shmem_").replace("_wg", "")
    args = [_semantic.to_tensor(arg).handle.data.item() for arg in args]
    found = getattr(lib, host)(*map(int, args))
    return _semantic.cast(_semantic.to_tensor(found or 0), {"l": tl.int64, "i": tl.int32}[types[0]])


def _word(words: dict[str, int], word: Any, routine: str) -> int:
    word = getattr(word, "value", word)
    if word not in words:
        raise Error(f"shmem.triton.{routine}: {word!r}: not one of {' '.join(words)}")
    return words[word]


@in_kernel
def my_pe(_semantic=None):
    """This PE's number."""
    return call("shmem_my_pe", "i", [], _semantic)


@in_kernel
def n_pes(_semantic=None):
    """The number of PEs."""
    return call("shmem_n_pes", "i", [], _semantic)


@in_kernel
def put_signal(dest, source, nelems, signal, value, pe, op="set", _semantic=None):
    """Copies `nelems` elements from `source` to `dest` on PE `pe`, then sets the 64-bit `signal`
    there to `value` (op="add": adds `value`). The copy has this program's earlier stores to
    `source`. The call reaches PEs that are not mapped, too."""
    size = (dest.dtype.element_ty.primitive_bitwidth + 7) // 8
    nbytes = _semantic.mul(_semantic.cast(_semantic.to_tensor(nelems), tl.int64), size, False)
    _semantic.debug_barrier()
    call("shmemx_putmem_signal_wg", "illlllii",
          [dest, source, nbytes, signal, value, _word(OPERATIONS, op, "put_signal"), pe], _semantic,
          nbytes, pe)


@in_kernel
def signal_wait_until(signal, cmp, value, _semantic=None):
    """Waits until this PE's `signal` compares with `value` ("eq" "ne" "lt" "le" "gt" "ge"), and
    returns the signal. Then the program can load the data that was put before the signal."""
    return call("shmem_signal_wait_until", "llil",
                 [signal, _word(COMPARISONS, cmp, "signal_wait_until"), value], _semantic)


@in_kernel
def barrier(_semantic=None):
    """Completes the program's stores, and waits for all PEs; one program of a PE at a time."""
    quiet(_semantic=_semantic) if not INTERPRET else None
    call("shmemx_barrier_all_wg", "i", [], _semantic)


@in_kernel
def fence(_semantic=None):
    """Orders all stores of this program before its later ones: data before the flag behind it."""
    call("shmem_fence", "i", [], _semantic)
    _semantic.debug_barrier()
    call("shmem_fence", "i", [], _semantic)


@in_kernel
def quiet(_semantic=None):
    """Completes all stores and puts of this program."""
    call("shmem_quiet", "i", [], _semantic)
    _semantic.debug_barrier()
