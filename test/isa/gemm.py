#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The compilers' code of the tile engine's main loops: gemm.py ARCH [--update] -I FOLDER...

Of the loop over k it counts the clocks in which a SIMD's matrix unit works and the issue slots of
all other instructions, of four clocks each: the share of the first is what one wave could reach if
nothing ever waited. gemm.tsv has the last figures."""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import isa  # noqa: E402

TABLE = HERE / "gemm.tsv"
COLUMNS = ("mfma", "other", "share", "vgprs", "lds")
# Clocks, by AMD's instruction set guides: four for each pass.
CLOCKS = {"gfx90a": {"32x32x8": 64, "32x32x2": 64}, "gfx942": {"32x32x8": 32, "32x32x2": 64},
          "gfx950": {"32x32x16": 32, "32x32x64": 64, "32x32x2": 64}}
# Of a kernel: at most that many VGPRs (256: two waves a SIMD) and bytes of LDS, and at least that
# share of clocks in percent.
KERNELS = {
    "small_bf16": (256, 32768, 75),
    "large_bf16": (256, 65536, 75),
    "large_f16": (256, 65536, 75),
    "small_f32": (256, 32768, 75),
    "small_turned_b": (256, 32768, 75),
    "large_turned_b": (256, 65536, 75),
    "small_turned_a": (256, 32768, 75),
    "large_turned_a": (256, 65536, 75),
    "small_turned": (256, 32768, 75),
    "large_turned": (256, 65536, 75),
    "gather_bf16": (512, 32768, 0),
    "small_fp8": (512, 65536, 75),
    "large_fp8": (512, 131072, 75),
}
# gfx950's operands go straight to LDS, which has 160 KiB, in two stages; a wave a SIMD then fills
# it, and has all registers.
MOST = {"gfx950": {"small": (512, 65536), "large": (512, 131072)}}


def main_loop(code):
    """The shortest loop with matrix instructions in it, an instruction each."""
    lines = [row for row in (re.sub(r"\s*;.*|//.*", "", line).strip() for line in code.splitlines())
             if row and (row[0] not in ".;" or row.endswith(":"))]
    labels = {row[:-1]: i for i, row in enumerate(lines) if row.endswith(":")}
    loops = []
    for i, row in enumerate(lines):
        to = labels.get((re.match(r"s_c?branch\w* (\S+)", row) or [0, None])[1], i)
        if to < i and any("v_mfma" in inner for inner in lines[to:i]):
            loops.append([inner for inner in lines[to:i + 1] if not inner.endswith(":")])
    return min(loops, key=len)


def measure(arch, code, facts):
    loop = main_loop(code)
    mfma = [re.search(r"\d+x\d+x\d+", row)[0] for row in loop if row.startswith("v_mfma")]
    busy, other = sum(CLOCKS[arch][shape] for shape in mfma), len(loop) - len(mfma)
    return {"mfma": len(mfma), "other": other, "share": busy * 100 // (busy + 4 * other),
            "vgprs": int(facts["vgpr_count"]), "lds": int(facts["group_segment_fixed_size"])}


def errors_of(name, arch, got, facts, loop):
    vgprs, lds, share = KERNELS[name]
    vgprs, lds = MOST.get(arch, {}).get(name.split("_")[0], (vgprs, lds))
    errors = [f"{field} is {facts[field]}, not 0"
              for field in ("vgpr_spill_count", "private_segment_fixed_size") if int(facts[field])]
    # Scalars that the epilogue's many cases push into lanes of a vector register may stay there,
    # but not in this loop.
    errors += [f"a spilled scalar in the main loop: {row}"
               for row in loop if re.match(r"v_(read|write)lane", row)
               and not name.startswith("gather")]
    errors += [f"{got[what]} {what}, and {most} are there" for what,
               most in (("vgprs", vgprs), ("lds", lds)) if got[what] > most]
    if got["share"] < share:
        errors.append(f"matrix instructions have {got['share']}% of the clocks, not {share}%")
    # In the wide ones the loads of the next stage come before the work that hides them.
    first = {word: next(i for i, row in enumerate(loop) if row.startswith(word))
             for word in ("global_load", "v_mfma")}
    if not name.startswith("gather") and first["global_load"] > first["v_mfma"]:
        errors.append("a matrix instruction comes before the loads of the next stage")
    return errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("arch", choices=CLOCKS)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("-I", action="append", default=[], dest="folders")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        version, text = isa.assembly(args.arch, ["-I" + os.path.abspath(f) for f in args.folders],
                                     folder, HERE / "gemm.hip")
    bodies = {m[1]: m[0] for m in re.finditer(r"^(\w+):\s.*?^\.Lfunc_end", text, re.S | re.M)}
    table = isa.read_table(TABLE, COLUMNS)
    known, bad = any(key[1:] == (args.arch, version) for key in table), 0
    for name, (_, facts) in isa.kernels(text).items():
        got, key = measure(args.arch, bodies[name], facts), (name, args.arch, version)
        errors = errors_of(name, args.arch, got, facts, main_loop(bodies[name]))
        if args.update:
            table[key] = got
        elif known:
            errors += [f"{what} is {got[what]}, and gemm.tsv says {table[key][what]}"
                       for what in ("mfma", "other", "vgprs", "lds")
                       if got[what] > table[key][what]]
        bad += bool(errors)
        print(f"{args.arch} {version}: {name}: "
              + ", ".join(f"{what} {got[what]}" for what in COLUMNS))
        for error in errors:
            print(f"{args.arch} {version}: {name}: {error}")
    if args.update:
        isa.write_table(table, TABLE, COLUMNS, "gemm.py")
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
