#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The generator: errors, counts by group as the specification has them, and some expansions word
by word."""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import gen  # noqa: E402

TABLE = ROOT / "include" / "shmem.def"
TYPES, LINES = gen.parse(TABLE)
FUNCTIONS = gen.functions(TYPES, LINES)
LINKED = [line.name for line in gen.parse(TABLE, linked=True)[1] if "link" in line.tags]


def run(what, table=TABLE, *more):
    return subprocess.run([sys.executable, ROOT / "tools" / "gen.py", what, table, *more],
                          capture_output=True, text=True)


class Parse(unittest.TestCase):
    def wrong(self, text, message):
        with tempfile.NamedTemporaryFile("w", suffix=".def") as f:
            f.write("# a comment\n\n" + text + "\n")
            f.flush()
            done = run("prototypes", f.name)
        self.assertNotEqual(done.returncode, 0, text)
        self.assertIn(message, done.stderr)

    def test_errors(self):
        self.wrong("typ int int : rma", ":3: neither a type nor a routine: typ int int : rma")
        self.wrong("[rma] void f(void)", ":3: neither a type nor a routine")  # no semicolon
        self.wrong("void f(void);", ":3: neither a type nor a routine")  # no group

    def test_usage(self):
        self.assertNotEqual(run("nonsense").returncode, 0)
        self.assertIn("Usage", run("nonsense").stderr)

    def test_comment(self):
        with tempfile.NamedTemporaryFile("w", suffix=".def") as f:
            f.write("type int int : one # of one class\n"
                    "[g one] void shmem_TYPENAME_f(TYPE *a); # why\n")
            f.flush()
            self.assertIn("void shmem_int_f(int *a);", run("prototypes", f.name).stdout)


class Counts(unittest.TestCase):
    def test_functions(self):
        self.assertEqual(len(FUNCTIONS), 1788)
        self.assertEqual(len({f.name for f in FUNCTIONS}), 1788)
        self.assertEqual(sum("dep" in f.line.tags for f in FUNCTIONS), 103)

    def test_linked(self):
        self.assertEqual(len(LINKED), 8)
        for what in "prototypes", "pshmem", "table":
            self.assertNotRegex(run(what).stdout, rf"\bp?({'|'.join(LINKED)})\(")

    def test_groups(self):
        got = collections.Counter(f.line.group for f in FUNCTIONS)
        # init with threads and profiling; rma with its nonblocking forms; amo with old and
        # nonblocking ones
        want = {"init": 5 + 2 + 1, "query": 10, "memory": 10, "team": 7 + 4 + 2, "rma": 216 + 120,
                "strided": 116 + 116,
                "amo": 288 + 30 + 170, "signal": 125, "wait": 169 + 10, "order": 6, "lock": 3,
                "coll": 128 + 12,
                "reduce": 142 + 44 + 52}
        # Signal_wait_until stands with the signals here
        want["signal"], want["wait"] = 125 + 1, 169 - 1 + 10
        self.assertEqual(dict(got), want)

    def test_types(self):
        count = lambda c: sum(c in t.classes for t in TYPES)
        self.assertEqual([count(c) for c in ("rma", "amo", "ext", "bit", "sum", "and", "aset")],
                         [24, 12, 14, 7, 26, 14, 9])

    def test_generics(self):
        names = gen.generic_lines(LINES)
        self.assertEqual(len(names), 75)
        choices = lambda c: len(gen.choices(TYPES, c))
        # types that are one type in C are one choice
        self.assertEqual([choices(c) for c in ("rma", "amo", "ext", "bit", "and", "sum")],
                         [14, 6, 8, 5, 9, 16])

    def test_exports(self):
        out = run("exports").stdout
        names = re.findall(r"\w+;", out)
        self.assertEqual(len(names), 3576 + 2 * len(LINKED))
        both = [f.name for f in FUNCTIONS] + LINKED
        self.assertEqual({n for name in both for n in (f"{name};", f"p{name};")}, set(names))
        self.assertIn("local: *;", out)


class Golden(unittest.TestCase):
    def lines(self, what, *more):
        done = run(what, TABLE, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_prototypes(self):
        out = self.lines("prototypes")
        for want in (
            "void shmem_longdouble_put(long double *dest, const long double *source, size_t "
            "nelems, int pe);",
                     "uint8_t shmem_ctx_uint8_g(shmem_ctx_t ctx, const uint8_t *source, int pe);",
                     "void shmem_ctx_put128_signal_nbi(shmem_ctx_t ctx, void *dest, const void "
                     "*source, size_t nelems, "
                     "uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);",
                     "void shmem_ctx_fence(shmem_ctx_t ctx);",
                     "int shmem_complexd_sum_reduce(shmem_team_t team, shmem_complexd_ *dest, "
                     "const shmem_complexd_ *source, "
                     "size_t nreduce);",
                     "SHMEM_NORETURN_ void shmem_global_exit(int status);",
                     "void *shmemalign(size_t alignment, size_t size);"):
            self.assertIn(want, out)
        self.assertIn("int p_my_pe(void);", self.lines("pshmem"))

    def test_generics(self):
        out = "\n".join(self.lines("generics"))
        self.assertIn(
            "#define shmem_inc_2(dest, pe) _Generic(*(dest), int: shmem_int_inc, long: "
            "shmem_long_inc, "
                      "long long: shmem_longlong_inc)(dest, pe)", out)
        self.assertIn("#define shmem_sync_1(team) (shmem_team_sync)(team)", out)
        self.assertIn("#define shmem_sync(...) SHMEM_PICK_(shmem_sync, __VA_ARGS__)(__VA_ARGS__)",
                      out)

    def test_api(self):
        out = self.lines("api:order", "order.hpp")
        self.assertIn('void pshmem_fence(void) { shmem::api::fence("shmem_fence", World{}); }', out)
        self.assertIn(
            'extern decltype(pshmem_fence) shmem_fence __attribute__((weak, '
            'alias("pshmem_fence")));', out)
        self.assertFalse([l for l in self.lines("api:init", "init.hpp") if "pcontrol" in l])

    def test_table(self):
        rows = [l.split("\t") for l in self.lines("table")]
        self.assertEqual(len(rows), 1788)
        self.assertIn(["shmem_int_fadd", "atomic_fetch_add", "amo", "int",
                       "int shmem_int_fadd(int *dest, int value, int pe);"], rows)


if __name__ == "__main__":
    unittest.main()
