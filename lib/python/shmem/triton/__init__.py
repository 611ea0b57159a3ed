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
from ._address import (atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or,
                       atomic_sub, atomic_xchg, atomic_xor, copy, get, load, put, store)
from ._calls import barrier, fence, my_pe, n_pes, put_signal, quiet, signal_wait_until
from ._context import RECORD, DeviceContext, DeviceTracing, GluonContext, context
from ._jit import INTERPRET, bitcode, gluon_jit, jit

__all__ = [
    "INTERPRET", "RECORD", "DeviceContext", "DeviceTracing", "GluonContext", "atomic_add",
    "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_sub",
    "atomic_xchg", "atomic_xor", "barrier", "bitcode", "context", "copy", "fence", "get",
    "gluon_jit", "jit", "load", "my_pe", "n_pes", "put", "put_signal", "quiet",
    "signal_wait_until", "store"]
