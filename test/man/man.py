# SPDX-License-Identifier: MIT
"""Tests of the manual: man.py CASE PAGE..., with SOURCE and BUILD in the environment."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, BUILD = Path(os.environ["SOURCE"]), Path(os.environ["BUILD"])
PAGES = {Path(p).name: Path(p) for p in sys.argv[2:]}
TOOLS = [f"{BUILD}/tools/shmem_perf", f"{BUILD}/tools"]
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("SHMEM_", "SMA_", "LD_LIBRARY_PATH"))}
ENV["PATH"] = ":".join(TOOLS + [ENV["PATH"]])
ENV.setdefault("LC_ALL", "C.UTF-8")


def run(*argv, **more):
    done = subprocess.run([str(a) for a in argv], env=ENV, text=True, capture_output=True, **more)
    assert done.returncode == 0, f"{argv}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def plain(text):
    """Source of a page as words: no fonts, no escapes."""
    return re.sub(r"\\f.", "", text).replace("\\-", "-").replace("\\&", "").replace("\\e", "\\").replace('"', "")


def case_lint():
    missing = [tool for tool in ("mandoc", "man") if not shutil.which(tool)]
    if missing:
        print(f"not here: {missing}")
        sys.exit(77)
    for page in PAGES.values():
        # The pages refer to each other before they are installed.
        text = run("mandoc", "-T", "lint", "-W", "warning", page)
        assert text == ("", ""), text
        out, err = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
        assert err == "", err
        assert "@" not in re.sub(r"\S+@\S+", "", page.read_text()), f"{page}: something was not replaced"
    assert len(PAGES) == len(list((SOURCE / "man").glob("*.in")))


def options(text):
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w:-]*", text))


def case_options():
    """What a tool says of itself and what its page lists are the same."""
    for tool in "oshrun", "shmem_info", "shmem_perf":
        told = options("\n".join(re.findall(r"^ +-.*?(?:  |$)", run(tool, "--help")[0], re.M)))
        page = PAGES[f"{tool}.1"].read_text()
        section = plain(page.split(".SH OPTIONS")[1].split(".SH")[0])
        listed = options("\n".join(re.findall(r"\.TP\n(.*)", section)))
        assert len(told) > 2 and told == listed, f"{tool}: told {told - listed}, listed {listed - told}"
    showme = lambda text: set(re.findall(r"--showme(?::\w+)?", text))
    told = showme((BUILD / "tools/oshcc").read_text())
    assert told == showme(plain(PAGES["oshcc.1"].read_text())), told


def case_variables():
    rows = re.findall(r"^VAR\((\w+),", (SOURCE / "lib/env.def").read_text(), re.M)
    heads = re.findall(r"\.TP\n\.B SHMEM_(\w+)$", PAGES["shmem_env.7"].read_text(), re.M)
    assert rows and rows == heads, heads
    # Every routine of the table is named in shmem(7).
    words = set(re.findall(r"\w+", plain(PAGES["shmem.7"].read_text())))
    names = set(re.findall(r"^\[.*?\] .*?(\w+)\(", (SOURCE / "include/shmem.def").read_text(), re.M))
    assert len(names) > 100 and names <= words, names - words


def case_examples():
    """The program in shmem(7) is what is in the source, and every command line of the pages runs."""
    blocks = {name: [plain_code(b) for b in re.findall(r"\.EX\n(.*?)\.EE", page.read_text(), re.S)]
              for name, page in PAGES.items()}
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "program.c")
        code.write_text(blocks.pop("shmem.7")[0])
        assert code.read_text() == (SOURCE / "man/ring.c").read_text()
        run("oshcc", "-Wall", "-Wextra", "-Werror", "program.c", "-o", "program", cwd=folder)
        assert run("oshrun", "-n", 4, "./program", cwd=folder)[0] == "4 PEs, sum 10\n"
        shutil.copy(SOURCE / "test/mpi/hybrid.c", folder)
        commands = [c for block in blocks.values() for text in block for c in text.splitlines()]
        assert len(commands) > 5, commands
        for command in commands:
            if "mpicc" not in command or shutil.which("mpicc"):
                run("sh", "-c", command, cwd=folder)


def plain_code(text):
    return re.sub(r"^\\&", "", text, flags=re.M).replace("\\-", "-").replace("\\e", "\\")


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]]()
