#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fences.py [BUILD] [--nodes NAME] [--seeds 1,2,...] [--rounds N] [--table FILE] [NAME...]: which
test falls without which fence of the device code.

BUILD is an AMD build folder with test/device/test_device, test/stream/test_stream,
test/gemm/test_fused and the GPU in software. Each row of REMOVALS is a copy of device/ with one
wait, fence, or bit of a load taken out; its tests are compiled with it and run on the strict
machine, seed after seed, until one falls. A NAME is a row's, or the beginning of several; all of
them take an hour or two. --table keeps the rows in FILE as they end, and does not run again those
that it has. Fences that a machine cannot show are in STANDS, with the cause. The machine is that of
BUILD's first GPU, or the one of --nodes, for whose GPU alone is compiled: mi300x-cpx has a GPU with
one L2, which holds fine-grained memory. Everywhere the barrier of a workgroup is the bare one that
clang 19 makes: clang 15 waits for all stores before it. Without BUILD it only looks whether each
row still finds its text, and each fence of device/ has a row or is in NO_ROW.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ARCH = "device/platform/amd/arch.hpp"
BARE = ("device/arch.hpp", "void wg_sync() {\n  __syncthreads();",
        'void wg_sync() {\n  asm volatile("s_waitcnt lgkmcnt(0)\\n\\ts_barrier" ::: "memory");')


class Test(NamedTuple):
    program: str
    args: list
    compiled: str  # the object that is compiled anew: of the program, or of the library
    only: str = ""  # of the program's tests
    n: int = 2
    says: str = ""  # what it must say, and fail
    env: dict = {}  # variables of its own


LITMUS = Test("test/device/test_device", ["litmus"], "test/device/litmus.o")
PASSING, PUTS, BARRIERS, COUNTS, SUMS, BROADCASTS = (LITMUS._replace(only=only) for only in (
    "message passing", "workgroup put", "across a barrier", "the last workgroup", "a sum and",
    "a broadcast of"))
STREAM = Test("test/stream/test_stream", ["order"], "lib/coll.o", "stores and signals")
PHASES = Test("test/stream/test_stream", ["order"], "lib/reduce.o", "in two phases")
NORMS = Test("test/norm/test_norm", [], "lib/norm.o", "every_way")
REPORT = Test("test/heap/heap_report", ["misaligned"], "test/heap/report.o",
              says=r"shmem: PE 1: shmem_long_p: dest = 0x[0-9a-f]+: not aligned to 8 bytes; in "
                   r"block \([01],0,0\), thread \(3,0,0\) of a kernel")
RING = Test("examples/put_signal_hip", ["--floats", "1021", "--laps", "7", "--threads", "96"],
            "examples/put_signal_hip.o")
HOST = Test("test/stream/test_stream", ["order"], "lib/kernels.o", "program's own")
# In a build with UCX
REMOTE = Test("test/net/ring", [], "test/net/ring.o", "ring",
            env={"SHMEM_P2P": "0", "SHMEM_HEAP": "device"})
REMOTE_STREAM = REMOTE._replace(program="test/stream/test_stream", args=["order"],
                            compiled="lib/remote.o", only="stores and signals")
PRODUCTS = Test("test/gemm/test_fused", [], "test/gemm/finish.o", "pool")
COARSE = Test("test/buffer/buffer_coarse", [], "test/buffer/coarse.o")
LIBRARY = "lib/libshmem.so.1.0.0"

RELEASE = '  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");\n'
SETTLE = "arch::wait_stores();\n  scope.sync();\n}"
# Removals: file, text, and the text in its place.
REMOVALS = {
    "nothing": (ARCH, "", "", LITMUS),
    "nothing, of streams": (ARCH, "", "", STREAM),
    "nothing, of products": (ARCH, "", "", PRODUCTS),
    "fence_release: the fence and the wait": (ARCH, RELEASE, '  if (false)\n', LITMUS),
    "fence_release: the fence": (ARCH, RELEASE, "", LITMUS),
    "fence_release: the wait after it": (ARCH, "barrier_all_wg of test/isa).\n  wait_stores();",
                                         "barrier_all_wg of test/isa).", LITMUS),
    "wait_stores": (ARCH, 'asm volatile("s_waitcnt vmcnt(0)" ::: "memory");',
                    'asm volatile("" ::: "memory");', LITMUS),
    "fence_acquire": (ARCH, '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");', "", LITMUS),
    "polled": (ARCH, "SHMEM_D_ void polled() {\n  fence_acquire();", "SHMEM_D_ void polled() {",
               LITMUS),
    "fence_all": (ARCH, "SHMEM_D_ void fence_all() {\n  fence_release();",
                  "SHMEM_D_ void fence_all() {", LITMUS),
    "release_before, of the GPU": (
        ARCH, '__builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");\n    wait_stores();', "", COUNTS),
    "acquire of atomics": (
        ARCH, "return o == Order::acq_rel ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;",
        "return __ATOMIC_RELAXED;", COUNTS),
    "load: its scope": (
        ARCH, "__hip_atomic_load(bits(const_cast<T *>(p)), order_of(o), range_of(r))",
        "*bits(const_cast<T *>(p))", LITMUS),
    "load_remote: its scope": (ARCH, '#define SHMEM_LOAD_BITS_ "',
                               '#define SHMEM_LOAD_BITS_ "" // "', LITMUS),
    "load_remote: the wait for four": (ARCH, 'SHMEM_LOAD_(3, 7) "s_waitcnt vmcnt(0)"',
                                       'SHMEM_LOAD_(3, 7)', LITMUS),
    "load_remote: the wait for one": (ARCH, 'SHMEM_LOAD_(0, 1) "s_waitcnt vmcnt(0)"',
                                      'SHMEM_LOAD_(0, 1)', LITMUS),
    "Uniform: the scope of loads": (ARCH, "#define SHMEM_LOAD_AUX_ ",
                                    "#define SHMEM_LOAD_AUX_ 0 // ", LITMUS),
    "Uniform: the scope of stores": (ARCH, "#define SHMEM_STORE_AUX_ ",
                                     "#define SHMEM_STORE_AUX_ 0 // ", LITMUS),
    "settle": ("device/scope.hpp", SETTLE, SETTLE.replace("arch::wait_stores();\n  ", ""), PUTS),
    "put_signal: settle": ("device/signal.hpp", "device::settle(scope);", "scope.sync();", PUTS),
    "put_signal: the release": ("device/signal.hpp", "arch::fence_release();", "", RING),
    "put: settle": ("device/rma.hpp",
                    "if constexpr (!std::is_same_v<Scope, Thread>) device::settle(scope);",
                    "scope.sync();", PUTS),
    "fence": ("device/order.hpp", "ring::fence(fn);\n  arch::fence_release();", "ring::fence(fn);",
              LITMUS),
    "quiet": ("device/order.hpp",
              "C, Thread) {\n  if constexpr (ring_built) ring::quiet(fn);\n  arch::fence_all();",
              "C, Thread) {", LITMUS),
    "pe_quiet": ("device/order.hpp",
                 "world_pe(c, pes[i]));\n  if constexpr (ring_built) ring::quiet(fn);\n  "
                 "arch::fence_all();", "world_pe(c, pes[i]));", PASSING),
    "wait_until: polled": ("device/wait.hpp", "  arch::polled();\n  return seen;", "  return seen;",
                           LITMUS),
    "test: polled": ("device/wait.hpp", "cmp_value)) return 0;\n  arch::polled();",
                     "cmp_value)) return 0;", PASSING),
    "wait_until_all: polled": ("device/wait.hpp", "      return 0;\n  arch::polled();",
                               "      return 0;", PASSING),
    "wait_until_any: polled": ("device/wait.hpp", "      arch::polled();\n      return i;",
                               "      return i;", PASSING),
    "wait_until_some: polled": ("device/wait.hpp", "if (found) arch::polled();", "", PASSING),
    "signal_fetch: polled": ("device/signal.hpp", "arch::polled();", "", PASSING),
    "last_workgroup: settle": ("device/shmem.hpp", "device::settle(Workgroup{});",
                               "arch::wg_sync();", COUNTS),
    "last_workgroup: the order": ("device/shmem.hpp", "Order::acq_rel", "Order::relaxed", COUNTS),
    "barrier: the wait": ("device/sync.hpp", "arch::wait_stores();", "", BARRIERS),
    "barrier: the release": ("device/sync.hpp", "arch::fence_release();", "", BARRIERS),
    "barrier: polled": ("device/sync.hpp", "arch::polled();", "", BARRIERS),
    "barrier: the wait and the release": (
        "device/sync.hpp", ("arch::wait_stores();", "arch::fence_release();"), "", BARRIERS),
    "channel, tell: the wait": ("device/channel.hpp",
                                "if (stored == Stored::by_scope) arch::wait_stores();", "", SUMS),
    "channel, tell: the release": ("device/channel.hpp",
                                   "if (stored == Stored::by_scope) arch::fence_release();", "",
                                   SUMS),
    "channel, enter: polled": ("device/channel.hpp",
                               "arch::polled(); // what the peers stored before they came", "",
                               BROADCASTS),
    "channel, leave: polled": ("device/channel.hpp", "arch::polled(); // what they stored in dest",
                               "", SUMS),
    "streams, fence_stream": (ARCH, "SHMEM_D_ void fence_stream() {\n  fence_release();",
                              "SHMEM_D_ void fence_stream() {", STREAM),
    "streams, put_signal: settle": ("device/coll.hip", "device::settle(scope);", "scope.sync();",
                                    STREAM),
    "streams, put_signal: the release": ("device/coll.hip", "arch::fence_release(); //", "//",
                                         STREAM),
    "streams, quiet": ("device/coll.hip", "arch::fence_all();", "", STREAM),
    "streams, wait_until: polled": ("device/wait.hpp", "  arch::polled();\n  return seen;",
                                    "  return seen;", STREAM),
    "streams, channel, tell: the wait": (
        "device/channel.hpp", "if (stored == Stored::by_scope) arch::wait_stores();", "", STREAM),
    "streams, channel, tell: the release": (
        "device/channel.hpp", "if (stored == Stored::by_scope) arch::fence_release();", "", STREAM),
    "streams, channel, leave: polled": ("device/channel.hpp",
                                        "arch::polled(); // what they stored in dest", "", STREAM),
    "nothing, of reports": (ARCH, "", "", REPORT),
    "report: the release": ("device/address.hpp", "arch::store<Order::release>(&r->kind",
                            "arch::store(&r->kind", REPORT),
    "streams, phases: the meeting": ("device/reduce.hpp", "scope.sync(); //", "//", PHASES),
    "norm, phases: the meeting": ("device/rows.hpp", "scope.sync(); // the other threads' rows",
                                  "//", NORMS),
    "norm, phases: the others' rows": ("device/rows.hpp", "scope.sync(); // the other members'",
                                       "//", NORMS),
    "host atomics: their order": ("device/kernels.hip", ("Order::acquire", "Order::release",
                                                         "Order::acq_rel"), "Order::relaxed", HOST),
    "products, tell: the release": ("device/gemm/members.hpp", "arch::fence_release(); //", "//",
                                    PRODUCTS),
    "products, wait_until: polled": ("device/gemm/members.hpp", "arch::polled();", "", PRODUCTS),
    "products, tiles: settle": ("device/gemm/push.hpp", "device::settle(scope);", "scope.sync();",
                                PRODUCTS),
    "products, tiles: the release": ("device/gemm/push.hpp",
                                     "arch::store<Order::release, Range::device>(&members",
                                     "arch::store<Order::relaxed, Range::device>(&members",
                                     PRODUCTS),
    "products, direct: the wait": ("device/platform/amd/direct.hpp", "arch::wait_stores(); //",
                                   "//", PRODUCTS),
    "products, sums: settle": ("device/gemm/exchange.hpp", "device::settle(Workgroup{});",
                               "arch::wg_sync();", PRODUCTS),
    "products, sums: the release": ("device/gemm/exchange.hpp", "arch::fence_release(); //", "//",
                                    PRODUCTS),
    "nothing, of buffers": (ARCH, "", "", COARSE),
    "buffers: the acquire": ("device/address.hpp",
                             "if (kept && use == Use::loads) arch::fence_acquire();", "", COARSE),
    "buffers: the release": ("device/address.hpp",
                             "if (kept && use == Use::stores) arch::fence_release();", "", COARSE),
    "buffers, streams: the release": ("device/coll.hip",
                                      "arch::fence_release();\n  arch::fence_acquire();",
                                      "arch::fence_acquire();",
                                      COARSE._replace(compiled="lib/coll.o")),
    "buffers, streams: the acquire": ("device/coll.hip",
                                      "arch::fence_release();\n  arch::fence_acquire();",
                                      "arch::fence_release();",
                                      COARSE._replace(compiled="lib/coll.o")),
    "nothing, of other nodes": (ARCH, "", "", REMOTE),
    "ring, await: the release": ("device/ring.hpp",
                                 "arch::store<Order::release, Range::device>(&t->seen",
                                 "arch::store<Order::relaxed, Range::device>(&t->seen", REMOTE),
    "ring, get: the acquire": ("device/ring.hpp", "arch::fence_acquire();", "", REMOTE),
    "ring, post: the release": ("device/ring.hpp",
                                "arch::store<Order::release>(reinterpret_cast<uint64_t *>(request)",
                                "arch::store(reinterpret_cast<uint64_t *>(request)", REMOTE),
    "ring, ask: polled": ("device/ring.hpp", "arch::polled();", "", REMOTE),
    "ring, ask: the release": ("device/ring.hpp", "arch::store<Order::release, Range::device>(read",
                               "arch::store<Order::relaxed, Range::device>(read", REMOTE),
    "deferred: polled": ("device/deferred.hpp", "arch::polled();", "", REMOTE),
    "deferred: the release": ("device/deferred.hpp", "arch::store<Order::release>(&a->done",
                              "arch::store(&a->done", REMOTE),
    "nothing, of streams to other nodes": (ARCH, "", "", REMOTE_STREAM),
    "remote, transfer: fence_stream": ("device/remote.hip", "arch::fence_stream(); // what",
                                       "// what", REMOTE_STREAM),
    "remote, put_signal: fence_stream": ("device/remote.hip", "arch::fence_stream(); // as",
                                         "// as", REMOTE_STREAM),
    "remote, stores: fence_all": ("device/remote.hip", "arch::fence_all();", "", REMOTE_STREAM),
    "remote, stores: settle": ("device/remote.hip", "device::settle(scope);", "scope.sync();",
                               REMOTE_STREAM),
    "remote, stores: the release": ("device/remote.hip", "arch::store<Order::release>(&b->state",
                                    "arch::store(&b->state", REMOTE_STREAM),
}

# Fences without a row: a file, or a file and what is in the line.
NO_ROW = {
    "device/gemm/exchange.hpp: fence_stream": "of PEs on other nodes; 'remote, transfer: "
                                              "fence_stream' is the same",
    "device/rma.hpp: device::settle(scope);": "the same; the one of put that blocks has a row",
    "device/channel.hpp: fence_stream": "'streams, fence_stream' takes it out",
    # Members of experts meet as those of a channel, whose rows take the same fences out.
    "device/moe/combine.hpp: polled": "'channel, enter: polled' is the same",
    # Workgroups of one call meet as those that last_workgroup counts.
    "device/moe/wg.hpp: device::settle(Workgroup{});": "'channel, tell: the wait' is the same",
    "device/moe/wg.hpp: polled": "'channel, enter: polled' is the same",
    "device/moe/wg.hpp: fence_release": "'channel, tell: the release' is the same",
    "device/moe/wg.hpp: fence_all": "its acquire is that of 'channel, enter: polled', its release "
                                    "that of 'channel, tell: the release'",
    "device/moe/members.hpp: polled": "'channel, enter: polled' is the same",
    "device/moe/combine.hip: fence_stream": "'streams, fence_stream' takes it out",
    "device/moe/dispatch.hip: fence_stream": "'streams, fence_stream' takes it out",
    "device/moe/members.hpp: device::settle(Workgroup{});": "'channel, tell: the wait' is the same",
    "device/moe/members.hpp: fence_release": "'channel, tell: the release' is the same",
    "device/gemm/exchange.hpp: acq_rel": "'products, sums: the release' comes before it, and "
                                         "'acquire of atomics' takes it out",
    "device/platform/amd/arch.hpp: releases(o) && r == Range::system": "'report: the release' and "
                                                                       "'host atomics: their "
                                                                       "order' take it out",
}
FENCE = re.compile(
    r"\b(fence_\w+\(\)|polled\(\)|wait_stores\(\)|settle\(|Order::(release|acquire|acq_rel)[,>])")

# Fences that no test can show in the machine, and why the code has them, or what the model says of
# them. There a barrier waits for no stores, and a release waits for its own wave's stores alone:
# those of other waves are under way until the next wait of these, or their end.
KERNELS_END = "the end of a kernel waits for its stores, and no L2 of gfx90a holds the heap dirty"
KERNELS_BEGIN = "nothing is loaded after it before the next kernel's packet, which empties the L1"
ENDS = ("only the last workgroup's other waves have stores under way, until it ends, and the "
        "member that was told looks when its own kernel has ended")
ALONE = "the atomic is all that its kernel does: the packet's own fences order it"
READER = "the kind could come before the rest, by microseconds, and the host looks every 5 ms"
TILES = ("other waves' stores end at the loads of their next tile, and the pool would have to read "
         "the tile before")
SAME = "the fence of 'channel, tell: the wait', where a test falls; here " + ENDS
ONE_LINE = ("a request, a reply and a deferred atomic are a line each, what a unit does to one "
            "line is in order, and loads of it pass by the caches")
OF_HEAP = "what the host reads lies in the heap, which is fine-grained: no L2 holds it dirty"
PACKETS = "HIP 5.2 seems to begin and end each kernel of a stream by the system's scope"
STANDS = {
    "mi250x": {
        "Uniform: the scope of stores": "stores have none on gfx90a",
        "buffers, streams: the release": PACKETS,
        "buffers, streams: the acquire": PACKETS,
        "streams, channel, tell: the wait": SAME,
        "products, tiles: settle": TILES,
        "products, sums: settle": ENDS,
        "host atomics: their order": ALONE,
        "report: the release": READER,
        "fence_release: the fence": "the heap is fine-grained, which gfx90a's L2 never holds "
                                    "dirty, and the wait is still there; falls on mi300x",
        "fence_release: the wait after it": "the compiler's own wait is there; clang 19 leaves it "
                                            "out for gfx942",
        "put_signal: the release": "nothing is left to write back: a put stores past the caches, "
                                   "and no L2 of gfx90a holds the heap dirty; falls on mi300x",
        "barrier: the release": "every thread has waited for its stores, and the rest is the "
                                "write-back; falls on mi300x",
        "channel, tell: the release": "every thread has waited for its stores, and the rest is the "
                                      "write-back; falls on mi300x",
        "streams, fence_stream": KERNELS_END,
        "streams, put_signal: the release": KERNELS_END,
        "streams, quiet": KERNELS_END,
        "streams, channel, tell: the release": KERNELS_END,
        "streams, wait_until: polled": KERNELS_BEGIN,
        "streams, channel, leave: polled": KERNELS_BEGIN,
        "products, tell: the release": KERNELS_END,
        "products, tiles: the release": "settle has waited, and at the GPU's scope gfx90a has "
                                        "nothing to write back",
        "products, sums: the release": "settle has waited; the rest is the write-back, and C is on "
                                       "the heap",
    },
    "mi300x": {
        "buffers: the acquire": "only a gfx90a has it",
        "buffers: the release": "only a gfx90a has it",
        "buffers, streams: the release": "only a gfx90a asks for it",
        "buffers, streams: the acquire": "only a gfx90a asks for it",
        "streams, channel, tell: the wait": SAME,
        "products, tiles: settle": TILES,
        "products, sums: settle": ENDS,
        "host atomics: their order": ALONE,
        "report: the release": READER,
        "fence_release: the wait after it": "the compiler's own wait is there; clang 19 leaves it "
                                            "out",
        "ring, await: the release": "`seen` is what the poll brought, so it cannot be there "
                                    "before, and a thread that gets acquires for itself",
        "ring, post: the release": ONE_LINE
        + "; and a thread that puts from the heap, which is fine-grained, has waited for its "
          "stores",
        "ring, ask: polled": ONE_LINE,
        "ring, ask: the release": "the place would have to go round 2,048 requests before a load "
                                  "that has begun",
        "deferred: polled": ONE_LINE,
        "deferred: the release": ONE_LINE,
        "remote, transfer: fence_stream": OF_HEAP,
        "remote, put_signal: fence_stream": OF_HEAP,
        "remote, stores: fence_all": "what has not begun after 200 us is taken back: both would "
                                     "have to look in the same microsecond",
        "remote, stores: settle": "up to 64 stores are one wave's, whose release waits for them",
        "remote, stores: the release": "settle has waited, and fine-grained memory is not held "
                                       "dirty",
    },
}
# LLVM's model has one section for both, but mi355x is on HIP 6.4, where mi300x stands as well and
# falls on 5.7 (2026-11-24).
NEWER = ("HIP 6.4 seems to fence each kernel of a stream by the system's scope: with it mi300x "
         "stands, too, with 5.7 it falls")
STANDS["mi355x"] = STANDS["mi300x"] | dict.fromkeys(
    ["streams, fence_stream", "streams, put_signal: the release", "streams, quiet",
     "streams, channel, tell: the release", "streams, wait_until: polled",
     "streams, channel, leave: polled", "products, tell: the release",
     "products, sums: the release"], NEWER)


def stale():
    """The faults of the rows, in lines."""
    taken = set()
    for name, (file, old, *_) in {**REMOVALS, "of all rows": BARE}.items():
        text = (ROOT / file).read_text()
        for part in (old,) if isinstance(old, str) else old:
            if part not in text:
                yield f"{name}: {file} has no {part!r}"
            for found in re.finditer(re.escape(part), text) if part else ():
                first = text.count("\n", 0, found.start())
                taken |= {(file, first + i) for i in range(part.count("\n") + 1)}
    for path in sorted((ROOT / "device").rglob("*.h[ip]p")):
        file = str(path.relative_to(ROOT))
        if file in NO_ROW or re.match(r"device/platform/(cpu|nvidia)/", file):
            continue
        for i, line in enumerate(path.read_text().splitlines()):
            code = line.split("//")[0]
            if not FENCE.search(code) or line.startswith(("SHMEM_D_",
                                                          "template")) or (file, i) in taken:
                continue
            if not any(code.find(what) >= 0 for where, _,
                       what in (key.partition(": ") for key in NO_ROW) if where == file):
                yield f"{file}:{i + 1} has no row, nor a reason in NO_ROW: {code.strip()}"


def patched(folder, file, old, new):
    path = folder / file
    text = path.read_text()
    for part in (old,) if isinstance(old, str) else old:
        if part not in text:
            sys.exit(f"fences.py: {file} has no {part!r}")
        text = text.replace(part, new) if part else text
    path.write_text(text)


def build(work, build_folder, test, gpu):
    """The program of the test, or the library, with the device code of work; the rest is the
    build's."""
    out = str(work / "compiled.o")
    compile = [word for word in commands(build_folder, test.compiled)
               if not word.startswith("--offload-arch=") or word.endswith(gpu)]
    compile[compile.index("-o") + 1] = out
    if "-MF" in compile:
        compile[compile.index("-MF") + 1] = out + ".d"
    at = next(i for i, word in enumerate(compile) if word.startswith("-I"))
    for i, word in enumerate(compile):  # the library's own sources are in device/
        source = (build_folder / word).resolve()
        if word.endswith(".hip") and source.parent == ROOT / "device":
            compile[i] = str(work / "device" / source.name)
    whole = LIBRARY if test.compiled.startswith("lib/") else test.program
    link = [out if word == test.compiled else word for word in commands(build_folder, whole)]
    link[link.index("-o") + 1] = str(work / Path(whole).name)
    link = [re.sub(r"\$ORIGIN/(\.\./)+lib", str(build_folder / "lib"), word) for word in link]
    for command in (compile[:at] + [f"-I{work}/include"] + compile[at:], link):
        done = subprocess.run(command, cwd=build_folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"fences.py: does not compile\n{done.stderr}")
    if whole == LIBRARY:
        (work / "libshmem.so.1").symlink_to(work / Path(LIBRARY).name)
        return build_folder / test.program
    return work / Path(whole).name


def commands(build_folder, target):
    lines = subprocess.run(["ninja", "-C", build_folder, "-t", "commands", "-s", target],
                           capture_output=True, text=True, check=True).stdout
    return shlex.split([line for line in lines.splitlines() if " -o " in line][-1])


def run(build_folder, work, binary, test, nodes, seed, rounds, limit):
    """The line of the test that fell, or None."""
    software = build_folder / "test/amdgpu"
    below = software / "libkfd.so.1"  # from ROCm 6.4 on; before, libhsakmt is found by the path
    env = {**os.environ, "ROC_ACTIVE_WAIT_TIMEOUT": "0", "AMDGPU_STRICT": str(seed),
           "AMDGPU_NODES": str(software / nodes) + ".txt",
           "LD_LIBRARY_PATH": f"{work}:{software}"
           + (f":{software}/gfx950" if nodes == "mi355x" else ""),
           "LD_PRELOAD": f"{below if below.exists() else ''} {software / 'libpatient.so'}",
           "TEST_ONLY": test.only, "SHMEM_TEST_ROUNDS": str(rounds), "SHMEM_WAIT_LIMIT": "60",
           "SHMEM_CHECK": "1" if test.says else "0", "SHMEM_SYMMETRIC_SIZE": "64M", **test.env}
    try:
        done = subprocess.run([build_folder / "tools/oshrun", "-n", str(test.n), binary,
                               *test.args], env=env, capture_output=True, text=True,
                              timeout=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "does not end"
    text = done.stdout + done.stderr
    if re.search(test.says, text) if test.says else done.returncode == 0:
        return None
    if "AMDGPU_NODES: cannot read" in text:
        sys.exit(f"fences.py: no {software / nodes}.txt: build all of test/amdgpu")
    for pattern in (r"amdgpu: (.*)", r"(?m)^(.*: the forbidden was seen|round \d+: neither PE.*)",
                    r"\[  FAILED  \] ([^\d].*)", r"shmem: (.*)", r"(\w+: FAILED.*)",
                    r"(.*error.*)"):
        found = re.search(pattern, text)
        if found:
            return found[1][:110]
    return f"status {done.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=lambda p: Path(p).resolve())
    parser.add_argument("--nodes")
    parser.add_argument("--seeds", default="7,3,1")
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--limit", type=int, default=240)
    parser.add_argument("--table", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    if not options.build:
        lines = list(stale())
        print("\n".join(lines) or f"{len(REMOVALS)} rows")
        return bool(lines)
    unknown = [part for part in options.names if not any(name.startswith(part)
                                                         for name in REMOVALS)]
    if unknown:
        parser.error(f"no row {unknown[0]!r}")
    wanted = [name for name in REMOVALS if not options.names
              or name.startswith(tuple(options.names))]
    rows = (options.table.read_text().splitlines() if options.table and options.table.exists()
            else [])
    build_options = json.loads((options.build / "meson-info/intro-buildoptions.json").read_text())
    machines = {"gfx90a": "mi250x", "gfx942": "mi300x", "gfx950": "mi355x"}
    nodes = options.nodes or machines[next(o["value"] for o in build_options
                                           if o["name"] == "gpu_targets")[0]]
    gpu = next(name for name, machine in machines.items() if nodes.startswith(machine))
    for name in wanted:
        if any(row.startswith(f"| {name} |") for row in rows):
            continue
        file, old, new, test = REMOVALS[name]
        with tempfile.TemporaryDirectory(prefix="fences.") as folder:
            work = Path(folder)
            shutil.copytree(ROOT / "device", work / "device")
            (work / "include/shmem").mkdir(parents=True)
            (work / "include/shmem/device").symlink_to(work / "device")
            for header in (options.build / "include/shmem").iterdir():
                if header.name != "device":
                    (work / "include/shmem" / header.name).symlink_to(header)
            for header in (ROOT / "include").glob("*.h"):
                (work / "include" / header.name).symlink_to(header)
            patched(work, *BARE)
            if old:
                patched(work, file, old, new)
            binary, falls = build(work, options.build, test, gpu), None
            for seed in options.seeds.split(","):
                falls = run(options.build, work, binary, test, nodes, seed, options.rounds,
                            options.limit)
                if falls:
                    break
        why = "as it must" if name.startswith("nothing") else STANDS.get(nodes, {}).get(name, "?")
        rows.append(
            f"| {name} | {test.compiled} | "
            f"{f'{falls} (seed {seed})' if falls else 'stands: ' + why} |")
        print(rows[-1], flush=True)
        if options.table:
            options.table.write_text("\n".join(rows) + "\n")
    # Nothing was taken out and a test falls, or none falls for no known reason.
    return any(" (seed " in row if row.startswith("| nothing") else row.endswith("stands: ? |")
               for row in rows)


if __name__ == "__main__":
    sys.exit(int(main()))
