#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fills in a manual page. Usage: gen_man.py PAGE SOURCE_ROOT VERSION > file

A line of PAGE that is one of these is replaced:
  @VARIABLES@    the rows of lib/env.def
  @ROUTINES@     the routines of include/shmem.def, by family
  @FILE path@    the file at path, as an example
and @VERSION@ anywhere.
"""
import re
import sys
from pathlib import Path

from gen import Line


def roff(text):
    """Text as roff shows it: with plain quotes, hyphens that can be copied, and no line taken for a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def variables(root):
    """name, kind, default, sma, help of each row."""
    row = r'VAR\((\w+), \w+, (\w+), "(.*?)", ([01]), "(.*)"\)'
    for m in re.finditer(row, (root / "lib/env.def").read_text()):
        name, kind, default, sma, help = m.groups()
        yield name, kind, default.replace('\\"', '"'), sma == "1", help.replace('\\"', '"')


def variable_rows(root):
    for name, kind, default, sma, help in variables(root):
        yield ".TP"
        yield f".B SHMEM_{name}"
        yield roff(help[0].upper() + help[1:]) + "."
        if kind == "flag":
            yield "Any value counts, 0 too."
        elif default:
            yield f"Default: {roff(default)}."
        if sma:
            yield f"The older spelling\n.B SMA_{name}\nworks too."


def routines(root):
    families, heading = {}, None
    for text in (root / "include/shmem.def").read_text().split("\n"):
        if text.startswith("# "):
            heading = text[2:]
        elif m := re.fullmatch(r"\[([^]]+)\]\s*(.*;)", text):
            families.setdefault(heading, []).append(Line(m[1].split(), m[2]))
    for heading, lines in families.items():
        yield f".SS {heading}"
        current = [line for line in lines if "dep" not in line.tags]
        old = [line for line in lines if "dep" in line.tags]
        for kind, lines in ("", current), ("Deprecated: ", old):
            names = dict.fromkeys(line.name for line in lines)
            if names:
                yield (".PP\n" if kind else "") + kind + ",\n".join(map(roff, names)) + "."


def example(path):
    yield ".EX"
    yield roff(path.read_text().rstrip("\n"))
    yield ".EE"


def main():
    page, root, version = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    for line in page.read_text().split("\n")[:-1]:
        if line == "@VARIABLES@":
            print("\n".join(variable_rows(root)))
        elif line == "@ROUTINES@":
            print("\n".join(routines(root)))
        elif m := re.fullmatch(r"@FILE (.+)@", line):
            print("\n".join(example(root / m[1])))
        else:
            print(line.replace("@VERSION@", version))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
