#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The compilers' code of kernels.hip: isa.py ARCH [--update] -I FOLDER...

Compares the instructions with expect.py, and the registers, write-backs, invalidations and waits
with registers.tsv: a kernel that takes more than there fails. --update writes the table. Status 77:
no compiler here knows the GPU."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import flight  # noqa: E402
from expect import ALLOWED, ARCHES, KEEPS, KERNELS, MORE, NEVER, WORDS  # noqa: E402

TABLE = HERE / "registers.tsv"
COLUMNS = ("vgprs", "agprs", "sgprs", "lds", "scratch", "wbl2", "inv", "drains")
FIELDS = {"vgprs": "vgpr_count", "agprs": "agpr_count", "sgprs": "sgpr_count",
          "lds": "group_segment_fixed_size",
          "scratch": "private_segment_fixed_size"}
# Instructions that cost microseconds, wherever they stand: write-backs of the L2, invalidations,
# and waits for all that is under way. In each routine that may end with a report one write-back and
# one wait are the report's.
COUNTED = {"wbl2": "buffer_wbl2", "inv": "buffer_(inv|wbinv)", "drains": r"s_waitcnt .*vmcnt\(0\)"}


def compilers(arch, folder):
    """Commands that may know arch: ROCm's, then plain LLVM. A device library of ROCm that is older
    than the GPU lacks one small file for it, which tells the number of the architecture; a
    neighbour's does for looking at instructions."""
    common = ["-x", "hip", "-D__HIP_PLATFORM_AMD__", "--offload-arch=" + arch]
    for name in "hipcc", "/opt/rocm/bin/hipcc", "amdclang++":
        if shutil.which(name):
            yield [name, *common, "-Wno-unused-command-line-argument"]
    for bitcode in map(Path, ("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
                              "/opt/rocm/amdgcn/bitcode")):
        if not (bitcode / "ockl.bc").exists():
            continue
        copy = Path(shutil.copytree(bitcode, Path(folder) / "bitcode", dirs_exist_ok=True))
        own, other = (copy / f"oclc_isa_version_{n}.bc" for n in (arch[3:], "940"))
        if not own.exists() and other.exists():
            shutil.copy(other, own)
        for major in range(25, 15, -1):
            if shutil.which(f"clang++-{major}"):
                yield [f"clang++-{major}", *common, f"--rocm-device-lib-path={copy}"]


def assembly(arch, includes, folder, source=HERE / "kernels.hip", one_node=True):
    """Of the first compiler that knows arch, with its version. one_node: false for a build that has
    other nodes, whatever the build in `includes` has."""
    if not one_node:
        built = Path(folder) / "other_nodes/shmem/device_built.hpp"
        built.parent.mkdir(parents=True, exist_ok=True)
        template = HERE.parents[1] / "include/shmem/device_built.hpp.in"
        built.write_text(template.read_text().replace("@NET_BUILT@", "1"))
        includes = [f"-I{built.parents[1]}", *includes]
    probe, out = Path(folder) / "probe.hip", Path(folder) / "kernels.s"
    probe.write_text("#include <hip/hip_runtime.h>\n__global__ void kernel() {}\n")
    flags = ["-std=c++17", "-O3", "-S", "--cuda-device-only", "-o", out,
             *["-DSHMEM_ONE_NODE"] * one_node]
    for command in compilers(arch, folder):
        if subprocess.run([*command, *flags, probe], capture_output=True).returncode:
            continue
        text = subprocess.run([command[0], "--version"], capture_output=True, text=True,
                              check=True).stdout
        version = "clang " + re.search(r"clang version (\d+)", text)[1]
        done = subprocess.run([*command, *flags, *includes, "-Wall", "-Wextra", "-Werror", source],
                              text=True,
                              capture_output=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return version, out.read_text()
    print(f"no compiler here knows {arch}")
    sys.exit(77)


def kernels(text):
    """{name: (instructions, a line each, and facts)}"""
    code = {m[1]: "\n".join(line for line in (re.sub(r"\s*;.*|//.*", "", row).strip()
                                              for row in m[2].splitlines())
                            if line and line[0] not in ".;" and not line.endswith(":"))
            for m in re.finditer(r"^(\w+):\s.*?\n(.*?)^\.Lfunc_end", text, re.S | re.M)}
    return {name: (code[name], facts) for name,
            facts in facts_of(text.split(".amdgpu_metadata")[1]).items()}


def facts_of(metadata):
    """{kernel: facts}, of an assembly or of a code object's notes"""
    facts = {}
    for part in re.split(r"^  - ", metadata.split("amdhsa.kernels:")[-1], flags=re.M)[1:]:
        rows = dict(re.findall(r"^ {4}\.(\w+): +'?(\S+?)'?$", "    " + part, re.M))
        if "vgpr_spill_count" in rows: # or else something behind the kernels
            facts[rows["name"]] = rows
    return facts


def errors_of(name, code, facts, arch):
    words = {word: re.compile(both[ARCHES[arch]], re.M) for word, both in WORDS.items()}
    wanted, most = KERNELS[name]
    errors, at = [], 0
    for i, word in enumerate(wanted.split()):
        found = words[word].search(code, at)
        if not found:
            errors.append(f"no {words[word].pattern!r} for '{word}', the {i + 1}. of '{wanted}'")
            break
        at = found.end()
    for pattern, what in NEVER.items():
        errors += [f"{what}: {found[0]}" for found in re.finditer("^" + pattern, code, re.M)
                   if found[0] not in ALLOWED.get(name, ())]
    # No more write-backs than meant: each costs microseconds. What ends a kernel with a report
    # claims it by a swap and releases it; and for gfx90a clang 15 writes back before it
    # invalidates.
    have, wanted = len(re.findall("buffer_wbl2", code)), wanted.split()
    reports = len(re.findall("global_atomic_swap ", code)) - wanted.count("swap")
    allowed = wanted.count("release") + reports + (wanted.count("acquire") + KEEPS.get(name, 0)
                                                   if arch == "gfx90a" else 0)
    allowed, lanes = MORE.get(name, (allowed, 0))
    if have > allowed:
        errors.append(f"{have} times buffer_wbl2, not {allowed}")
    if int(facts["vgpr_count"]) > most:
        errors.append(f"{facts['vgpr_count']} VGPRs, not {most}")
    for field in "vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size":
        bound = lanes if field == "sgpr_spill_count" else 0
        if int(facts[field]) > bound:
            errors.append(f"{field} is {facts[field]}, not {bound}")
    if facts.get("uses_dynamic_stack", "false") != "false":
        errors.append("has a stack")
    return errors


def read_table(path=TABLE, columns=COLUMNS):
    rows = [line.split("\t") for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return {tuple(row[:3]): dict(zip(columns, map(int, row[3:]))) for row in rows if len(row) == 3
            + len(columns)}


def write_table(table, path=TABLE, columns=COLUMNS, by="isa.py"):
    rows = ["\t".join([*key, *(str(regs[c]) for c in columns)]) for key,
            regs in sorted(table.items())]
    path.write_text(f"# SPDX-License-Identifier: MIT. Written by {by} --update.\n"
                    + "\t".join(["kernel", "arch", "compiler", *columns])
                    + "\n" + "\n".join(rows) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("arch", choices=ARCHES)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("-I", action="append", default=[], dest="folders")
    parser.add_argument("--keep", help="a file for the assembly")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        version, text = assembly(args.arch, ["-I" + os.path.abspath(f) for f in args.folders],
                                 folder)
    if args.keep:
        Path(args.keep).write_text(text)
    got, table, bad = kernels(text), read_table(), 0
    codes = {name: flight.Code(lines) for name, lines in flight.of_assembly(text)}
    known = any(key[1:] == (args.arch, version) for key in table)
    for name in sorted(set(KERNELS) | set(got)):
        if name not in got or name not in KERNELS:
            errors = ["only in " + ("expect.py" if name in KERNELS else "kernels.hip")]
        else:
            code, facts = got[name]
            errors = errors_of(name, code, facts, args.arch)
            errors += [f"a store waits for another of its round: {place}"
                       for place in flight.waits(codes[name])]
            errors += flight.too_little(args.arch, name, codes[name])
            regs = {c: int(facts[FIELDS[c]]) if c in FIELDS
                    else len(re.findall("^" + COUNTED[c], code, re.M)) for c in COLUMNS}
            key = (name, args.arch, version)
            if args.update:
                table[key] = regs
            elif known:
                was = table.get(key)
                errors += [f"{c}: {regs[c]}, and registers.tsv says {was[c] if was else 'nothing'}"
                           for c in COLUMNS if not was or regs[c] > was[c]]
        bad += bool(errors)
        for error in errors:
            print(f"{args.arch} {version}: {name}: {error}")
    if args.update:
        write_table({key: regs for key, regs in table.items() if key[0] in KERNELS})
    elif not known:
        print(
            f"{args.arch}: {version} is not in registers.tsv: only the instructions were looked at")
    print(f"{args.arch}, {version}: {len(got) - bad} of {len(got)} kernels as expected")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
