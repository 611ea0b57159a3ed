#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Generates the names of other libraries. Usage: gen_compat.py WHAT shmem.def compat.def > file

WHAT is one of
  names:LIBRARY  the definitions that the headers of include/compat/ include:
                 - a macro for a name of another library with the meaning and the arguments of one
                   of ours
                 - a function where a wave or workgroup passes a context
                 - for a refused name a function: a call of it does not compile, and the message
                   says why
  table:LIBRARY  a row for each line of compat.def, with tabs: name, forms, counterpart here, the
                 number of names, the number of kept names
"""
import re
import sys

import gen

FORMS = re.compile(r"([hdwbsocC]+)\s+(\w+)(?:\s+\[(\w+)\])?(?:\s+([=+~!])(?:\s+(.*))?)?")
# Types that this library moves but does not name, except in sums of kernels and streams.
SIXTEEN_BITS = {"half", "bfloat16"}
MOVES = {"rma", "strided", "signal", "coll"}


class Ours:
    """The names that this library has, in each form."""

    def __init__(self, path):
        types, lines = gen.parse(path)
        self.types = {t.name: t.ctype for t in types}
        # Extensions of kernels and streams that the host lacks are lines as well.
        self.plain = {f.name: f for line in lines for f in line.functions(types, extended=True)}
        self.host = {f.name for f in gen.functions(types, lines)}
        self.device = {f.name for f in gen.device_functions(types, lines)}
        self.scoped = {f.name for f in gen.device_functions(types, lines)
                       if f.line.tags["dev"] == "scope" and not f.ctx}
        self.stream = {f.name for f in gen.stream_functions(types, lines)}

    def name(self, plain, form):
        """The name of a routine in a form, or None where there is no such form."""
        if form == "h":
            return plain if plain in self.host else None
        if form == "d":
            return plain if plain in self.device else None
        if form == "s":
            name = re.sub("_nbi$", "", gen.extension(plain)) + "_on_stream"
            return name if name in self.stream else None
        scope = "wave" if form == "w" else "wg"
        return f"{gen.extension(plain)}_{scope}" if plain in self.scoped else None


class Name:
    """A name of the other library. by: our name, or None. function: our function, where theirs has
    to be a function, too. written: with_context, with_team or of_bits, which spells that one."""

    def __init__(self, theirs, form, by, function=None, written=None):
        self.theirs, self.form, self.by = theirs, form, by
        self.function, self.written = function, written


class Row:
    def __init__(self, library, where, forms, name, types, how, text):
        self.library, self.where, self.forms, self.name = library, where, forms, name
        self.types, self.how, self.text = types, how, text or ""
        self.ours = self.text if how == "=" else re.sub(f"^{library}x?_", "shmem_", name)

    def cases(self):
        if "TYPENAME" in self.name:
            return self.types
        return ["8", "16", "32", "64", "128"] if "SIZE" in self.name else [None]

    def spelled(self, form, ctx, case=None):
        """The name in the other library."""
        name = gen.subst(self.name, case, None) if case else self.name
        if ctx:
            name = name.replace(f"{self.library}_", f"{self.library}_ctx_", 1)
        if form == "o":
            return re.sub("_(alltoall|broadcast|fcollect|reduce|barrier_all|sync_all|team_sync)$",
                          r"_wg_\1", name)
        suffix = {"w": "_warp" if self.library == "nvshmem" else "_wave", "s": "_on_stream",
                  "b": "_block" if self.library == "nvshmem" else "_wg"}.get(form, "")
        if suffix and self.library == "nvshmem":
            name = re.sub("^nvshmem_", "nvshmemx_", name)
        return name + suffix

    def names(self, ours):
        contexts = [True] if "C" in self.forms else [False, True] if "c" in self.forms else [False]
        for form in self.forms.strip("cC"):
            for ctx in contexts if form in "dwbo" else contexts[:1]:
                for case in self.cases():
                    yield self.one(ours, form, ctx, case)

    def one(self, ours, form, ctx, case):
        theirs = self.spelled(form, ctx, case)
        if self.how in ("+", "~", "!"):
            return Name(theirs, form, theirs if self.how != "!" else None)
        if "::" in self.ours:
            scope = {"w": "Wave", "b": "Workgroup"}[form]
            size = (int(case) // 8 if "SIZE" in self.name else 2 if case in SIXTEEN_BITS
                    else f"sizeof({ours.types[case]})")
            return Name(theirs, form, f"{self.ours}<shmem::{scope}, {size}>")
        plain = gen.subst(self.ours, case, None) if case else self.ours
        by = ours.name(plain, form) or ours.name(gen.extension(plain), form)
        if not by and case in SIXTEEN_BITS:
            plain = gen.subst(self.ours, "uint16", None)
            f = ours.plain.get(plain)
            if f and f.line.group in MOVES:
                return Name(theirs, form, ours.name(plain, form), f, of_bits)
        if ctx and by and form == "d" and plain.replace("shmem_", "shmem_ctx_", 1) in ours.device:
            return Name(theirs, form, plain.replace("shmem_", "shmem_ctx_", 1))
        if by is None and not case:
            sys.exit(f"{self.where}: there is no {plain} in form {form}")
        if by and ctx:
            return Name(theirs, form, by, ours.plain[plain], with_context)
        f = ours.plain.get(plain) or ours.plain.get(gen.extension(plain))
        if by and self.library == "nvshmem" and any(p.startswith("shmem_team_t ")
                                                    for p in f.params):
            return Name(theirs, form, by, f, with_team)
        return Name(theirs, form, by)


def parse(path, wanted):
    library, source, types, rows = None, {}, {}, []
    for number, text in enumerate(open(path), 1):
        where, text = f"{path}:{number}", text.split("#")[0].strip()
        if not text:
            continue
        if m := re.fullmatch(r"library (\w+) : (.*)", text):
            library, source[m[1]], types = m[1], m[2], {}
        elif m := re.fullmatch(r"types (\w+) (.*)", text):
            types[m[1]] = m[2].split()
        elif (m := FORMS.fullmatch(text)) and (m[3] in types if m[3] else "TYPENAME" not in m[2]):
            rows.append(Row(library, where, m[1], m[2], types.get(m[3]), m[4], m[5]))
        else:
            sys.exit(f"{where}: neither a library, types, nor a name: {text}")
    return source[wanted], [row for row in rows if row.library == wanted]


NO_TYPE = "it is not there for this type"


def names(ours, rows):
    # The host's name and the one of a kernel's thread are one, and kept if either is. A compiler
    # that knows no kernels does not get their functions: even in a template it looks up the
    # functions that they call.
    best, kernels = {}, []
    for row in rows:
        for name in row.names(ours):
            if name.theirs not in best or name.by and not best[name.theirs][0].by:
                best[name.theirs] = name, row
    for name, row in best.values():
        if row.how in ("+", "~"):
            continue                            # include/compat/ has the definition
        if not name.by:
            yield f'SHMEM_REFUSED_({name.theirs}, "{row.text if row.how == "!" else NO_TYPE}")'
        elif name.function:
            text = name.written(name, ours)
            if name.by in ours.host or name.form == "s":
                yield text
            else:
                kernels.append(text)
        else:
            yield f"#define {name.theirs} {name.by}"
            if row.library == "rocshmem" and name.form in "hs":
                yield f"using ::{name.by};"
    yield from ["#if SHMEM_KERNELS_", *kernels, "#endif"]


def with_context(name, _):
    """A cooperative form with a context. The PE is numbered in the world. A collective has a team,
    on the host and on a stream as well."""
    f = name.function
    args = ["shmem::device::world_pe(ctx, pe)" if a == "pe" else a for a in f.args()]
    params = ["shmem_ctx_t ctx" if "pe" in f.args() else "shmem_ctx_t", *f.params]
    if name.form == "s":
        params, args = [*params, "shmemx_stream_t stream"], [*args, "stream"]
    side = "inline" if name.form in "hs" else "SHMEM_D_"
    return (f"template <int = 0> {side} {f.result} {name.theirs}({', '.join(params)}) "
            f"{{ {f.calls(name.by, args)} }}")


def team(param):
    """A team of NVSHMEM's is a number: the parameter there, and the argument for our function."""
    if param.startswith("shmem_team_t "):
        return "nvshmem_team_t " + gen.arg(param), f"shmem_compat::team_of({gen.arg(param)})"
    return param, gen.arg(param)


def with_team(name, ours):
    """The definition of a function with numbers for teams."""
    params = name.function.params + (["shmemx_stream_t stream"] if name.form == "s" else [])
    pairs = [team(p) for p in params]
    side = ("inline" if name.form == "s" else "SHMEM_HD_ inline" if name.by in ours.host
            else "SHMEM_D_")
    return (f"template <int = 0> {side} auto {name.theirs}({', '.join(p for p, _ in pairs)}) "
            f"{{ return {name.by}({', '.join(a for _, a in pairs)}); }}")


def of_bits(name, _):
    """The definition of a function for any type of 16 bits."""
    f, params, args = name.function, [], []
    for p in f.params + (["shmemx_stream_t stream"] if name.form == "s" else []):
        p, arg = team(p)
        bits = "uint16_t" in p
        pointer = re.match("(const )?uint16_t [*]", p)
        args.append(f"reinterpret_cast<{pointer[0]}>({arg})" if pointer
                    else f"shmem_compat::bits({arg})" if bits else arg)
        params.append(re.sub(r"\buint16_t\b", "T", p))
    returns = f.result == "uint16_t"
    call = f"{name.by}({', '.join(args)})"
    call = f"shmem_compat::value<T>({call})" if returns else call
    result = "T" if returns else "void" if name.form == "s" and f.result != "int" else f.result
    side = "SHMEM_D_" if name.form in "wb" else "inline" if name.form == "s" else "SHMEM_HD_ inline"
    return (f"template <class T> {side} {result} {name.theirs}({', '.join(params)}) "
            f"{{ {'' if result == 'void' else 'return '}{call}; }}")


WORDS = {"h": "host", "d": "thread", "w": {"nvshmem": "warp", "rocshmem": "wave"},
         "b": {"nvshmem": "block", "rocshmem": "workgroup"}, "s": "stream",
         "o": "workgroup",
         "c": "with or without a context", "C": "with a context"}


def table(ours, rows):
    """(name, forms, counterpart here) for each row, and the numbers of all names and kept names."""
    for row in rows:
        found = {}
        for name in row.names(ours):
            found[name.theirs] = found.get(name.theirs) or name.by
        kept = sum(by is not None for by in found.values())
        if row.how == "!":
            what = "refused: " + row.text
        elif row.how in ("+", "~"):
            what = ("differs: " if row.how == "~" else "kept, " if row.text else "kept") + row.text
        elif row.how == "=" and "::" not in row.ours:
            what = "kept, as {" + row.ours + "}"
        else:
            what = "kept"
        forms = row.forms.strip("cC")
        lost = {case: [form for form in forms if not row.one(ours, form, False, case).by]
                for case in row.cases()} if row.how != "!" else {}
        if gone := [case for case, of in lost.items() if of == list(forms)]:
            what += "; refused for " + " and ".join(gone)
        if part := [case for case, of in lost.items() if of == ["h"] != list(forms)]:
            what += "; not on the host for " + " and ".join(part)
        words = [w if isinstance(w := WORDS[form], str) else w[row.library] for form in row.forms]
        yield row.spelled("o" if "o" in forms else "d",
                          "C" in row.forms), ", ".join(words), what, len(found), kept


def main():
    what, shmem, compat = sys.argv[1:]
    what, _, library = what.partition(":")
    source, rows = parse(compat, library)
    ours = Ours(shmem)
    if what == "table":
        for line in table(ours, rows):
            print(*line, sep="\t")
        return
    print(
        "/* SPDX-License-Identifier: MIT\n * Generated by tools/gen_compat.py from "
        "include/compat.def"
          " and include/shmem.def. Do not edit. */")
    print("\n".join(names(ours, rows)))


if __name__ == "__main__":
    main()
