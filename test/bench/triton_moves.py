#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rates of Triton's loads and stores between GPUs, GB/s of each PE: all PEs at once, from and
to the next one, with the kernel API's beside them.

    oshrun -n 2 test/bench/triton_moves.py [MiB [repeats]]

peer     the address of the peer's array, without a translation
shmem    shmem.triton.load and store
integer  a translation by integers, as Iris's: the compiler loses what it knows of the pointer
hint     the same, with Iris's hint
kernel   the library's shmemx_getmem_wg and shmemx_putmem_wg, of as many workgroups

A way is checked before it is measured. The ways take turns; a figure is the median."""
import statistics
import sys

import shmem
import shmem.triton as st
import torch
import triton
import triton.language as tl
from shmem.triton import _calls

BLOCK = 4096 if torch.cuda.is_available() else 1024


@triton.jit
def by_integers(pointer, here, there, bases, hint: tl.constexpr):
    offset = pointer.to(tl.uint64, bitcast=True) - tl.load(bases + here).to(tl.uint64)
    there_bytes = tl.load(bases + there).to(tl.pointer_type(tl.int8), bitcast=True)
    result = tl.cast(there_bytes + offset, pointer.dtype)
    if hint:
        result = tl.max_contiguous(tl.multiple_of(result, hint), hint)
    return result


@triton.jit
def load_kernel(x, y, there, n, me, pe, bases, way: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    if way == "peer":
        value = tl.load(there + at, mask=at < n)
    elif way == "shmem":
        value = st.load(x + at, me, pe, bases, mask=at < n)
    else:
        value = tl.load(by_integers(x + at, me, pe, bases, 16 if way == "hint" else 0), mask=at < n)
    tl.store(y + at, value, mask=at < n)


@triton.jit
def store_kernel(x, y, there, n, me, pe, bases, way: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + at, mask=at < n)
    if way == "peer":
        tl.store(there + at, value, mask=at < n)
    elif way == "shmem":
        st.store(y + at, value, me, pe, bases, mask=at < n)
    else:
        tl.store(by_integers(y + at, me, pe, bases, 16 if way == "hint" else 0), value, mask=at < n)


@_calls.in_kernel
def getmem_wg(dest, source, nbytes, pe, _semantic=None):
    _calls.call("shmemx_getmem_wg", "illli", [dest, source, nbytes, pe], _semantic)


@_calls.in_kernel
def putmem_wg(dest, source, nbytes, pe, _semantic=None):
    _calls.call("shmemx_putmem_wg", "illli", [dest, source, nbytes, pe], _semantic)


@st.jit
def load_api_kernel(x, y, there, n, me, pe, bases, way: tl.constexpr, block: tl.constexpr):
    first = tl.program_id(0) * block
    getmem_wg(y + first, x + first, tl.minimum(block, n - first) * 4, pe)


@st.jit
def store_api_kernel(x, y, there, n, me, pe, bases, way: tl.constexpr, block: tl.constexpr):
    first = tl.program_id(0) * block
    putmem_wg(y + first, x + first, tl.minimum(block, n - first) * 4, pe)


def milliseconds(call, on_gpu, repeats):
    shmem.barrier()
    if not on_gpu:
        call()
        return 1.0
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeats


def main():
    mib, repeats = [*map(int, sys.argv[1:]), *(256, 10)[len(sys.argv) - 1:]]
    shmem.init()
    me, pe = shmem.my_pe(), (shmem.my_pe() + 1) % shmem.n_pes()
    n = mib << 18
    x, y = shmem.empty(n, dtype=torch.int32), shmem.empty(n, dtype=torch.int32)
    on_gpu, bases = x.is_cuda, shmem.heap_bases()
    x.copy_(torch.arange(n, dtype=torch.int32) + me)
    ways = {}
    for name, kernel, api in (("load", load_kernel, load_api_kernel),
                              ("store", store_kernel, store_api_kernel)):
        there = shmem.peer(x if name == "load" else y, pe)
        other = pe if name == "load" else (me - 1) % shmem.n_pes()
        for way in ("peer", "shmem", "integer", "hint", "kernel"):
            def call(kernel=api if way == "kernel" else kernel, way=way, there=there):
                kernel[(triton.cdiv(n, BLOCK),)](x, y, there, n, me, pe, bases, way, BLOCK,
                                                 num_warps=8)
            try:
                y.fill_(-1)
                shmem.barrier()
                call()
            except shmem.Error as error:
                if me == 0:
                    print(f"{name} {way}: left out: {error}")
                continue
            shmem.barrier()
            right = torch.equal(y, x - me + other)
            shmem.barrier()
            assert right, f"PE {me}: {name} {way}: wrong"
            ways[name, way] = call
    times = {way: [] for way in ways}
    for _ in range(11):
        for way, call in ways.items():
            times[way].append(milliseconds(call, on_gpu, repeats))
    slowest = shmem.empty(len(ways), dtype=torch.float64)
    slowest.copy_(torch.tensor([statistics.median(t) for t in times.values()]))
    shmem.all_reduce(slowest, op="max")
    if me == 0:
        where = torch.cuda.get_device_name() if on_gpu else "the CPU, which measures nothing"
        print(f"{shmem.n_pes()} PEs, {mib} MiB each, triton {triton.__version__}, {where}")
        for (name, way), ms in zip(ways, slowest.tolist()): # noqa: B905  Python 3.9
            print(f"{name:6} {way:8} {4e-6 * n / ms:8.1f} GB/s" if on_gpu else f"{name} {way}")


if __name__ == "__main__":
    main()
