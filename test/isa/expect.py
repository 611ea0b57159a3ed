# SPDX-License-Identifier: MIT
"""The code to which kernels.hip must be compiled. By the AMDGPU guide of LLVM, "Memory Model
gfx90a" and "gfx942":

gfx942  sc0 sc1 is system scope. Release: buffer_wbl2 sc0 sc1 writes the L2 back, and a wait for it;
        acquire: buffer_inv sc0 sc1.
        Atomics say the scope with sc1; their sc0 asks for the old value.
gfx90a  A store goes through to where others look; a load passes by the L1 with glc. Release:
        buffer_wbl2 and a wait for it;
        acquire: buffer_invl2 and buffer_wbinvl1_vol. glc of an atomic asks for the old value.
"""
import re
from pathlib import Path

ARCHES = {"gfx90a": 0, "gfx942": 1, "gfx950": 1} # the column below
# The parts of these. The litmus tests of the GPU in software execute them, each alone and together,
# and must see forbidden results without them and not with them: run as a program, this writes their
# header.
PARTS = {
    # system scope         gfx90a                                      gfx942
    "LOAD_BITS": (" glc", " sc0 sc1"),
    "STORE_BITS": ("", " sc0 sc1"),
    "WRITE_BACK": ("buffer_wbl2", "buffer_wbl2 sc0 sc1"),
    "DRAIN": ("s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(0)"),
    "ACQUIRE": ("buffer_invl2\nbuffer_wbinvl1_vol", "buffer_inv sc0 sc1"),
}
LOAD, STORE, WRITE_BACK, DRAIN, ACQUIRE = [tuple(map(re.escape, both)) for both in PARTS.values()]
END = r"(?=( offset:-?\d+)? *$)" # nothing more: no glc, no slc
# Between the two only waits and loads of constants, and the last wait is for all stores
RELEASE = [f"{w}\n(s_(waitcnt|load_\\w+) .*\n)*?{d}" for w, d in zip(WRITE_BACK, DRAIN)]

WORDS = {
    # of the text        gfx90a                                      gfx942
    "store2": (r"global_store_short v\d+, v\d+, \S+" + END, r"global_store_short .*" + STORE[1]),
    "store8": (r"global_store_dwordx2 .*(off|\])" + END, r"global_store_dwordx2 .*" + STORE[1]),
    "store16": (r"(global_store_dwordx4 .*(off|\])|buffer_store_dwordx4 .* offen)" + END,
                r"(global|buffer)_store_dwordx4 .*off(en)?" + STORE[1]),
    "load8": (r"global_load_dwordx2 .*" + LOAD[0], r"global_load_dwordx2 .*" + LOAD[1]),
    "load16": (r"(global|buffer)_load_dwordx4 .*off(en)?" + LOAD[0],
               r"(global|buffer)_load_dwordx4 .*off(en)?" + LOAD[1]),
    "cached16": (r"global_load_dwordx4 .*(off|\])" + END, r"global_load_dwordx4 .*(off|\])" + END),
    "cached8": (r"global_load_dwordx2 .*(off|\])" + END, r"global_load_dwordx2 .*(off|\])" + END),
    "add": (r"global_atomic_add_x2 v\d+, v\[.*\]" + END, r"global_atomic_add_x2 v\d+, v\[.* sc1"),
    "fetch_add": (r"global_atomic_add_x2 v\[.* glc", r"global_atomic_add_x2 v\[.* sc0 sc1"),
    "swap": (r"global_atomic_swap v.* glc", r"global_atomic_swap v.* sc0 sc1"),
    "compare_swap": (r"global_atomic_cmpswap v.* glc", r"global_atomic_cmpswap v.* sc0 sc1"),
    "release": RELEASE,
    "acquire": ACQUIRE,
    "drain": DRAIN,
    "meet": (r"s_barrier", r"s_barrier"),
    "sleep": (r"s_sleep", r"s_sleep"),
}

# Kernel: what it has, in this order of the text, and at most how many VGPRs it takes (of 512; up to
# 64 a compute unit of gfx90a and gfx942 holds as many waves as it can).
KERNELS = {
    "p": ("store8", 16),
    "p_short": ("store2", 16),
    "g": ("load8", 16),
    "put": (8 * "cached16 " + 8 * "store16 " + "cached16 store16", 64),
    "putmem_wave": (8 * "cached16 " + 8 * "store16 " + "cached16 store16 drain", 64),
    "put_wg": ("meet " + 8 * "cached16 " + 8 * "store16 " + "cached16 store16 drain meet", 64),
    "put_nbi_wg": ("meet " + 8 * "cached16 " + 8 * "store16 " + "cached16 store16", 64),
    "get_wg": ("meet " + 8 * "load16 " + "load16 drain meet", 72),
    "put_signal_wg": ("meet " + 8 * "cached16 " + 8 * "store16 " + "drain meet release store8", 64),
    "signal_add": ("add", 16),
    "fence": ("store8 release store8", 16),
    "quiet": ("store8 release", 16),
    "wait_until": ("load8 sleep load8 drain acquire cached8", 32),
    "test": ("load8 drain acquire cached8", 16),
    "atomic_add": ("add", 16),
    "atomic_fetch_add": ("fetch_add", 16),
    "atomic_swap": ("swap", 16),
    "atomic_compare_swap": ("compare_swap", 16),
    "barrier_all": ("store8 drain release store8 load8 drain acquire", 32),
    "barrier_all_wg": ("store8 drain meet release store8 load8 drain acquire meet", 32),
    # Of a collective: loads of 16 bytes that are in flight together, stores of 16.
    "sum_reduce_wg": (4 * "cached16 " + "store16", 128),
    "fcollect_wg": (4 * "cached16 " + "store16", 96),
    "team_sync_wg": ("drain meet release store8 load8 drain acquire meet", 32),
}

# Nowhere: private memory, calls, accesses that do not know whether they mean global memory.
NEVER = {
    r"scratch_|buffer_(load|store)_\w+ .*(off,|s32)": "private memory",
    r"s_swappc|s_setpc|s_call": "a call",
    r"flat_(load|store|atomic)": "a flat access: it would ask the LDS, too",
    r"ds_(read|write|add)": "the LDS",
}
# Of the team's numbers, once a call; in collectives, of misaligned objects, too.
ALLOWED = {"team_sync_wg": {"flat_load"}, "sum_reduce_wg": {"flat_load", "flat_store"},
           "fcollect_wg": {"flat_load", "flat_store"}}
# The limits of kernels of the library and the examples: a part of "OBJECT: NAME", the GPU, the
# cost, how much at most, and why.
TUPLES = ("arguments and the workspace's numbers, loaded four and eight at a time and kept whole; "
          "in no inner loop")
CALLS = ("a wait, a put with signal of a workgroup and four of an element, which each look among "
         "buffers, all in a loop")
BY_LINES = r"(9broadcast|8fcollect|8alltoall)ILNS_19CollectiveAlgorithmE0E"
LEFT = (
    # By clang 21 until 2026-11-28, and not measured since; by clang 15 and 19 none
    (r"7kernels12_GLOBAL__N_1(6reduceI|" + BY_LINES + ")", "gfx90a|gfx950", "sgpr_spill_count", 15,
     TUPLES),
    (r"7kernels12_GLOBAL__N_110alltoall2dE", "gfx90a", "sgpr_spill_count", 1, TUPLES),
    # With ring, by clang 15
    (r" with ring: .*9alltoallvE", "gfx90a", "sgpr_spill_count", 1, TUPLES),
    # Loops over outputs and members beside that over rows
    (r"4rows10all_reduceI", "gfx9", "sgpr_spill_count", 6, TUPLES),
    (r" with ring: .*4rows10all_reduceI", "gfx9[45]", "sgpr_spill_count", 8, TUPLES),
    (r" with ring: .*4rows10all_reduceI", "gfx90a", "sgpr_spill_count", 11, TUPLES), # by lines
    # Of tokens: 21 and 14 by clang 15, none by clang 19
    (r"3moe12_GLOBAL__N_14sendI", "gfx90a", "sgpr_spill_count", 21, TUPLES),
    (r"4gemm6reduceI", "gfx9", "sgpr_spill_count", 19, TUPLES), # 19 by clang 17, 16 by the others
    (r"4gemm8multiplyI.*7NothingE", "gfx9", "sgpr_spill_count", 28,
     "what a trace says of each tile; by clang 21"),
    (r"trace/product.*4gemm10send_tilesI", "gfx9", "sgpr_spill_count", 6, "the same"),
    (r"4gemm8multiplyI", "gfx9", "sgpr_spill_count", 2, "by clang 21"),
    (r"4ring", "gfx9[45]", "sgpr_spill_count", 17, CALLS), # 17 by clang 21, 6 by clang 19
    (r"4ring", "gfx90a", "sgpr_spill_count", 21, CALLS), # 21 by clang 21, 18 by clang 15
)
# Of collectives, which have both algorithms in one kernel: write-backs (two meetings, and the end
# with a report), and SGPRs that are kept in lanes of a VGPR, not in memory.
MORE = {"sum_reduce_wg": (11, 8), "fcollect_wg": (11, 8)}

# Of gfx90a, which releases what it has stored in coarse-grained memory of another GPU, and acquires
# before it loads there.
KEEPS = {"p": 1, "p_short": 1, "g": 1, "put": 1, "putmem_wave": 1, "put_wg": 1, "get_wg": 1,
         "put_signal_wg": 1, "fence": 2, "quiet": 1,
         "barrier_all": 1, "barrier_all_wg": 1}

# The bytes that loops need on the way, by Little's law: the rate of a GPU's links times the time
# until one answers. test/amdgpu/clock.txt has both, with where they are from.
_rows = {words[0]: words[1:4]
         for words in map(
             str.split, (
                 Path(__file__).parent.parent / "amdgpu/clock.txt").read_text().splitlines())}
_columns = {gpu: {name: float(row[k]) for name, row in _rows.items() if name not in ("#", "name")}
            for k, gpu in enumerate(_rows["name"])}
# GB/s of a link one way, and how many a GPU has.
LINKS = {gpu: (rows["link_gbs"], int(rows["links"])) for gpu, rows in _columns.items()}
# Seconds.
ROUND_TRIP = {gpu: rows["loaded_ns"] * 1e-9 for gpu, rows in _columns.items()}
# A kernel, the lanes that share the work where it is least, the links that they fill, and by what.
FLIGHT = (
    (r"^put(|_nbi|_signal)_wg$", 1024, "one", "stores"),
    (r"^get_wg$", 1024, "one", "loads"),
    (r"^sum_reduce_wg$", 32768, "all", "loads"),
    (r"^fcollect_wg$", 32768, "all", "stores"),
    # On streams: 64 workgroups of 512 at least, where there is enough to do.
    (r"7kernels12_GLOBAL__N_1((9broadcast|8fcollect|8alltoall)ILNS_19CollectiveAlgorithmE1E|"
     r"7collectE|9alltoallsE)", 32768, "all", "stores"),
    (r"7kernels12_GLOBAL__N_1(4copy|8elements|6blocks)ILNS_6RemoteE0E", 32768, "all", "stores"),
    (r"7kernels12_GLOBAL__N_1(4copy|8elements|6blocks)ILNS_6RemoteE1E", 32768, "all", "loads"),
    (r"7kernels12_GLOBAL__N_16reduceILb0E", 32768, "all", "loads"),
    # Lines do not fill a link, but no load may wait for the stores to other members; with ring a
    # store is a choice.
    (r"7kernels12_GLOBAL__N_18fcollectILNS_19CollectiveAlgorithmE0EEEvNS0_4CallE$", 1024, "one",
     "stores"),
    # Products: a workgroup of 256 a compute unit, on a quarter of 104.
    (r"4gemm(8multiplyI.*|10send_tilesI|9send_rowsI)", 6656, "all", "stores"),
)

if __name__ == "__main__":
    print("// SPDX-License-Identifier: MIT. Written by expect.py.")
    # The host's pass takes any
    for at, condition in (1, "#if defined __gfx942__ || defined __gfx950__"), (0, "#else"):
        print(condition)
        for name, both in PARTS.items():
            print(f'#define {name} "' + both[at].replace("\n", "\\n\\t") + '"')
    print("#endif")
