#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A Triton kernel that puts a row into the next PE's memory, signals, and waits for its own row.

    oshrun -n 2 examples/triton_put.py libshmem.so.1 libshmem_device_sm_90.bc

Triton calls a function with scalar arguments in every thread of a program, so a kernel calls the
_wg forms. Pointers go as 64-bit integers, because the bitcode has no address spaces in its
arguments.
"""
import ctypes
import sys

import torch
import triton
import triton.language as tl
from triton.language import core

LONG, INT = core.dtype("int64"), core.dtype("int32")
DEVICE_HEAP = 1 << 16                                        # SHMEMX_MALLOC_DEVICE
SIGNAL_SET, CMP_GE = tl.constexpr(0), tl.constexpr(5)        # of shmem.h


@core.extern
def putmem_signal_wg(dest, source, nbytes, signal, value, op, pe, _semantic=None):
    return core.extern_elementwise("", "", [dest, source, nbytes, signal, value, op, pe], {
        (LONG, LONG, LONG, LONG, LONG, INT, INT): ("shmemx_putmem_signal_wg", INT)}, is_pure=False,
        _semantic=_semantic)


@core.extern
def signal_wait_until(signal, cmp, value, _semantic=None):
    return core.extern_elementwise("", "", [signal, cmp, value], {
        (LONG, INT, LONG): ("shmem_signal_wait_until", LONG)}, is_pure=False, _semantic=_semantic)


# Else a PE number 1 would be a constant, and kernels of two PEs two modules.
@triton.jit(do_not_specialize=["value", "pe"])
def exchange(dest, source, nbytes, signal, value, pe):
    putmem_signal_wg(dest.to(tl.int64), source.to(tl.int64), nbytes.to(tl.int64),
                     signal.to(tl.int64),
                     value.to(tl.int64), tl.full([], SIGNAL_SET, tl.int32), pe.to(tl.int32))
    signal_wait_until(signal.to(tl.int64), tl.full([], CMP_GE, tl.int32), value.to(tl.int64))


class Memory:
    """An array in device memory, as torch.as_tensor takes it."""

    def __init__(self, address, words):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (words,),
                                         "typestr": "<i8",
                                         "version": 3}


def main():
    shmem = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    shmem.shmem_malloc_with_hints.restype = ctypes.c_void_p
    shmem.shmem_init()
    me, n = shmem.shmem_my_pe(), shmem.shmem_n_pes()
    words = 1021
    dest, source, signal = (
        torch.as_tensor(Memory(shmem.shmem_malloc_with_hints(ctypes.c_size_t(8 * size),
                                                             ctypes.c_long(DEVICE_HEAP)), size))
        for size in (words, words, 1))
    torch.cuda.set_device(dest.device)
    signal.zero_()
    torch.cuda.synchronize()

    rest = {"grid": (1,), "num_warps": 4, "extern_libs": {"shmem": sys.argv[2]}}
    args = [dest, source, 8 * words, signal]
    bad = 0
    for lap in range(2, 6):
        source.copy_(torch.arange(words, device=dest.device) + lap * 1000000 + me * 10000)
        dest.fill_(-1)
        torch.cuda.synchronize()
        shmem.shmem_barrier_all()
        if lap == 2:  # compiled and loaded, not run: the module is to see the job first
            kernel = exchange.warmup(*args, lap, (me + 1) % n, **rest)
            kernel._init_handles()
            shmem.shmemx_module_init(ctypes.c_void_p(kernel.module))
        launch = {key: word for key, word in rest.items() if key != "grid"}
        exchange[rest["grid"]](*args, lap, (me + 1) % n, **launch)
        torch.cuda.synchronize()
        want = torch.arange(words, device=dest.device) + lap * 1000000 + (me - 1) % n * 10000
        bad += not torch.equal(dest, want)
        shmem.shmem_barrier_all()
    print(f"PE {me} of {n}: {'wrong' if bad else 'as sent'}", flush=True)
    del dest, source, signal
    shmem.shmem_finalize()
    return bad


if __name__ == "__main__":
    sys.exit(main())
