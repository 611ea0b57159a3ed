#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the manual. Usage: gen_man.py ROOT VERSION OUTPUT PAGE.SECTION.in...

OUTPUT gets a folder for each section: man1, man3, man7. A page is text for man(7): `x` is a word
that a user types, <x> an argument, and {x} a name that other libraries have and this one lacks.
Text between .EX and .EE stays as it is. These lines are replaced:
  @SYNOPSIS x y...@   the prototypes and types of the routines that are called x and y without
                      shmem_, type and size (put, atomic_add), and of the functions x of shmemx.h
  @DEPRECATED@        the deprecated routines of the synopsis, with their successors
  @DEVICE@            the routines of the synopsis that kernels call, and their names there
  @PART x@            part x of man/parts.in
  @FILE path@         the file at path
  @VARIABLES@         the rows of lib/env.def
  @PAGES@             the pages of section 3 and their subjects
  @COMPAT x@          the rows of include/compat.def for library x
  @FIGURES x@         table x of man/figures.tsv, with machine, date and command
  @PLOT x@            row x of such a table as bars
  @PYTHON x@          the functions and classes of module x of lib/python, with their docstrings
  @DIFFERS x@         the table DIFFERS of that module
and anywhere @VERSION@, and @=ROW:COLUMN@ for a value of man/figures.tsv.
Each routine becomes an alias of the page whose synopsis names it. The other names in NAME become
aliases, too.
"""
import ast
import copy
import re
import shutil
import sys
import textwrap
from pathlib import Path

import gen
import gen_compat
import gen_figures


class Extra:
    """A function of shmemx.h."""

    def __init__(self, name, prototype, params):
        self.name, self.prototype = name, re.sub(r"\s+", " ", prototype)
        self.params = [gen.arg(p.strip()) for p in params.split(",") if p and p != "void"]


class Manual:
    """The names to describe, and the pages that describe them."""

    def __init__(self, root, sources):
        self.root = root
        self.types, self.lines = gen.parse(root / "include/shmem.def")
        text = (root / "include/shmemx.h").read_text()
        self.extras = [Extra(m[2], m[0], m[3])
                       for m in re.finditer(
                           r"^(?!SHMEMX_)\w[\w *]*?([ *])(shmemx_\w+)\(([^()]*)\);", text, re.M)]
        self.extras += [Extra(m[2], m[1] + ";", m[3])
                        for m in re.finditer(r"^SHMEMX_INLINE_ (.*?(shmemx_\w+)\(([^()]*)\)) \{",
                                             text, re.M)]
        text = (root / "man/parts.in").read_text()
        self.parts = dict(re.findall(r"^@@ ([\w-]+)\n(.*?)(?=^@@ |\Z)", text, re.M | re.S))
        self.figures = gen_figures.parse(root)
        self.sources = {Path(s).name[:-3]: Path(s).read_text() for s in sources}
        self.pages = {name: Page(self, name, source) for name, source in self.sources.items()}

    def missing(self):
        """Names that no page describes: (name, group)."""
        covered = {id(x) for page in self.pages.values() for x in page.lines + page.extras}
        yield from ((line.name, line.group) for line in self.lines if id(line) not in covered)
        yield from ((x.name, "extensions") for x in self.extras if id(x) not in covered)

    def aliases(self):
        """Alias -> page, each with its section."""
        found = {}
        for page in self.pages.values():
            section = page.name.rpartition(".")[2]
            for name in page.names():
                alias = f"{name}.{section}"
                if alias != page.name and found.setdefault(alias, page.name) != page.name:
                    sys.exit(f"man: both {found[alias]} and {page.name} describe {name}")
        return {alias: page for alias, page in found.items() if alias not in self.pages}


def compat(root, library):
    """The source of the names, the number of kept names, and a row for each line of the table."""
    source, rows = gen_compat.parse(root / "include/compat.def", library)
    found = list(gen_compat.table(gen_compat.Ours(root / "include/shmem.def"), rows))
    names, kept = sum(row[3] for row in found), sum(row[4] for row in found)
    yield f"Of {names} names {kept} are there."
    yield f"The list is from {source}."
    # A cell that is wider than its column may break; so may a table at the end of a printed page.
    shown = lambda name: f"{{{name}}}" if len(name) <= 32 else "\\fB" + name.replace(
        "_", "_\\:") + "\\fP"
    for begin in range(0, len(found), 20):
        yield from (".PP", ".TS", "lw(32n) lw(34n).")
        for name, forms, what, _, _ in found[begin:begin + 20]:
            yield f"{shown(name)}\t{forms}: " + re.sub(r"\{(\w+)\}", lambda m: shown(m[1]), what)
        yield ".TE"


def scope_names(f):
    return [re.sub("^shmem_", "shmemx_", f.name) + suffix for suffix in ("_wave", "_wg")]


class Page:
    def __init__(self, manual, name, source):
        self.manual, self.name, self.source = manual, name, source
        tokens = " ".join(re.findall(r"^@SYNOPSIS (.*)@$", source, re.M)).split()
        self.lines = [line for line in manual.lines if line.plain in tokens]
        self.extras = [x for x in manual.extras if x.name in tokens]
        known = {line.plain for line in self.lines} | {x.name for x in self.extras}
        self.unknown = [t for t in tokens if t not in known] # a fault, see test/man
        self.current = [line for line in self.lines if "dep" not in line.tags]
        self.old = [line for line in self.lines if "dep" in line.tags]
        self.generics = gen.generic_lines(self.lines)

    def head(self):
        """The names and the description in NAME."""
        names, _, text = re.search(r"^\.SH NAME\n(.*)$", self.source, re.M)[1].partition(" \\- ")
        return names.split(", "), text

    def names(self):
        names = self.head()[0] + [x.name for x in self.extras] + list(self.generics)
        names += [f.name for line in self.lines for f in line.functions(self.manual.types)]
        for f in self.on_device():
            names.append(f.name)
            if f.line.tags["dev"] == "scope" and not f.ctx:
                names += scope_names(f)
        names += [f.name for f in gen.stream_functions(self.manual.types, self.lines)]
        names += gen.stream_choices(self.manual.types, self.lines)
        return list(dict.fromkeys(names))

    def on_device(self):
        return gen.device_functions(self.manual.types, self.lines)

    def arguments(self):
        """Every argument of every prototype."""
        found = {gen.arg(p) for line in self.lines for p in line.params if p != "..."}
        if any("ctx" in line.tags for line in self.lines):
            found.add("ctx")
        return found | {p for x in self.extras for p in x.params}

    def text(self, version):
        out, example, table, source = [], False, False, self.source.split("\n")[:-1]
        while source:
            line = source.pop(0)
            m = re.fullmatch(r"@(\w+)(?: (.*))?@", line)
            if m and m[1] == "SYNOPSIS":
                out += self.synopsis(m[2].split())
            elif m and m[1] == "DEPRECATED":
                out += self.deprecated()
            elif m and m[1] == "DEVICE":
                out += self.device()
            elif m and m[1] == "PART":
                source[:0] = self.manual.parts[m[2]].split("\n")[:-1]
            elif m and m[1] == "FILE":
                out += example_of(self.manual.root / m[2])
            elif m and m[1] == "VARIABLES":
                out += variable_rows(self.manual.root)
            elif m and m[1] == "PAGES":
                out += pages(self.manual)
            elif m and m[1] == "COMPAT":
                source[:0] = compat(self.manual.root, m[2])
            elif m and m[1] == "FIGURES":
                out += figures(self.manual.figures[m[2]])
            elif m and m[1] == "PYTHON":
                out += python_names(self.manual.root, m[2])
            elif m and m[1] == "DIFFERS":
                out += differs(self.manual.root, m[2])
            elif m and m[1] == "PLOT":
                out += plot(self.manual.figures, m[2])
            else:
                example = line == ".EX" or example and line != ".EE"
                table = line == ".TS" or table and line != ".TE"
                line = line.replace("@VERSION@", version)
                figure = lambda m: roff(gen_figures.value(self.manual.figures, m[1]))
                line = re.sub(r"@=([\w.-]+:\d)@", figure, line)
                if table and "\t" in line:
                    line = row(line)
                out += code(line) if example and line != ".EX" else [marks(line)]
        text = "\n".join(out) + "\n"
        text = re.sub(r"^(\.TH .*)$", r"\1\n.ad l", text, count=1, flags=re.M)
        return re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", text, flags=re.M)

    def synopsis(self, tokens):
        lines = [line for line in self.current if line.plain in tokens]
        extras = [x for x in self.extras if x.name in tokens]
        header = "shmem.h"
        if any(x.name.startswith("shmemx_") for x in lines + extras):
            header = "shmemx.h"
        yield ".nf"
        yield rf"\fB#include <{header}>\fP"
        yield ""
        for line in lines:
            yield prototype(spelled(line))
        for x in extras:
            yield prototype(x.prototype)
        yield ".fi"
        with_ctx = [line.name.replace("shmem_", "shmem_ctx_", 1) for line in lines
                    if "ctx" in line.tags]
        if with_ctx:
            yield ".PP"
            yield sentence("With \\fBshmem_ctx_t\\fP \\fIctx\\fP before the other arguments",
                           with_ctx)
        generics = {n: [x for x in group if x in lines] for n, group in self.generics.items()}
        if names := [n for n, group in generics.items() if group]:
            yield ".PP"
            how = "by the type of the pointer" if any(x.tclass for n in names
                                                      for x in generics[n]) else "by the arguments"
            yield sentence(f"In C11 and C++, {how}", names)
        classes = {}
        for line in lines:
            if line.tclass:
                classes.setdefault(line.tclass, []).append(line.name)
        for tclass, names in classes.items():
            types = [t.name if t.name == t.ctype else f"{t.name} ({t.ctype})"
                     for t in self.manual.types if tclass in t.classes]
            yield ".PP"
            yield "TYPENAME (and TYPE, where it is spelled otherwise)" + (
                " of" if len(classes) > 1 else " is one of")
            if len(classes) > 1:
                yield listing(names) + " is one of"
            yield textwrap.fill(", ".join(types) + ".", 98)
        if sizes := {line.tags["SIZE"] for line in lines if "SIZE" in line.tags}:
            yield ".PP"
            yield (f"SIZE is {sizes.pop().replace(',', ', ')}: the bits of an element. Elements of "
                   "the mem form are bytes.")

    def deprecated(self):
        groups, types = {}, {}
        for line in self.old:
            now = [x.name for x in self.current if x.plain == line.tags.get("as")]
            groups.setdefault((line.tags["dep"], now[0] if now else ""), []).append(line)
            if line.tclass:
                names = ", ".join(t.name for t in self.manual.types if line.tclass in t.classes)
                types.setdefault(names, []).append(line.name)
        for (since, now), lines in groups.items():
            yield ".PP"
            yield f"Since {since}" + (f", in favour of {bold(now)}:" if now else ":")
            yield ".PP\n.nf"
            yield from (prototype(spelled(line)) for line in lines)
            yield ".fi"
        for names, of in types.items():
            yield ".PP"
            yield "TYPENAME of"
            yield listing(dict.fromkeys(of))
            yield f"is one of {names}."

    def device(self):
        if self.extras and not self.lines:
            return
        dev = [line for line in self.current if "dev" in line.tags]
        if not dev:
            yield "Kernels cannot call these routines."
            return
        names = [line.name for line in dev]
        if all("dev" in line.tags for line in self.current):
            yield ("A thread of a kernel calls each of them as the host does, with the same "
                   "arguments.")
        else:
            yield sentence(
                "A thread of a kernel calls these as the host does, with the same arguments", names)
        if any(line.tclass and any(t.name in gen.NOT_ON_DEVICE and line.tclass in t.classes
                                   for t in self.manual.types)
               for line in dev):
            yield "There is no longdouble in kernels."
        scoped = [line for line in dev if line.tags["dev"] == "scope"]
        if scoped:
            for suffix, who in ("_wave", "wave"), ("_wg", "workgroup"):
                ours = [re.sub("^shmem_", "shmemx_", line.name) + suffix for line in scoped]
                yield sentence(f"By all threads of a {who}, with the same arguments", ours)
            if any("ctx" in line.tags for line in scoped):
                yield "The forms for a wave or a workgroup have no context."
        if any("fp" in line.tags for line in dev):
            yield ("These routines also have the types half and bfloat16, with void * for the "
                   "arrays.")
        if streams := [line for line in self.current if "stream" in line.tags]:
            names = dict.fromkeys(re.sub("^shmemx?_|_nbi$", "", line.name) for line in streams)
            yield ".PP"
            yield sentence(
                "The host queues these on a stream, with a last argument \\fBshmemx_stream_t\\fP "
                           "\\fIstream\\fP, see Streams in \\fBshmem_device\\fP(7)",
                           [f"shmemx_{name}_on_stream" for name in names])
            if short := gen.stream_choices(self.manual.types, self.lines):
                yield sentence("In C11 and C++ also", list(short))


def spelled(line):
    """The prototype of a line, with TYPENAME, TYPE and SIZE. A line that only streams have gets the
    prototype for streams."""
    space = "" if line.result.endswith("*") else " "
    name, params = line.name, line.params
    if "only" in line.tags and "dev" not in line.tags:
        name, params = name + "_on_stream", params + ["shmemx_stream_t stream"]
    return f"{line.result}{space}{name}({', '.join(params) or 'void'});"


def listing(names):
    return textwrap.fill(", ".join(map(bold, names)), 98, break_on_hyphens=False)


def sentence(words, names):
    return f"{words}:\n{listing(names)}."


def prototype(text):
    """A prototype in bold, its arguments in italics, broken for the terminal; for nf mode."""
    out = []
    for part in text.split("\n"):
        words = re.split(r"(?<=,) ", part)
        if len(words[0]) > 70:
            words[:1] = re.split(r"(?<=\() ?", words[0], maxsplit=1)
        line = ""
        for word in words:
            if line and len(line) + len(word) > 70:
                out.append(line.rstrip())
                line = "    "
            line += word + ("" if word.endswith("(") else " ")
        out.append(line.rstrip())
    text = "\n".join(out)
    text = re.sub(r"(\w+)(?=[,)])", r"\\fI\1\\fB", text)
    text = text.replace("(\\fIvoid\\fB)", "(void)").replace("-", "\\-")
    return "\n".join(f"\\fB{line}\\fP" for line in text.split("\n"))


def roff(text):
    """Text for roff: quotes stay plain, hyphens can be copied, and no line is taken for a
    request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def code(line):
    """A line of an example; one of the library's is broken for the terminal."""
    lines = textwrap.wrap(line, 76, subsequent_indent="    ") if line.startswith("shmem: ") else [
        line]
    return [roff(text) for text in lines]


def row(line):
    """A row of a table. Long cells become text that is filled."""
    return "\t".join(f"T{{\n{c}\nT}}" if re.search(r" |\\:", c) and len(c) > 20 else c
                     for c in line.split("\t"))


def bold(text):
    return "\\fB\\%" + text.replace("-", "\\-") + "\\fP"


def marks(text):
    text = re.sub(r"`([^`]+)`|\{([\w: .*()-]+)\}", lambda m: bold(m[1] or m[2]), text)
    return re.sub(r"<(\w+)>", r"\\fI\1\\fP", text)


def variables(root):
    """name, kind, default, aliases, help of each row."""
    row = r'VAR\((\w+), \w+, (\w+), "(.*?)", (?:0|"([\w ]+)"), "(.*)"\)'
    for m in re.finditer(row, (root / "lib/env.def").read_text()):
        name, kind, default, aliases, help = m.groups()
        yield name, kind, default.replace('\\"', '"'), (aliases or "").split(), help.replace(
            '\\"', '"')


def variable_rows(root):
    for name, kind, default, aliases, help in variables(root):
        yield ".TP"
        yield f".B SHMEM_{name}"
        yield roff(help[0].upper() + help[1:]) + "."
        if kind == "flag":
            yield "Any value counts, 0 too."
        elif default:
            yield f"Default: {roff(default)}."
        for alias in aliases:
            yield f"The older spelling\n.B {alias}\nworks too." if alias.startswith("SMA_") else \
                  f"So does\n.BR {alias} ,\nas other libraries call it."


def pages(manual):
    """The place in the order of the table; names that are not in the table come last."""
    order = {id(line): i for i, line in enumerate(manual.lines)}
    place = lambda page: min([order[id(line)] for line in page.lines] + [len(order)])
    for page in sorted((p for n, p in manual.pages.items() if n.endswith(".3")), key=place):
        yield ".TP"
        first, *names = page.head()[0]
        yield ", ".join([bold(first) + "(3)"] + [bold(n) for n in names])
        yield marks(page.head()[1])


def python_module(root, name):
    path = root / "lib/python" / name.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text())


def signature(f):
    """A signature for callers: without types, and without self."""
    f = copy.deepcopy(f)
    for a in f.args.posonlyargs + f.args.args + f.args.kwonlyargs + [f.args.vararg, f.args.kwarg]:
        if a:
            a.annotation = None
    f.args.args = [a for a in f.args.args if a.arg != "self"]
    return f"({ast.unparse(f.args)})"


def told(doc):
    """A docstring as roff: paragraphs are filled, indented blocks stay as they are."""
    for block in re.split(r"\n\s*\n", doc):
        lines = block.split("\n")
        if lines[0].startswith("    ") or any(re.match(r"\S+  +\S", line) for line in lines[1:]):
            yield from (".PP", ".EX", *(roff(line) for line in lines), ".EE")
        else:
            text = re.sub(r"`([^`]+)`", r"\\fB\1\\fP", roff(" ".join(lines)))
            yield from (".IP", *text.replace(". ", ".\n").split("\n"))


def exported(tree):
    """The strings of __all__."""
    return {s.value for node in tree.body if isinstance(node, ast.Assign)
            and getattr(node.targets[0], "id", "") == "__all__"
            for s in ast.walk(node.value) if isinstance(s, ast.Constant)}


def python_names(root, module):
    """Public functions, and classes with their methods. Of a module whose name begins with _ these
    are the names that the package hands on."""
    tree, package = python_module(root, module), python_module(root, module.rpartition(".")[0])
    names = exported(tree) | exported(package) if "._" in module else None
    for node in tree.body:
        named = getattr(node, "name", "_")
        if named.startswith("_") or not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or (
                names is not None and named not in names):
            continue
        methods = [f for f in getattr(node, "body", []) if isinstance(f, ast.FunctionDef)]
        shown = [(named, f) for f in methods if f.name == "__init__"]
        if isinstance(node, ast.FunctionDef):
            shown = [(named, node)]
        elif not shown:
            continue
        shown += [(f"{named}.{f.name}", f) for f in methods if isinstance(node, ast.ClassDef)
                  and (f.name == "__call__" or not f.name.startswith("_"))]
        for name, f in shown:
            doc = ast.get_docstring(f) or (f.name == "__init__" and ast.get_docstring(node)) or ""
            yield ".TP"
            yield f"\\fB{roff(name.replace('.__call__', ''))}\\fP{roff(signature(f))}"
            if doc:
                first, *rest = told(doc)
                yield from [x for x in [*([] if first == ".IP" else [first]), *rest]]


def differs(root, module):
    for node in python_module(root, module).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(target, "id", "") == "DIFFERS":
                rows = ast.literal_eval(node.value)
                rows = rows.items() if isinstance(rows, dict) else rows
                for name, text in rows:
                    yield from (".TP", "\\fB" + roff(name) + "\\fP", roff(text))


WIDTH = 70  # of a table or a plot


def figures(table):
    """A table with machine, date and command; second values of cells have lines of their own."""
    yield from (".PP", roff(f"{table.machine}; {table.date}:"), ".PP", ".EX")
    command = textwrap.wrap(table.command, WIDTH, break_on_hyphens=False)
    yield from roff(" \\\n  ".join(command)).split("\n")
    yield ".EE"
    head = [table.columns[0] or table.unit(), *table.columns[1:]]
    rows = []
    for what, *values in table.rows.values():
        pairs = [x.partition(" / ") for x in values]
        rows.append([what, *(ours for ours, _, _ in pairs)])
        if table.sides():
            rows.append([f"  {table.sides()[1]}", *(peer for _, _, peer in pairs)])
    longest = lambda texts: max(len(word) for text in texts for word in text.split() or [""])
    values = [max(len(row[n]) if n < len(row) else 0 for row in rows) for n in range(1, len(head))]
    what = max(len(row[0]) for row in rows)
    # A name that is wider than its values is broken if not all names fit.
    word = lambda name: longest([name])
    for gap, width in (2, len), (2, word), (1, word):
        widths = [max(width(name), most) for name, most in zip(head[1:], values)]
        first = min(max(what, longest(head[:1])), WIDTH - sum(widths) - gap * len(widths))
        if first >= min(what, 40):
            break
    form = [f"lw({first}n)", *(f"rw({w}n)" for w in widths)]
    yield from (".PP", ".TS", f"{gap} ".join(form) + ".")
    for row in [head, *rows]:
        row = row + [""] * (len(head) - len(row))
        cell = lambda text, width: roff(text) if len(text) <= width else f"T{{\n{roff(text)}\nT}}"
        left = re.sub("^  ", r"\\ \\ ", cell(row[0], first))
        yield "\t".join([left, *map(cell, row[1:], widths)])
    yield ".TE"
    for note in table.notes:
        yield from (".PP", roff(note))


def plot(tables, id):
    """Bars: for times one a column, the ratio; otherwise two a column, the values."""
    table, row, _ = gen_figures.found(tables, id)
    ours, theirs = table.sides()
    cells = [cell for cell in zip(table.columns[1:], row[1:]) if " / " in cell[1]]
    pairs = [(name, *map(float, cell.split(" / "))) for name, cell in cells]
    times = table.unit() in ("ns", "us", "ms")
    if times:
        bars = [(name, b / a) for name, a, b in pairs]
    else:
        both = lambda name, a, b: [(f"{name} {ours}", a), (f"{name} {theirs}", b)]
        bars = [bar for pair in pairs for bar in both(*pair)]
    label, most = max(len(name) for name, _ in bars), max(x for _, x in bars)
    what = f"{row[0]}: time of {theirs} / time of {ours}" if times else f"{row[0]}, {table.unit()}"
    yield from (".PP", ".EX", roff(what))
    for name, x in bars:
        shown = f"{x:.2f}" if times else f"{x:g}"
        yield roff(f"{name:>{label}} {shown:>5} {'#' * round(x / most * (WIDTH - label - 8))}")
    yield ".EE"


def example_of(path):
    text = path.read_text().rstrip("\n")
    text = re.sub(r"^(//|#) SPDX.*\n|^// With \d+ PEs: .*\n?", "", text, flags=re.M).rstrip("\n")
    yield ".EX"
    yield roff(text)
    yield ".EE"


def main():
    root, version, output, *sources = sys.argv[1:]
    manual = Manual(Path(root), sources)
    for name, group in manual.missing():
        print(f"man: warning: no page describes {name} (group {group})", file=sys.stderr)
    for page in manual.pages.values():
        if page.unknown:
            print(f"man: warning: man/{page.name}.in: there is no {page.unknown}", file=sys.stderr)
    files = {name: page.text(version) for name, page in manual.pages.items()}
    files |= {alias: f".so man{page.rpartition('.')[2]}/{page}\n" for alias,
              page in manual.aliases().items()}
    folders = {name: Path(output, "man" + name.rpartition(".")[2]) for name in files}
    for folder in set(folders.values()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for name, text in files.items():
        (folders[name] / name).write_text(text)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main()
