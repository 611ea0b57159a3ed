#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the figures of README.md again, from man/figures.tsv. The head of that file explains its
format. Usage: gen_figures.py

README.md gets a row for each ID[:N] of the mark <!-- figures ID... -->; <!-- end --> ends the rows.
gen_man.py takes the manual's tables from this module."""
import re
import sys
from pathlib import Path


class Table:
    """A table of one run: machine, date and command of the measurement, and the rows."""

    def __init__(self, id, title):
        self.id, self.title = id, title
        self.machine = self.date = self.command = self.cells = ""
        self.columns, self.rows, self.notes = [], {}, []

    def unit(self):
        return self.cells.partition(": ")[0]

    def sides(self):
        """The names of a cell's two values; no names where a cell has one value."""
        return self.cells.partition(": ")[2].split(" / ") if ": " in self.cells else []


def parse(root):
    """id -> table."""
    tables, table = {}, None
    for number, line in enumerate((root / "man/figures.tsv").read_text().splitlines(), 1):
        key, *fields = line.split("\t")
        if not line or line.startswith("#"):
            continue
        if key == "table":
            table = tables.setdefault(fields[0], Table(*fields))
        elif key in ("machine", "date", "command", "cells"):
            setattr(table, key, fields[0])
        elif key == "columns":
            table.columns = fields
        elif key == "note":
            table.notes.append(fields[0])
        elif key.startswith(table.id + ".") and 1 < len(fields) <= len(table.columns):
            if table.rows.setdefault(key, fields) is not fields:
                sys.exit(f"man/figures.tsv:{number}: there is a {key} already")
        else:
            sys.exit(f"man/figures.tsv:{number}: not a row of {table.id}")
    for table in tables.values():
        for row in table.rows.values():
            row[1:] = [value(tables, x[1:]) if x.startswith("=") else x for x in row[1:]]
    return tables


def found(tables, id):
    """Table, row and column of ID[:N]; the first column without N."""
    id, _, n = id.partition(":")
    table = tables.get(id.partition(".")[0])
    if not table or id not in table.rows or not 0 < int(n or 1) < len(table.rows[id]):
        sys.exit(f"man/figures.tsv: there is no {id}:{n or 1}")
    return table, table.rows[id], int(n or 1)


def value(tables, id):
    """The value ID:N with its unit. Of two values in a cell the first is libshmem's."""
    table, row, n = found(tables, id)
    return f"{row[n].partition(' / ')[0]} {table.unit()}".strip()


def readme_row(tables, id):
    table, row, n = found(tables, id)
    what = row[0]
    if table.sides():
        what += f", {table.columns[n]}"
        whose, (_, _, peer) = table.sides()[1], row[n].partition(" / ")
    else:
        whose, peer = table.columns[n + 1], row[n + 1]
    beside = f"{peer} {table.unit()}".strip()
    return f"| {what} | {value(tables, id)} | {beside}, {whose} | {table.title}, {table.date} |"


def readme(root):
    """README.md as it should be."""
    tables = parse(root)

    def section(m):
        rows = [readme_row(tables, id) for id in m[1].split()]
        head = ["| what | libshmem | beside it | measured |", "|---|---:|---:|---|"]
        return "\n".join([f"<!-- figures {m[1]} -->", *head, *rows, "<!-- end -->"])

    text = (root / "README.md").read_text()
    return re.sub(r"<!-- figures (.*?) -->\n.*?<!-- end -->", section, text, flags=re.S)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    source = Path(__file__).resolve().parent.parent
    (source / "README.md").write_text(readme(source))
