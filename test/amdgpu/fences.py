#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fences.py BUILD [--seeds 1,2,...] [--rounds N] [NAME...]: which test falls without which fence of the device code.

BUILD is an AMD build folder with test/device/test_device, examples/residual_hip and the GPU in software. Each row of REMOVALS is a copy
of device/ with one wait, fence, or bit of a load taken out; its tests are compiled with it and run on the strict machine, seed after seed,
until one falls. What stands on gfx90a and why is in STANDS. Everywhere the barrier of a workgroup is the bare one that clang 19 makes: clang 15 waits for all stores before it.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCH = "device/platform/amd/arch.hpp"
BARE = ("void wg_sync() {\n  __syncthreads();", 'void wg_sync() {\n  asm volatile("s_waitcnt lgkmcnt(0)\\n\\ts_barrier" ::: "memory");')

# name: test, arguments and PEs
LITMUS = ("test/device/test_device", ["litmus"], 2)
RESIDUAL = ("examples/residual_hip", ["--tokens", "5", "--hidden", "33", "--inner", "7"], 2)
# What is compiled anew for a program: objects, as the build knows them.
OBJECTS = {"test/device/test_device": ["test/device/litmus.o"], "examples/residual_hip": ["examples/residual_hip.o"]}

RELEASE = '  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");\n'
SETTLE = "arch::wait_stores();\n  scope.sync();\n}"
# What is taken out: file, text, and what is there instead.
REMOVALS = {
    "nothing": (ARCH, "", "", LITMUS),
    "nothing, of products": (ARCH, "", "", RESIDUAL),
    "fence_release: the fence and the wait": (ARCH, RELEASE, '  if (false)\n', LITMUS),
    "fence_release: the fence": (ARCH, RELEASE, "", LITMUS),
    "fence_release: the wait after it": (ARCH, "barrier_all_wg of test/isa).\n  wait_stores();", "barrier_all_wg of test/isa).", LITMUS),
    "wait_stores": (ARCH, 'asm volatile("s_waitcnt vmcnt(0)" ::: "memory");', 'asm volatile("" ::: "memory");', LITMUS),
    "fence_acquire": (ARCH, '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");', "", LITMUS),
    "polled": (ARCH, "SHMEM_D_ void polled() {\n  fence_acquire();", "SHMEM_D_ void polled() {", LITMUS),
    "fence_all": (ARCH, "SHMEM_D_ void fence_all() {\n  fence_release();", "SHMEM_D_ void fence_all() {", LITMUS),
    "release_before, of the GPU": (ARCH, '__builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");\n    wait_stores();', "", LITMUS),
    "acquire of atomics": (ARCH, "return o == Order::acq_rel ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;", "return __ATOMIC_RELAXED;", LITMUS),
    "load: glc": (ARCH, "__hip_atomic_load(bits(const_cast<T *>(p)), order_of(o), range_of(r))", "*bits(const_cast<T *>(p))", LITMUS),
    "load_remote: glc": (ARCH, '#define SHMEM_LOAD_BITS_ " glc"', '#define SHMEM_LOAD_BITS_ ""', LITMUS),
    "load_remote: the wait for four": (ARCH, ' SHMEM_LOAD_BITS_ "\\n\\t"\n                 "s_waitcnt vmcnt(0)"', ' SHMEM_LOAD_BITS_', LITMUS),
    "load_remote: the wait for one": (ARCH, '"\\n\\ts_waitcnt vmcnt(0)"\n                   : "=&v"(v[k])', '\n                   : "=&v"(v[k])', LITMUS),
    "settle": ("device/scope.hpp", SETTLE, SETTLE.replace("arch::wait_stores();\n  ", ""), LITMUS),
    "put_signal: settle": ("device/signal.hpp", "device::settle(scope);", "scope.sync();", LITMUS),
    "put_signal: the release": ("device/signal.hpp", "arch::fence_release();", "", LITMUS),
    "put: settle": ("device/rma.hpp", "put_nbi<cache>(fn, c, dest, source, n, pe, scope);\n  if constexpr (!std::is_same_v<Scope, Thread>) device::settle(scope);",
                    "put_nbi<cache>(fn, c, dest, source, n, pe, scope);\n  scope.sync();", LITMUS),
    "fence": ("device/order.hpp", "fence(const char *, C, Thread) {\n  arch::fence_release();", "fence(const char *, C, Thread) {", LITMUS),
    "quiet": ("device/order.hpp", "quiet(const char *, C, Thread) {\n  arch::fence_all();", "quiet(const char *, C, Thread) {", LITMUS),
    "wait_until: polled": ("device/wait.hpp", "    seen = arch::poll(p);\n  }\n  arch::polled();", "    seen = arch::poll(p);\n  }", LITMUS),
    "barrier: the wait": ("device/sync.hpp", "arch::wait_stores();", "", LITMUS),
    "barrier: the release": ("device/sync.hpp", "arch::fence_release();", "", LITMUS),
    "barrier: polled": ("device/sync.hpp", "arch::polled();", "", LITMUS),
    "barrier: the wait and the release": ("device/sync.hpp", ("arch::wait_stores();", "arch::fence_release();"), "", LITMUS),
    "channel, tell: the wait": ("device/channel.hpp", "if (stored == Stored::by_scope) arch::wait_stores();", "", LITMUS),
    "channel, tell: the release": ("device/channel.hpp", "if (stored == Stored::by_scope) arch::fence_release();", "", LITMUS),
    "channel, enter: polled": ("device/channel.hpp", "arch::polled(); // what the peers stored before they came", "", LITMUS),
    "channel, leave: polled": ("device/channel.hpp", "arch::polled(); // what they stored in dest", "", LITMUS),
    "products, tell: the release": ("device/gemm/members.hpp", "arch::fence_release(); //", "//", RESIDUAL),
    "products, wait_until: polled": ("device/gemm/members.hpp", "arch::polled();", "", RESIDUAL),
    "products, tiles: settle": ("device/gemm/push.hpp", "device::settle(scope);", "scope.sync();", RESIDUAL),
    "products, sums: settle": ("device/gemm/exchange.hpp", "device::settle(Workgroup{});", "arch::wg_sync();", RESIDUAL),
    "products, sums: the release": ("device/gemm/exchange.hpp", "arch::fence_release(); //", "//", RESIDUAL),
}

# What gfx90a cannot show.
STANDS = {
    "fence_release: the fence": "the heap is fine-grained, which gfx90a's L2 never holds dirty, and the wait is still there",
    "fence_release: the wait after it": "the compiler's own wait is there; clang 19 leaves it out for gfx942",
    "put_signal: the release": "every thread has waited for its stores in settle; the rest is the write-back",
    "barrier: the release": "every thread has waited for its stores before; the rest is the write-back",
    "channel, tell: the release": "every thread has waited for its stores before; the rest is the write-back",
    "channel, enter: polled": "what it orders is loaded past the L1",
    "barrier: the wait": "each wave waits for its load of the epoch next, and with it for its stores: tens of rounds do not meet the gap",
    "channel, tell: the wait": "the wait for a load comes next, as in the barrier",
}


def patched(folder, file, old, new):
    path = folder / file
    text = path.read_text()
    for part in (old,) if isinstance(old, str) else old:
        if part not in text:
            sys.exit(f"fences.py: {file} has no {part!r}")
        text = text.replace(part, new) if part else text
    path.write_text(text)


def build(work, build_folder, program):
    """The program with the device code of work; the rest is the build's."""
    link = commands(build_folder, program)
    for name in OBJECTS[program]:
        compile = commands(build_folder, name)
        out = str(work / Path(name).name)
        compile[compile.index("-o") + 1] = out
        if "-MF" in compile:
            compile[compile.index("-MF") + 1] = out + ".d"
        at = next(i for i, word in enumerate(compile) if word.startswith("-I"))
        done = subprocess.run(compile[:at] + [f"-I{work}/include"] + compile[at:], cwd=build_folder, capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr
        link = [out if word == name else word for word in link]
    link[link.index("-o") + 1] = str(work / "program")
    done = subprocess.run([word.replace("$ORIGIN/../../lib", str(build_folder / "lib")).replace("$ORIGIN/../lib", str(build_folder / "lib"))
                           for word in link], cwd=build_folder, capture_output=True, text=True)
    return (None, done.stderr) if done.returncode else (work / "program", "")


def commands(build_folder, target):
    lines = subprocess.run(["ninja", "-C", build_folder, "-t", "commands", "-s", target], capture_output=True, text=True, check=True).stdout
    return shlex.split([line for line in lines.splitlines() if " -o " in line][-1])


def run(build_folder, program, args, n, seed, rounds, limit):
    """What fell, or None."""
    env = {**os.environ, "LD_LIBRARY_PATH": f"{build_folder}/test/amdgpu", "ROC_ACTIVE_WAIT_TIMEOUT": "0", "AMDGPU_STRICT": str(seed),
           "SHMEM_TEST_ROUNDS": str(rounds), "SHMEM_WAIT_LIMIT": "60"}
    try:
        done = subprocess.run([build_folder / "tools/oshrun", "-n", str(n), program, *args], env=env, capture_output=True, text=True,
                              timeout=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode == 0:
        return None
    text = done.stdout + done.stderr
    for pattern in (r"amdgpu: (.*)", r"(?m)^(.*: the forbidden was seen|round \d+: neither PE.*)",
                    r"\[  FAILED  \] ([^\d].*)", r"shmem: (.*)", r"(\w+: FAILED.*)", r"(.*error.*)"):
        found = re.search(pattern, text)
        if found:
            return found[1][:110]
    return f"status {done.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda p: Path(p).resolve())
    parser.add_argument("--seeds", default="7,3,1")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--limit", type=int, default=240)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    unknown = [name for name in options.names if name not in REMOVALS]
    if unknown:
        parser.error(f"no row {unknown[0]!r}")
    stands = 0
    for name in options.names or REMOVALS:
        file, old, new, (program, args, n) = REMOVALS[name]
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
            patched(work, ARCH, *BARE)
            if old:
                patched(work, file, old, new)
            binary, error = build(work, options.build, program)
            if not binary:
                sys.exit(f"fences.py: {name}: does not compile\n{error}")
            falls = None
            for seed in options.seeds.split(","):
                falls = run(options.build, binary, args, n, seed, options.rounds, options.limit)
                if falls:
                    break
        stands += not falls and not name.startswith("nothing") and name not in STANDS
        print(f"| {name} | {Path(program).name} | {f'{falls} (seed {seed})' if falls else 'stands: ' + STANDS.get(name, '')} |", flush=True)
    return stands != 0


if __name__ == "__main__":
    sys.exit(main())
