#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the header tests from the facts of the specification. Usage: gen_headers.py WHAT facts.tsv
[HEADER] > file

prototypes | pshmem     C: the type of every function, name by name
stubs                   C: every function as a stub that notes its name and its arguments
generics                C11: every overload of every generic, called on the stubs
overloads               C++: the same for the overloads
stream_stubs, stream_generics, stream_overloads
                        the same three of the forms for streams and the host's extensions, whose
                        prototypes HEADER has
names                   the names of all functions, a line each"""
import re
import sys


class Facts:
    def __init__(self, path):
        self.types, self.lists, self.functions, self.generics, self.linked = {}, {
            "-": ["-"]}, [], [], []
        patterns = []
        for text in open(path):
            row = text.rstrip("\n").split("\t")
            if row[0] == "type":
                self.types[row[1]] = row[2]
            elif row[0] == "list":
                self.lists[row[1]] = row[2].split()
            elif row[0] == "function":
                patterns.append(row[1:])
            elif row[0] == "linked":
                self.linked.append((row[1], row[2]))
            elif row[0] == "generic":
                self.generics.append((row[1], [p.strip() for p in row[2].split(";") if p.strip()],
                                      row[3]))
        for name, prototype, words in patterns:
            for word in self.lists[words]:
                self.functions.append((self.fill(name, word), self.fill(prototype, word)))

    def fill(self, text, word):
        text = text.replace("TYPENAME", word).replace("SIZE", word) if word != "-" else text
        return re.sub(r"\bTYPE\b", self.types[word], text) if word in self.types else text

    def same(self, word, words):
        """The type names of words that are the same C type here (LP64) as word."""
        base = {"int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long",
                "uint8_t": "unsigned char",
                "uint16_t": "unsigned short", "uint32_t": "unsigned int",
                "uint64_t": "unsigned long",
                "size_t": "unsigned long", "ptrdiff_t": "long"}
        real = lambda w: base.get(self.types[w], self.types[w])
        return [w for w in words if real(w) == real(word)]


def split(prototype):
    """(result, name, [(type, parameter)])"""
    m = re.fullmatch(r"(.*?)(\w+)\((.*)\);?", prototype)
    params = [] if m[3] == "void" else [p.strip() for p in m[3].split(",")]
    return m[1].strip(), m[2], [(re.sub(r"\w+$", "", p).strip(), re.search(r"(\w+|\.\.\.)$", p)[1])
                                for p in params]


def prototypes(facts, prefix):
    yield f"#include <{'p' if prefix else ''}shmem.h>"
    yield ("#define SAME(name, ...) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), "
           "__typeof__(__VA_ARGS__)), #name)")
    # GCC has it in the type, Clang has not.
    yield (
        "void leaves(int) __attribute__((noreturn));\n#ifdef __clang__\n#define NORETURN void "
        "(*)(int)\n#else\n"
           "#define NORETURN __typeof__(&leaves)\n#endif")
    for name, prototype in facts.functions:
        result, _, params = split(prototype)
        types = ", ".join(t for t, _ in params) or "void"
        want = "NORETURN" if name == "shmem_global_exit" else f"{result} (*)({types})"
        yield f"SAME({prefix}{name}, {want});"
    yield f"_Static_assert({len(facts.functions)} == 1788, \"all functions\");"


def stubs(functions, header="shmem.h"):
    yield (f"#define SHMEM_NO_GENERICS\n#include <{header}>\n#include <stdlib.h>\n#include "
           "\"stubs.h\"")
    yield "const char *called; uintptr_t called_args[10]; int called_count;"
    for name, prototype in functions:
        result, _, params = split(prototype)
        body = [f'called = "{name}";', "called_count = 0;"]
        body += [f"called_args[called_count++] = (uintptr_t){p};" for t, p in params if p != "..."]
        if name == "shmem_global_exit":
            body.append("abort();")
        elif result != "void":
            body.append(f"return ({result})9;")
        yield f"{prototype.rstrip(';')} {{ {' '.join(body)} }}"


# The argument for a parameter of a generic; TYPE is the type under test.
def argument(ptype, name, k, cxx):
    if ptype == "TYPE *":
        return f"out{k}"                       # an array
    if ptype == "const TYPE *":
        return f"in{k}"                        # a const array
    if ptype == "TYPE":
        return str(20 + k)                     # an int that is converted
    return {"shmem_ctx_t": "SHMEM_CTX_DEFAULT", "shmem_team_t": "SHMEM_TEAM_WORLD",
            "const int *": "status", "size_t *": "indices", "const size_t *": "indices",
            "uint64_t *": "signal"}.get(ptype, str(20 + k))


def generics(facts, cxx):
    if cxx:
        yield "#include <complex>\n#include <type_traits>"
    yield "#include <shmem.h>\n#include \"stubs.h\"\n#define UNUSED __attribute__((unused))"
    yield "static const int status[4] = {0};\nstatic size_t indices[4];\nstatic uint64_t signal[4];"
    if cxx:
        yield ("#define RESULT(call, ...) static_assert(std::is_same<decltype(call), "
               "__VA_ARGS__>::value, #call)")
    else:
        yield (
            "#define RESULT(call, ...) "
            "_Static_assert(__builtin_types_compatible_p(__typeof__(call), "
               "__VA_ARGS__), #call)")
    tests = []
    for name, forms, words in facts.generics:
        lines, plain = [], name.removeprefix("shmem_")
        for form in forms:
            result, _, params = split(form)
            ctx = "ctx_" if params[0][0] == "shmem_ctx_t" else ""
            done = set()
            for word in facts.lists[words]:
                if word in done:
                    continue
                same = facts.same(word, facts.lists[words]) if word != "-" else []
                done.update(same)
                want = [f"shmem_{ctx}{w}_{plain}" for w in same] or [f"shmem_{ctx}{plain}"]
                if name == "shmem_sync":
                    want = ["shmem_team_sync"]
                if cxx and name == "shmem_wait_until" and "long" in same:
                    want.append("shmem_wait_until")
                ctype = facts.types.get(word, "int")
                if cxx and "Complex" in ctype:
                    ctype = f"std::complex<{ctype.split()[0]}>"
                args = [argument(t, p, k, cxx) for k, (t, p) in enumerate(params)]
                # once with arrays, once with pointers that are not const
                second = [re.sub(r"^in(\d)", r"&more\1[1]", re.sub(r"^out(\d)", r"&out\1[1]", a))
                          for a in args]
                # "old" generics of 1.3 have one routine for each type that they list
                decl = "".join(
                    f"static T out{k}[4] UNUSED, more{k}[4] UNUSED; static const T in{k}[4] UNUSED "
                    f"= {{}}; "
                               if cxx else
                               f"static T out{k}[4] UNUSED, more{k}[4] UNUSED; static const T "
                               f"in{k}[4] UNUSED; "
                               for k, (t, _) in enumerate(params) if "TYPE *" in t)
                lines.append(f"  {{ typedef {ctype} T UNUSED; {decl}")
                for a in (args, second):
                    call = f"{name}({', '.join(a)})"
                    res = re.sub(r"\bTYPE\b", "T", result)
                    lines.append(f"    RESULT({call}, {res}); (void){call};")
                    got = ", ".join(f"(uintptr_t)({x})" for x in a)
                    lines.append(
                        f'    expect("{"|".join(want)}", {len(a)}, (const uintptr_t[]){{{got}}});'
                        if not cxx else
                                 f'    {{ const uintptr_t v[] = {{{got}}}; '
                                 f'expect("{"|".join(want)}", {len(a)}, v); }}')
                lines.append("  }")
        if name in ("shmem_sync",):
            lines.append(
                "  { static long psync[8]; shmem_sync(1, 2, 3, psync); const uintptr_t v[] = {1, "
                "2, 3, (uintptr_t)psync};"
                         ' expect("shmem_sync", 4, v); }')
        if name == "shmem_wait_until":
            lines.append(
                "  { static long ivar; (shmem_wait_until)(&ivar, 2, 3); const uintptr_t v[] = "
                "{(uintptr_t)&ivar, 2, 3};"
                         ' expect("shmem_wait_until", 3, v); }')
        if name in ("shmem_signal_add", "shmem_signal_set"):
            lines.append(
                f"  {{ {name}(signal, 2, 3); const uintptr_t v[] = {{(uintptr_t)signal, 2, 3}};"
                         f' expect("{name}", 3, v); }}')
        yield f"static void test_{plain}(void **state) {{\n  (void)state;"
        yield from lines
        yield "}"
        tests.append(plain)
    yield from run_tests(tests)


def stream_functions(header):
    """(name, prototype) of each, from the generated header."""
    return [(m[1], m[0]) for m in re.finditer(r"^\w+ (shmemx_\w+)\(.*\);$",
                                              open(header).read(), re.M)]


def stream_generics(facts, header, cxx):
    """Each routine with a type in its name, called by the name without: that or one of the same
    C type is called."""
    if cxx:
        yield "#include <complex>"
    yield ("#include <shmemx.h>\n#include \"stubs.h\"\n#define UNUSED __attribute__((unused))\n"
           "static uint64_t signal[4];\nstatic size_t indices[4] UNUSED;")
    typed = {}
    for name, prototype in stream_functions(header):
        if (m := re.fullmatch(r"shmemx_([a-z0-9]+)_(\w+)", name)) and m[1] in facts.types:
            typed.setdefault(m[2], {})[m[1]] = prototype
    for plain, prototypes in typed.items():
        yield f"static void test_{plain}(void **state) {{\n  (void)state;"
        for word, prototype in prototypes.items():
            want = "|".join(f"shmemx_{w}_{plain}"
                            for w in facts.same(word, list(prototypes)))
            ctype = facts.types[word]
            spelled = rf"\b(?:{re.escape(ctype)}|shmem_{word}_)(?=$| \*)"
            params = [(re.sub(spelled, "TYPE", t), n) for t, n in split(prototype)[2]]
            if cxx and "Complex" in ctype:
                ctype = f"std::complex<{ctype.split()[0]}>"
            args = ["(shmemx_stream_t)64" if n == "stream" else argument(t, n, k, cxx) for k,
                    (t, n) in enumerate(params)]
            arrays = "".join(
                f"static T out{k}[4] UNUSED; static const T in{k}[4] UNUSED{' = {}' * cxx}; "
                             for k, (t, _) in enumerate(params) if "TYPE *" in t)
            got = ", ".join(f"(uintptr_t)({a})" for a in args)
            yield (
                f"  {{ typedef {ctype} T UNUSED; "
                f"{arrays}shmemx_{plain}({', '.join(args)}); "
                   f'const uintptr_t v[] = {{{got}}}; expect("{want}", {len(args)}, v); }}')
        yield "}"
    yield "static void test_sync(void **state) {\n  (void)state;"
    yield ("  shmemx_sync_on_stream(SHMEM_TEAM_WORLD, (shmemx_stream_t)64); const uintptr_t v[] = "
           "{(uintptr_t)SHMEM_TEAM_WORLD, 64};")
    yield '  expect("shmemx_team_sync_on_stream", 2, v);\n}'
    yield from run_tests([*typed, "sync"])


def run_tests(names):
    yield "int main(void) {\n  const struct CMUnitTest tests[] = {"
    for t in names:
        yield f"    {{\"{t}\", test_{t}, nullptr_, nullptr_, nullptr_}},"
    yield "  };\n  return cmocka_run_group_tests(tests, nullptr_, nullptr_);\n}"


def main():
    what, path, *header = sys.argv[1:]
    facts = Facts(path)
    print(
        "// SPDX-License-Identifier: MIT\n// Generated by test/headers/gen_headers.py. Do not edit."
        if what != "names" else "", end="\n" * (what != "names"))
    out = {"prototypes": lambda: prototypes(facts, ""), "pshmem": lambda: prototypes(facts, "p"),
           "stubs": lambda: stubs(facts.functions),
           "stream_stubs": lambda: stubs(stream_functions(*header), "shmemx.h"),
           "stream_generics": lambda: stream_generics(facts, *header, False),
           "stream_overloads": lambda: stream_generics(facts, *header, True),
           "generics": lambda: generics(facts, False), "overloads": lambda: generics(facts, True),
           "names": lambda: (n for n, _ in facts.functions)}
    print("\n".join(out[what]()))


if __name__ == "__main__":
    main()
