#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The symbols that libshmem.so exports, and those that the test programs use.

exports facts.tsv libshmem.so   exactly the names of the specification and the linked ones, shmem_x
                                weak and pshmem_x not; shmemx_ and the HIP of the cpu platform may
                                be there too
coverage facts.tsv program...   the programs together call every function
loads libshmem.so               what it needs: no MPI
tls libshmem.so                 its thread-local memory: little, and at no fixed place, so that
                                dlopen never fails for it and the program's threads keep their
                                stacks
arrows folder                   its objects there need each other in one direction only: no cycle of
                                source files"""
import graphlib
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "headers"))
from gen_headers import Facts  # noqa: E402


def nm(*args):
    out = subprocess.run(["nm", "-P", *args], check=True, capture_output=True, text=True).stdout
    return {row.split()[0].split("@")[0]: row.split()[1] for row in out.splitlines()
            if len(row.split()) > 1}


def exports(facts, library):
    facts = Facts(facts)
    names = [n for n, _ in facts.functions]
    if len(set(names)) != 1788 or len(facts.linked) != 8:
        return [f"{len(set(names))} and {len(facts.linked)} names, want 1788 and 8"]
    names += [n for n, _ in facts.linked]
    got = nm("-D", "--defined-only", library)
    got.pop("SHMEM_1", None)
    want = set(names) | {"p" + n for n in names}
    errors = [f"not exported: {n}" for n in sorted(want - set(got))]
    errors += [f"should not be exported: {n}" for n in sorted(set(got) - want)
               if not re.match("shmemx_|_ZNK?7hip_cpu", n)]
    for n in names:
        if got.get(n, "W") != "W":
            errors.append(f"{n} is {got[n]}, want weak (W)")
        if got.get("p" + n, "T") != "T":
            errors.append(f"p{n} is {got['p' + n]}, want T")
    return errors


def coverage(facts, *programs):
    facts = Facts(facts)
    names = {n for n, _ in facts.functions + facts.linked}
    used = set()
    for program in programs:
        used |= {n for n, kind in nm("-u", program).items() if kind == "U"}
    if not used & names:
        return ["the programs use no routine at all"]
    return [f"no test calls {n}" for n in sorted(names - used)]


def loads(library):
    undefined = nm("-D", "-u", library)
    errors = [f"undefined symbol of MPI: {n}" for n in undefined
              if n.startswith(("MPI_", "PMPI_", "ompi_", "opal_", "orte_"))]
    errors += [f"the library calls its own entry point through the table: {n}" for n in undefined
               if n.startswith(("shmem_", "pshmem_"))]
    needed = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                            text=True).stdout
    rows = [row for row in needed.splitlines() if "NEEDED" in row]
    if not rows:
        errors.append("readelf shows nothing that is needed")
    return errors + [f"needs {row.split()[-1]}" for row in rows if "libmpi" in row
                     or "liboshmem" in row]


def tls(library):
    headers = subprocess.run(["readelf", "-lW", library], check=True, capture_output=True,
                             text=True).stdout
    dynamic = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True,
                             text=True).stdout
    assert "LOAD" in headers and "SONAME" in dynamic
    sizes = [int(row.split()[5], 16) for row in headers.splitlines() if row.split()[:1] == ["TLS"]]
    errors = [f"{n} bytes of thread-local memory, want at most 1024" for n in sizes if n > 1024]
    return errors + ["STATIC_TLS: a variable of the model initial-exec"] * ("STATIC_TLS" in dynamic)


def arrows(folder):
    # Objects that are not of lib begin with ..; a HIP runtime is one thing.
    objects = {o.name: nm(o) for o in pathlib.Path(folder).glob("[!.]*.o")}
    unit = {o: "platform" if o.startswith("platform_") else o for o in objects}
    owner = {n: unit[o] for o, names in objects.items() for n, kind in names.items()
             if kind in "TDBR"}
    needs = {}
    for o, names in objects.items():
        wanted = {owner[n] for n, kind in names.items() if kind == "U" and n in owner}
        needs.setdefault(unit[o], set()).update(wanted - {unit[o]})
    if not any(needs.values()):
        return [f"no object in {folder} needs another"]
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as e: # each is needed by the one before it
        return [" <- ".join(o.removesuffix(".cpp.o") for o in e.args[1])]
    return []


def main():
    errors = {"exports": exports, "coverage": coverage, "loads": loads, "tls": tls,
              "arrows": arrows}[sys.argv[1]](*sys.argv[2:])
    print("\n".join(errors[:50] + ([f"and {len(errors) - 50} more"] if len(errors) > 50 else [])))
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
