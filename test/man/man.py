# SPDX-License-Identifier: MIT
"""Tests of the manual: man.py CASE, with SOURCE and BUILD in the environment.

lint       mandoc and man find nothing to complain of
names      every routine of the table has a page, every page tells all arguments and names only what
           there is
errors     each message that a page shows is one that the library can print
options    what a tool says of itself and what its page lists are the same
variables  shmem_env(7) has every variable
examples   the programs on the pages compile, run and print what they say; the commands run
figures    each table of man/figures.tsv is on one page, and README.md shows what the file says
readme     README.md is short, its programs run, and every file that the papers name is there"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE, BUILD = Path(os.environ["SOURCE"]), Path(os.environ["BUILD"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tools"))
import gen  # noqa: E402
import gen_figures  # noqa: E402
import gen_man  # noqa: E402

sys.path.insert(0, str(SOURCE / "test/python"))
from run import python_with  # noqa: E402

PAGES = {p.name[:-3]: p for p in sorted((SOURCE / "man").glob("*.[1-9].in"))}
MADE = {name: BUILD / f"man/man{name[-1]}" / name for name in PAGES}
TOOLS = [f"{BUILD}/tools/shmem_perf", f"{SOURCE}/tools/shmem_trace", f"{BUILD}/tools"]
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith(("SHMEM_", "SMA_", "LD_LIBRARY_PATH"))}
ENV["PATH"] = ":".join(TOOLS + [ENV["PATH"]])
ENV["MANWIDTH"] = "80"
ENV["PYTHONPATH"] = f"{BUILD}/lib/python"
ENV.setdefault("LC_ALL", "C.UTF-8")
faults = []


def expect(good, message):
    if not good:
        faults.append(message)
        print(message)


def together(act, items):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(act, items))


def run(*argv, **more):
    done = subprocess.run([str(a) for a in argv], env=ENV, text=True, capture_output=True, **more)
    assert done.returncode == 0, f"{argv}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def with_package(module):
    """A Python that loads the library, which has to be the first one if a sanitizer is in it."""
    return os.environ["SANITIZER"] == "none" and python_with(module, wanted=False)


def plain(text):
    """Source of a page as words: no fonts, no escapes."""
    text = re.sub(r"\\f.", "", text).replace("\\-", "-").replace("\\&", "").replace("\\%", "")
    return text.replace("\\e", "\\").replace('"', "")


def code_of(path, strings=True):
    """A source without its comments, and without its strings where these are not wanted."""
    return re.sub(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')|//[^\n]*|/\*.*?\*/""",
                  lambda found: found[1] or " " if strings else " ", path.read_text(), flags=re.S)


def manual():
    return gen_man.Manual(SOURCE, [str(p) for p in PAGES.values()])


def case_lint():
    missing = [tool for tool in ("mandoc", "man") if not shutil.which(tool)]
    if missing:
        print(f"not here: {missing}")
        sys.exit(77)

    def look(page):
        # Lines are as long as in the sources. The pages refer to each other before they are
        # installed.
        told = subprocess.run(["mandoc", "-T", "lint", page], env=ENV, text=True,
                              capture_output=True).stdout
        for line in told.splitlines():
            expect("input text line longer than 80 bytes" in line
                   or "referenced manual not found" in line, line)
        err = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)[1]
        # Where a page ends matters on paper only; groff 1.23 warns of a line of one long name.
        err = "".join(line for line in err.splitlines(True)
                      if "table text block will not fit on one page" not in line
                      and "cannot adjust line" not in line)
        expect(err == "", f"{page}: {err}")
        expect(not re.search(r"^@\w+.*@$|@VERSION@", page.read_text(), re.M),
               f"{page}: something was not replaced")

    together(look, MADE.values())


# Names that look like ours: the kernel's, and tools'.
FOREIGN = {"shmem_enabled"} | {"SHMEM_" + v
                               for v in re.findall(r"^ELSEWHERE\((\w+)\)",
                                                   (SOURCE / "lib/env.def").read_text(), re.M)}


def case_names():
    m = manual()
    for name, group in m.missing():
        token = next((line.plain for line in m.lines if line.name == name), name)
        page = token if token.startswith("shmemx_") else "shmem_" + token.removeprefix("shmem::")
        expect(
            False, f"{name} (group {group}) has no page: add '{token}' to the @SYNOPSIS ...@ of a "
                   "page in man/, or write "
               f"man/{page}.3.in with '@SYNOPSIS {token}@' and list it in man/meson.build")
    # All names: routines with their kernels' forms and generics, families, macros, variables,
    # tools, headers.
    known = set(FOREIGN) | {"shmem", "shmem_device",
                            "shmem_kernel"} | {name.rpartition(".")[0] for name in PAGES}
    for page in m.pages.values():
        known |= set(page.names())
        for line in page.lines:
            ctx = [line.name, line.name.replace("shmem_", "shmem_ctx_", 1)]
            known |= set(ctx + [re.sub("^shmem_", "shmemx_", n) + s for n in ctx
                                for s in ("_wave", "_wg")])
    # Exported names without a page have a place.
    linked = {line.name for line in gen.parse(SOURCE / "include/shmem.def", linked=True)[1]
              if "link" in line.tags}
    assert linked
    porting = PAGES["shmem_porting.7"].read_text()
    for name in linked - {name for page in m.pages.values() for name in page.names()}:
        expect(f"`{name}`" in porting, f"man/shmem_porting.7.in: has no {name}")
    known |= linked | {"p" + name for name in known}
    headers = "".join(code_of(SOURCE / p)
                      for p in ("include/shmem.h", "include/shmemx.h", "device/scope.hpp",
                                "device/platform/compiler.h.in"))
    macros = set(re.findall(r"#define (SHMEMX?_\w+)", headers))
    for names in re.findall(r"^typedef enum \{(.*?)\}", headers, re.M | re.S):
        macros |= set(re.findall(r"\bSHMEMX?_\w+", names))
    known |= macros | set(re.findall(r"\bshmemx?_\w+_t\b", headers))
    known |= {"shmem::" + n for n in re.findall(r"(?:struct|class|enum class) (\w+)", headers)}
    for name, _, _, aliases, _ in gen_man.variables(SOURCE):
        known |= {"SHMEM_" + name, *aliases}
    # The words of the headers that programs include for a namespace.
    spaces = {space: {w for p in paths
                      for w in re.findall(r"\w+", code_of(SOURCE / "device" / p, strings=False))}
              for space, paths in (("gemm", ["gemm/fused.hpp", "gemm/number.hpp"]),
                                   ("rows", ["rows.hpp"]), ("moe", ["moe/wg.hpp"]))}
    known |= {"shmem::" + n
              for n in (*spaces, "Half", "Bfloat16",
                        *re.findall(r"SHMEM_D_ \w+ (\w+)\(", code_of(SOURCE / "device/shmem.hpp")))}
    seen = set()
    for name, path in PAGES.items():
        # Names of other libraries stand in braces. A name that ends with _ stands for all that
        # begin so.
        text = re.sub(r"\{[^}]+\}|^\.TH .*$", "", path.read_text(), flags=re.M)
        words = set(re.findall(r"(?<![\w/.-])(p?shmemx?_\w+|SHMEMX?_\w+|SMA_\w+|shmem::\w+)", text))
        seen |= words
        for space, word in re.findall(r"shmem::(\w+)::(\w+)", text):
            expect(word in spaces[space], f"man/{path.name}: there is no shmem::{space}::{word}")
        for word in sorted(words - known):
            good = word.endswith("_") and any(k.startswith(word) for k in known)
            expect(good or word == name.rpartition(".")[0], f"man/{path.name}: there is no {word}")
        for to, section in re.findall(r"`?([\w:+]+)`?\s?\(([137])\)", text):
            if to.startswith(("shmem", "osh")):
                there = (BUILD / f"man/man{section}" / f"{to}.{section}").exists()
                expect(there, f"man/{path.name}: refers to {to}({section}), which is not there")
    not_public = {n for n in macros if n.endswith("_")
                  or n in ("SHMEM_H", "SHMEMX_H", "SHMEM_NO_GENERICS")}
    old = {n for n in macros if n.endswith("_SYNC_SIZE")}
    parts = (SOURCE / "man/parts.in").read_text()
    for name in sorted(macros - not_public - old - seen):
        expect(name in parts, f"{name} of shmem.h is on no page")
    for name, page in m.pages.items():
        expect(not page.unknown, f"man/{name}.in, @SYNOPSIS@: there is no {page.unknown}")
        if not name.endswith(".3"):
            continue
        section = re.search(r"^\.SH ARGUMENTS\n(.*?)(?=^\.SH )", page.source, re.M | re.S)
        told = section[1] if section else ""
        told = re.sub(r"^@PART (.*)@$", lambda p: m.parts[p[1]], told, flags=re.M)
        tags = set(re.findall(r"<(\w+)>", "\n".join(re.findall(r"^\.TP\n(.*)$", told, re.M))))
        expect(tags == page.arguments(),
               f"man/{name}.in, ARGUMENTS: not described {sorted(page.arguments() - tags)}, "
               f"described but not there {sorted(tags - page.arguments())}")
        wanted = ["DESCRIPTION", "RETURN VALUE", "ERRORS", "IN KERNELS", "STANDARDS", "EXAMPLE",
                  "SEE ALSO"]
        heads = re.findall(r"^\.SH (.*)$", page.source, re.M)
        wanted += ["THREADS AND CONTEXTS"] + ["DEPRECATED NAMES"] * bool(page.old)
        expect(set(wanted) <= set(heads),
               f"man/{name}.in: no section {sorted(set(wanted) - set(heads))}")
        for mark in ["@DEPRECATED@"] * bool(page.old) + ["@DEVICE@"] * bool(page.lines):
            expect(mark in page.source, f"man/{name}.in: has no {mark}")
    # man finds each name: a file that sends it to the page.
    functions = [f.name for line in m.lines for f in line.functions(m.types)]
    expect(len(functions) > 1700, f"only {len(functions)} routines")
    for name in functions:
        expect((BUILD / f"man/man3/{name}.3").exists(), f"{name}(3) has neither page nor alias")
    for alias, page in m.aliases().items():
        path = BUILD / f"man/man{alias[-1]}" / alias
        expect(path.exists() and path.read_text() == f".so man{page[-1]}/{page}\n",
               f"{alias} is no alias of {page}")
    if shutil.which("man"):
        found = run("man", "-M", BUILD / "man", "-w", "3", "shmem_ctx_uint16_put_nbi")[0]
        expect(found.strip().endswith("shmem_put.3"), found)
    listed = set(re.findall(r"'(\w+\.[137])\.in'", (SOURCE / "man/meson.build").read_text()))
    expect(listed == set(PAGES), f"man/meson.build: {listed ^ set(PAGES)}")


def case_errors():
    """A line that a page shows ends as one of the library's string constants does."""
    ends = []
    for path in [*(SOURCE / "lib").rglob("*.cpp"), *(SOURCE / "lib").rglob("*.hpp"),
                 *(SOURCE / "include/compat").glob("*.hpp")]:
        for text in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', code_of(path)):
            text = re.sub(r'"\s*"', "", text)[1:-1].replace('\\"', '"').removesuffix("\\n")
            if len(re.sub(r"%\w+|\W", "", text)) < 10:
                continue
            pattern = re.escape(text).replace("%%", "%")
            for form, regex in {"s": ".+?", "p": "0x[0-9a-f]+", "d": r"-?\d+", "i": r"-?\d+",
                                "zu": r"\d+", "td": r"-?\d+",
                                "ld": r"-?\d+", "lx": "[0-9a-f]+", "llx": "[0-9a-f]+",
                                "lld": r"-?\d+", "g": r"-?[\d.]+",
                                "u": r"\d+", r"\.80s": ".+?", "016lx": "[0-9a-f]+"}.items():
                pattern = re.sub(rf"%{re.escape(form)}(?![a-z0-9])", lambda _: regex, pattern)
            ends.append(re.compile(pattern + "$"))
    shown = 0
    for path in [*PAGES.values(), SOURCE / "man/parts.in"]:
        for line in re.findall(r"^shmem: .*$", path.read_text(), re.M):
            shown += 1
            expect(any(end.search(line) for end in ends),
                   f"man/{path.name}: the library has no such message: {line}")
    expect(shown > 50, f"only {shown} messages on the pages")


def options(text):
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w:-]*", text))


def case_options():
    for tool in "oshrun", "shmem_info", "shmem_perf":
        told = options("\n".join(re.findall(r"^ +-.*?(?:  |$)", run(tool, "--help")[0], re.M)))
        page = MADE[f"{tool}.1"].read_text()
        section = plain(page.split(".SH OPTIONS")[1].split(".SH")[0])
        listed = options("\n".join(re.findall(r"\.TP\n(.*)", section)))
        assert len(
            told) > 2 and told == listed, f"{tool}: told {told - listed}, listed {listed - told}"
    showme = lambda text: set(re.findall(r"--showme(?::\w+)?", text))
    told = showme((BUILD / "tools/oshcc").read_text())
    assert told == showme(plain(MADE["oshcc.1"].read_text())), told


def case_variables():
    rows = [v[0] for v in gen_man.variables(SOURCE)]
    assert len(rows) == len(re.findall(r"^VAR\(", (SOURCE / "lib/env.def").read_text(), re.M))
    heads = re.findall(r"\.TP\n\.B SHMEM_(\w+)$", MADE["shmem_env.7"].read_text(), re.M)
    assert rows and rows == heads, heads


def gpu():
    """The platform of this build."""
    return json.loads(run("shmem_info", "--json")[0])["library"]["gpu"]


def as_cpp(path, folder):
    """The source without <<<>>>, for the compiler of the CPU platform."""
    made = Path(folder, path.stem + "_cpu.hip")
    made.write_text(run(sys.executable, SOURCE / "tools/launches.py", path)[0])
    return made


def case_examples():
    shown = {f for page in PAGES.values()
             for f in re.findall(r"^@FILE (.*)@$", page.read_text(), re.M)}
    kept = {str(p.relative_to(SOURCE)) for p in (SOURCE / "man/examples").iterdir()}
    expect(kept <= shown, f"on no page: {kept - shown}")
    for name in (name for name in PAGES if name.endswith(".7")):
        section = PAGES[name].read_text().partition("\n.SH EXAMPLE")[2].partition("\n.SH ")[0]
        expect("\n@FILE " in section, f"man/{name}.in: no EXAMPLE that is compiled here")
    listed = re.findall(r"'(examples/[\w.]+)'", (SOURCE / "man/meson.build").read_text())
    expect({"man/" + f for f in listed} == kept, f"man/meson.build: {set(listed)}")
    with tempfile.TemporaryDirectory() as folder:

        def program(name):
            path = SOURCE / name
            says = re.search(r"^(?://|#) With (\d+) PEs: (.*)$", path.read_text(), re.M)
            if not says:
                return expect(False, f"{name}: has no line '// With N PEs: what it prints'")
            if path.suffix == ".py":
                if python := with_package("numpy"):
                    out = run("oshrun", "-n", says[1], python, path, cwd=folder)[0]
                    expect(out.strip() == says[2], f"{name}: prints '{out.strip()}'")
                return None
            binary = Path(folder, path.name + ".out")
            compiler = ["oshcc"] if path.suffix == ".c" else ["oshc++"]
            if path.suffix == ".cu":  # in NVSHMEM's names
                compiler += ["-isystem", SOURCE / "include/compat"]
                if gpu() != "nvidia":
                    compiler += ["-isystem", SOURCE / "include/cuda"]
                if gpu() == "cpu":
                    path = as_cpp(path, folder)
            run(*compiler, "-Wall", "-Wextra", "-Werror", path, "-o", binary, cwd=folder)
            out = run("oshrun", "-n", says[1], binary, cwd=folder)[0].strip()
            expect(out == says[2] or out == "no GPU", f"{name}: prints '{out}', not '{says[2]}'")

        # The slowest come first. The suite "package" builds the last kind.
        programs = [f for f in shown if not re.search(r"^examples/build/|\.txt$", f)]
        together(program, sorted(programs, key=lambda f: f.endswith(".c")))
        # The commands on the pages of the tools, with the files that they name.
        shutil.copy(SOURCE / "man/examples/ring.c", Path(folder, "program.c"))
        shutil.copy(SOURCE / "test/mpi/hybrid.c", folder)
        shutil.copy(SOURCE / "test/launch/kernel.hip", Path(folder, "kernels.hip"))
        Path(folder, "main.cpp").write_text(
            'extern "C" int scale_on_device();\nint main() { return scale_on_device() < 0; }\n')
        pages = [MADE[name].read_text() for name in PAGES if name.endswith(".1")]
        blocks = [code(b) for page in pages for b in re.findall(r"\.EX\n(.*?)\.EE", page, re.S)]
        commands = [c for text in blocks for c in text.splitlines()]
        expect(len(commands) > 5, f"{commands}")
        for command in commands:
            # Tools that measure GPUs take a minute on the CPU platform; the doctor's faults are the
            # machine's.
            skip = (any(word in command for word in ("--device", "tune", "doctor")) or
                    "mpicc" in command and not shutil.which("mpicc"))
            if not skip:
                run("sh", "-c", command, cwd=folder)


def case_figures():
    pages = [p.read_text() for p in PAGES.values()]
    shown = [id for text in pages for id in re.findall(r"^@FIGURES (.*)@$", text, re.M)]
    tables = gen_figures.parse(SOURCE)
    twice = sorted(id for id in shown if shown.count(id) > 1)
    expect(not twice, f"man/*.in: shown twice: {twice}")
    expect(set(shown) == set(tables), f"man/*.in: not shown: {set(tables) - set(shown)}")
    for table in tables.values():
        there = [table.title, table.machine, table.command, table.rows]
        expect(all(there) and re.fullmatch(r"20\d\d-\d\d-\d\d", table.date),
               f"man/figures.tsv: {table.id}: no title, machine, date, command or row")
    text = (SOURCE / "README.md").read_text()
    expect(text == gen_figures.readme(SOURCE),
           "README.md: its figures are not those of man/figures.tsv: run tools/gen_figures.py")
    expect("<!-- figures " in text, "README.md: shows no figures")


PAPERS = "README.md", "DESIGN.md", "CONTRIBUTING.md"


def tree(name):
    """The files that the tables of the tree of a paper name, each row by its folder."""
    text = (SOURCE / name).read_text()
    for folders, names in re.findall(r"^\| (`[^|]*/`) \| (.*) \|$", text, re.M):
        where = re.findall(r"`([^`]+)`", folders)
        words = " ".join(re.findall(r"`([^`]+)`", names)).split()
        yield from ((where, word) for word in ["", *words])


def is_there(where, word):
    folders = [SOURCE / folder for folder in where]
    return all(f.is_dir() for f in folders) and (
        not word or any(list(f.glob(word)) or list(f.glob(word + ".*")) for f in folders))


def case_readme():
    text = (SOURCE / "README.md").read_text()
    lines = text.splitlines()
    expect(len(lines) <= 160, f"README.md: {len(lines)} lines, at most 160")
    for paper in PAPERS:
        for link in re.findall(r"\]\(([^)#:]+)\)", (SOURCE / paper).read_text()):
            expect((SOURCE / link).exists(), f"{paper}: links {link}, which is not there")
        for where, word in tree(paper):
            expect(is_there(where, word), f"{paper}, the tree: no {word} in {where}")
    expect(len(list(tree("README.md"))) > 20, "README.md: no table of the tree")
    words = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]* ?\|$", (SOURCE / "DESIGN.md").read_text(),
                       re.M)
    expect(len(words) > 30, f"DESIGN.md: only {len(words)} words explained")
    for word in set(words):
        expect(words.count(word) == 1, f"DESIGN.md: explains '{word}' twice")
    programs = re.findall(r"^```(c|c\+\+)\n(.*?)^```$", text, re.M | re.S)
    expect([kind for kind, _ in programs] == ["c", "c++"], "README.md: not one in C and one in HIP")
    with tempfile.TemporaryDirectory() as folder:
        names, prints = ("sum.c", "greet.hip"), ("6", "PE 1 hears from PE 0")
        for (kind, source), name, says in zip(programs, names, prints):
            path = Path(folder, name)
            path.write_text(source)
            cpp = as_cpp(path, folder) if kind == "c++" and gpu() == "cpu" else path
            program = path.with_suffix("")
            run("oshcc" if kind == "c" else "oshc++", "-Wall", "-Wextra", cpp, "-o", program)
            if kind == "c" or gpu() == "cpu":  # elsewhere there may be no GPU
                out = run("oshrun", "-n", 4, program, cwd=folder)[0]
                expect(says in out, f"README.md: {name} prints '{out}', not '{says}'")
        program = Path(folder, "first.py")
        program.write_text(re.search(r"^```python\n(.*?)^```$", text, re.M | re.S)[1])
        if python := with_package("torch"):
            out = run("oshrun", "-n", 4, python, program, cwd=folder)[0]
            expect(out.count("[4., 6.") == 4, f"README.md: the program in Python prints {out}")


# A type name of lib or device that two definitions have, and why.
SAME_THING = "what the host has of it, and what kernels have"
TWICE = {
    "Buffer": SAME_THING, "State": SAME_THING, "Team": SAME_THING,
    "Sized": "the element of sized routines, of the host and of kernels",
    "World": "the argument of calls without a context, of the host and of kernels",
}


def types():
    """(name, file) of each struct, class, union and enum that lib or device defines.
    A specialization is no definition."""
    head = re.compile(r"(?<![<,\w] )(?<![<,(\w])\b(?:struct|class|union|enum(?: class)?)\s+"
                      r"(?:alignas\([^)]*\)\s*|\[\[[^]]*\]\]\s*)*"
                      r"(\w+)\s*(?:final\s*)?(?::[^:;{}()][^;{}]*)?\{")
    for folder in "lib", "device":
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".h", ".hip"):
                for name in head.findall(code_of(path, strings=False)):
                    yield name, path.relative_to(SOURCE)


def platform(path):
    return path.parts[2] if path.parts[1] == "platform" else None


def case_words():
    """A type has a name of its own, and a word of the glossary names one type.
    Platforms are alternatives."""
    where = {}
    for name, path in types():
        where.setdefault(name, []).append(path)
    expect(len(where) > 200, f"only {len(where)} types found in lib and device")
    glossary = re.findall(r"^\| ([a-z ]+) \| [^|]+ \| [^|]* ?\|$",
                          (SOURCE / "DESIGN.md").read_text(), re.M)
    words = {word.title().replace(" ", "") for word in glossary}
    for name, paths in sorted(where.items()):
        builds = [[p for p in paths if platform(p) in (None, kind)]
                  for kind in ("amd", "nvidia", "cpu")]
        most = paths if name in words else max(builds, key=len)
        files = ", ".join(map(str, most))
        if name in TWICE:
            expect(len(most) > 1,
                   f"the type {name} is no longer defined twice: take it from TWICE ({files})")
        else:
            expect(len(most) == 1, f"{name}{', a word of the glossary,' * (name in words)} "
                   f"names {len(most)} types: {files}")


def code(text):
    return re.sub(r"^\\&", "", text, flags=re.M).replace("\\-", "-").replace("\\e", "\\")


if __name__ == "__main__":
    assert all(path.exists() for path in MADE.values()), f"{BUILD}/man is not built"
    globals()["case_" + sys.argv[1]]()
    sys.exit(bool(faults))
