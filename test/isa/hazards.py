#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Faults of code for gfx9 that compilers cannot see in inline assembly, or make themselves:

hazards.py ARCH -I FOLDER... SOURCE...    of sources, compiled here
hazards.py --ring ...                     the same, for a build that has other nodes
hazards.py --objects OBJECT...            of all code objects that a build made

- A store of more than 8 bytes takes its data from the registers late: a vector instruction that
  writes one of them in the next wait state (gfx90a), or the next two (gfx942, gfx950), changes what
  is stored. LLVM keeps them apart (D123687, GCNHazardRecognizer), but not from stores in inline
  assembly.
- buffer_wbl2 begins to write the L2 back; until s_waitcnt vmcnt(0) it is not done, and no store or
  atomic may follow. clang 19 leaves the wait out for gfx942 where it knows of no store.
- A wave's s_waitcnt is for its own stores, and s_barrier waits for none (clang 15 waits before it,
  clang 19 does not): other waves' stores before a barrier may still be under way when one of
  them releases. They have to wait themselves, before the barrier. Looked for at releases for this
  GPU, with which workgroups hand over to each other; those for all may be of a report, which has no
  others' stores. Nor has the ring's, which hands on what the host stored.
- Kernels that read another PE's memory, by their names: gets and the host's reductions. Their loads
  pass by the caches, where lines may lie as they were before: glc on gfx90a, sc0 sc1 on gfx942.
- Kernels of small wires, by their names, store 4 packs of elements, which clang 17 dropped. Packs
  for other PEs, 2 or more, have scope bits; on gfx90a they look alike.
- A kernel of the library that waits for a line of its argument or its packet, in the host's
  memory, and then for another one.
- A store that waits for another of the same round of its loop, and a loop that has too little on
  the way, see flight.py.
- A kernel that calls a function takes all registers and a stack.
- The library's kernels and the examples' know that all they touch is global memory: a flat access
  asks the LDS, too, and is waited for with it. They spill nothing, and no array of theirs is
  private memory; expect.py has what is left, a row each.
Status 77: no compiler here knows the GPU."""

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
import isa  # noqa: E402
from expect import LEFT  # noqa: E402

MAGIC, MACHINE = b"__CLANG_OFFLOAD_BUNDLE__", 224 # of ELF: AMDGPU
WIDE = re.compile(r"(global|flat|scratch|buffer|tbuffer)_(store_.*|atomic_\w*cmpswap_x2)\b")
WRITES = re.compile(
    r"(global|flat|scratch|buffer|tbuffer|ds)_"
    r"(store|write|atomic|add|sub|and|or|xor|inc|dec|min|max|wrxchg|cmpst)")
FROM_PEER = re.compile(
    r"7kernels12_GLOBAL__N_1(6reduceINS_\d\w*?EvPKPT0_|4scanI|"
    r"(4copy|8elements|6blocks)ILNS_6device6RemoteE1E)")
SMALL_WIRE = re.compile(r"4wire12_GLOBAL__N_14move")
LIBRARY = re.compile(r"_ZN5shmem(7kernels|4gemm|3moe|4rows|4wire)")
COSTS = {"vgpr_spill_count": "spilled vector registers",
         "sgpr_spill_count": "scalars in lanes of a vector register",
         "private_segment_fixed_size": "bytes of private memory"}
DRAINED = re.compile(r"s_waitcnt .*vmcnt\(0\)|s_waitcnt 0$")


def registers(operand, files="va"):
    """v[4:7] or a3 as a set of (file, number)."""
    found = re.fullmatch(rf"([{files}])(?:\[(\d+):(\d+)\]|(\d+))", operand)
    if not found:
        return set()
    first = int(found[2] or found[4])
    return {(found[1], i) for i in range(first, int(found[3] or first) + 1)}


def scalars(operand):
    return registers(operand, "s")


class Code(flight.Code):
    def after(self, i, states):
        """The instructions that may come within so many wait states of the i-th, on all ways."""
        todo, seen = [(i + 1, states)], set()
        while todo:
            at, left = todo.pop()
            if left <= 0 or at >= len(self.rows) or (at, left) in seen:
                continue
            seen.add((at, left))
            word, operands, line = self.rows[at]
            yield word, operands, line
            spent = int(operands[0], 0) + 1 if word == "s_nop" else 1
            if word == "s_endpgm" or word.startswith(("s_setpc", "s_swappc")):
                continue
            if word == "s_branch" or word.startswith("s_cbranch"):
                todo.append((self.labels[operands[0]], left - spent))
            if word != "s_branch":
                todo.append((at + 1, left - spent))

    def overwritten(self, arch):
        for i, (word, operands, line) in enumerate(self.rows):
            if not WIDE.match(word):
                continue
            data = max(map(registers, operands), key=len)
            # With a scalar as offset a buffer's store takes one more cycle, and there is no hazard.
            if len(data) < 3 or (word[0] in "bt" and re.match(r"s\d", operands[3])):
                continue
            for other, into, text in self.after(i, 1 if arch == "gfx90a" else 2):
                if other.startswith("v_") and data & (
                    registers(into[0]) | (registers(into[1]) if "swap" in other else set())):
                    yield f"{line} / {text}"

    def unfinished(self):
        for i, (word, _, line) in enumerate(self.rows):
            if word != "buffer_wbl2":
                continue
            todo, seen = [i + 1], set()
            while todo:
                at = todo.pop()
                if at >= len(self.rows) or at in seen:
                    continue
                seen.add(at)
                word, operands, text = self.rows[at]
                if DRAINED.match(text) or word == "s_endpgm":
                    continue
                if WRITES.match(word):
                    yield f"{line} / {text}"
                    continue
                if word.startswith(("s_branch", "s_cbranch")):
                    todo.append(self.labels[operands[0]])
                if word != "s_branch":
                    todo.append(at + 1)


    def cached(self, arch):
        """From a scalar base come arguments and tables, which no thread writes."""
        bits = " glc" if arch == "gfx90a" else " sc0 sc1"
        for word, operands, line in self.rows:
            plain = re.match(r"(global|flat)_load", word) and not operands[-1].startswith("s[")
            if (plain or word.startswith("buffer_load")) and bits not in line:
                yield line

    def too_few(self, arch):
        packs, least = 0, 6 if arch == "gfx90a" else 4
        for word, operands, line in self.rows:
            packs += (word == "global_store_dwordx4" and operands[2].startswith("off")
                      and " sc" not in line)
        if packs < least:
            yield f"{packs}, not {least}"

    def late_arguments(self):
        """Loads from a line of a kernel's argument or of its packet, both in the host's memory, for
        which the kernel has not asked when it waits for other lines; and loads by vectors, past the
        scalar cache, which ask again. The addresses come in some of the first 16 scalars: all that
        the first block loads from such a pair is one of both. arch::argument makes the argument's
        address a multiple of 4, which it is, and asks for 12 lines: a program's own finish may have
        more."""
        written, asked, waited, branched, late = set(), set(), False, False, []
        for word, operands, line in self.rows:
            base = operands[1 if word.startswith("s_load") else 2].split()[0] if re.match(
                "s_load|global_load", word) else ""
            if scalars(base) and not scalars(base) & written:
                scalar = word[0] == "s"
                where = base, int(operands[2], 0) // 64 if scalar else None
                if waited and where not in asked and not (scalar and where[1] >= 12):
                    late.append((base, line))
                if scalar and not branched:
                    asked.add(where)
            waited = waited or bool(asked and re.match(r"s_waitcnt .*lgkmcnt\(0\)", line))
            branched = branched or word.startswith(("s_cbranch", "s_branch"))
            if word.startswith(("s_", "v_")) and operands and not re.match(
                    r"s_cmp|s_bitcmp|s_and_b32 (s\d+), \1, -4$", line):
                written |= scalars(operands[0])
        return [line for base, line in late if min(scalars(base))[1] < 16]

    def left_behind(self):
        """Stores, a barrier, and a release that may not have them, on any way. A state: this wave
        has stores under way; others may have some from before a barrier; this wave, and so the
        others, has waited since that barrier."""
        seen, todo = set(), [(0, (False, False, False))]
        found = set()
        while todo:
            at, state = todo.pop()
            if at >= len(self.rows) or (at, state) in seen:
                continue
            seen.add((at, state))
            own, others, waited = state
            word, operands, line = self.rows[at]
            if WRITES.match(word) and word[:2] != "ds":
                own = True
            elif DRAINED.match(line):
                own, waited = False, True
            elif word == "s_barrier":
                others, waited = own or (others and not waited), False
            elif line == "buffer_wbl2 sc1" and others:
                found.add(at)
            if word == "s_endpgm":
                continue
            if word.startswith(("s_branch", "s_cbranch")):
                todo.append((self.labels[operands[0]], (own, others, waited)))
            if word != "s_branch":
                todo.append((at + 1, (own, others, waited)))
        for at in sorted(found):
            yield f"{self.rows[at][2]}, the {at}. instruction"


def costs(arch, name, facts): # name: the object's and the kernel's
    """A kernel's costs beyond its limits."""
    for field, what in COSTS.items():
        most = max((m for row, where, cost, m, _ in LEFT if cost == field and re.match(where, arch)
                    and re.search(row, name)), default=0)
        if int(facts.get(field, 0)) > most:
            yield f"{facts[field]} {what}, not {most}"


def moves(where, name):
    """The library's kernels, not products with a program's own last step, nor loops of tests and
    examples."""
    return LIBRARY.match(name) and Path(where).stem in ("kernels", "coll", "reduce", "matmul")


def look(arch, where, functions, facts, ours, ring=False):
    """Prints what is wrong; how many instructions were looked at, and how many places are bad.
    ours: names of kernels that must cost nothing."""
    count = bad = 0
    for name, lines in functions:
        code = Code(lines)
        count += len(code.rows)
        for what, places in (("data of a wide store is overwritten", code.overwritten(arch)),
                             ("a write-back of the L2 is not waited for", code.unfinished()),
                             ("other waves' stores may be under way at a release",
                              () if ring else code.left_behind()),
                             ("another PE's memory is read from a cache", code.cached(arch)
                              if FROM_PEER.search(name) else ()),
                             ("stores of elements are missing", code.too_few(arch)
                              if SMALL_WIRE.search(name) else ()),
                             ("a store waits for another of its round", flight.waits(code)
                              if moves(where, name) else ()),
                             ("too little is on the way",
                              flight.too_little(arch, name + " with ring" * ring, code)
                              if moves(where, name) else ()),
                             ("an argument is late", code.late_arguments()
                              if LIBRARY.match(name) else ()),
                             ("a call", [row for row in lines if row.startswith("s_swappc")]),
                             ("a flat access", [row for row in lines if row.startswith("flat_")]
                              if ours(name) else ()),
                             ("registers",
                              costs(arch, f"{where}{' with ring' * ring}: {name}", facts[name])
                              if ours(name) and name in facts else ())):
            places = list(places)
            bad += len(places)
            if places:
                print(f"{where}, {arch}: {name}: {what}, {len(places)} times: {places[0]}")
    return count, bad


def code_objects(data):
    """(arch, ELF file) of each code object in an object of the host."""
    at = data.find(MAGIC)
    while at >= 0:
        word = lambda i: int.from_bytes(data[i:i + 8], "little")  # noqa: E731
        here, count = at + 32, word(at + 24)
        for _ in range(count):
            offset, size, length = word(here), word(here + 8), word(here + 16)
            target = data[here + 24:here + 24 + length].decode()
            here += 24 + length
            if "amdgcn" in target and size:
                elf = data[at + offset:at + offset + size]
                if elf[:4] != b"\x7fELF" or int.from_bytes(elf[18:20], "little") != MACHINE:
                    sys.exit(f"not a code object: {target}")
                yield target.split("--")[-1].split(":")[0], elf
        at = data.find(MAGIC, at + 1)


def disassembler():
    names = ["/opt/rocm/llvm/bin/llvm-objdump"] + [f"llvm-objdump-{n}" for n in range(25, 14, -1)]
    return next((name for name in names if shutil.which(name)), None)


def of_object(tool, elf):
    text = subprocess.run([tool, "-d", "--no-show-raw-insn", elf], capture_output=True, text=True,
                          check=True).stdout
    for m in re.finditer(r"^[0-9a-f]+ <(\S+)>:\n(.*?)(?=^$|\Z)", text, re.S | re.M):
        rows, targets = [], set()
        for row in m[2].splitlines():
            line, _, comment = row.partition("//")
            line, place = re.sub(r"\s+", " ",
                                 line.strip()), int((re.match(r"\s*([0-9A-F]+)", comment)
                                                     or ["", "0"])[1], 16)
            if re.match(r"s_c?branch", line):
                to = re.search(r"<\S+\+0x([0-9a-f]+)>", comment)
                rows.append((place, line.split(" ")[0], int(to[1], 16) if to else 0))
            elif line:
                rows.append((place, line, None))
        base = rows[0][0] if rows else 0
        targets = {base + to for _, _, to in rows if to is not None}
        lines = []
        for place, line, to in rows:
            if place in targets:
                lines.append(f"L{place:x}:")
            lines.append(line if to is None else f"{line} L{base + to:x}")
        yield m[1], lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", action="store_true")
    parser.add_argument("--ring", action="store_true")
    parser.add_argument("-I", action="append", default=[], dest="folders")
    parser.add_argument("what", nargs="+")
    args = parser.parse_intermixed_args()
    done, bad = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        if args.objects:
            tool = disassembler()
            if not tool:
                sys.exit("no llvm-objdump here")
            for path in args.what:
                for arch, data in code_objects(Path(path).read_bytes()):
                    elf = Path(folder) / "code.elf"
                    elf.write_bytes(data)
                    notes = subprocess.run([tool.replace("objdump", "readelf"), "--notes", elf],
                                           capture_output=True, text=True,
                                           check=True).stdout
                    count, places = look(arch, path, of_object(tool, elf), isa.facts_of(notes),
                                         LIBRARY.match)
                    done[arch], bad = done.get(arch, 0) + count, bad + places
        else:
            arch, *sources = args.what
            for source in sources:
                _, text = isa.assembly(arch, ["-I" + os.path.abspath(f) for f in args.folders],
                                       folder, source, one_node=not args.ring)
                facts = {name: some for name, (_, some) in isa.kernels(text).items()}
                ours = LIBRARY.match if Path(source).name == "kernels.hip" and HERE in Path(
                    source).resolve().parents else lambda _: True
                count, places = look(arch, Path(source).name, flight.of_assembly(text), facts, ours,
                                     args.ring)
                done[arch], bad = done.get(arch, 0) + count, bad + places
    print(", ".join(f"{arch}: {count} instructions" for arch,
                    count in done.items()) + f", {bad} bad places")
    sys.exit(bad != 0 or not done)


if __name__ == "__main__":
    main()
