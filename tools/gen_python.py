#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the Python package: gen_python.py FROM TO STAMP ROUTINES FILE... -- shmem.def shmem.h
shmemx.h

The files, which lie below FROM, are copied to the same place below TO. shmem/_routines.py is added,
and also written to ROUTINES: the C interface for _library.py.

ROUTINES    name: the result and the arguments, a letter each, see LETTERS
STRUCTS     name: the fields, each a name, a letter and a number of elements
CONSTANTS   the numbers of macros and enumerations
TYPES       the TYPENAMEs of a class of the table, with the letter of each
INITIAL     name of a structure: the values of its initializer
TRACED      the numbers by which kernels of Triton record their calls
"""
import re
import shutil
import sys
from pathlib import Path

import gen

# The letters of the module struct, and g for long double, v for nothing. Handles, functions and
# arrays are pointers. ctypes has no complex numbers, so routines that take one have no line.
LETTERS = {"void": "v", "char": "b", "signed char": "b", "unsigned char": "B", "short": "h",
           "unsigned short": "H", "int": "i", "unsigned int": "I", "unsigned": "I", "long": "l",
           "unsigned long": "L", "long long": "q", "unsigned long long": "Q", "float": "f",
           "double": "d", "long double": "g", "size_t": "N", "ptrdiff_t": "n", "int8_t": "b",
           "int16_t": "h", "int32_t": "i", "int64_t": "q", "uint8_t": "B", "uint16_t": "H",
           "uint32_t": "I", "uint64_t": "Q", "shmemx_buffer_t": "Q", "shmemx_type_t": "i",
           "shmemx_activation_t": "i", "shmemx_matmul_algorithm_t": "i", "shmemx_matmul_op_t": "i",
           "shmemx_moe_layout_t": "i", "shmemx_wire_format_t": "i", "shmemx_wire_t": "P",
           "shmem_ctx_t": "P", "shmem_team_t": "P",
           "shmemx_stream_t": "P", "shmemx_moe_t": "P", "shmemx_matmul_workspace_t": "P",
           "double _Complex": "", "float _Complex": ""}


def letter(ctype):
    """The letter of a type, or of a parameter with its name."""
    if "*" in ctype or "[" in ctype:
        return "P"
    return LETTERS[re.sub(r"\bconst\b|\s+$", "", ctype).strip()]


def of_parameter(text):
    return letter(text) if "*" in text else letter(re.sub(r"\w+$", "", text).strip() or text)


def of_prototype(result, parameters):
    """The letters of a routine, or None if one of the types has no letter."""
    letters = [letter(result)] + [of_parameter(p) for p in parameters]
    return "".join(letters) if all(letters) else None


def routines(table, header):
    types, lines = gen.parse(table)
    found = {}
    for f in gen.functions(types, lines) + gen.extensions(types, lines):
        if "..." not in f.params and "dep" not in f.line.tags:
            found[f.name] = of_prototype(f.result, f.params)
    for f in gen.stream_functions(types, lines):
        found[f.name] = of_prototype(f.result, f.params)
    by_hand = r"^(?!typedef|SHMEMX_INLINE_)([\w ]+[ *]+)(shmemx_\w+)\(([^;{]*?)\);"
    for result, name, parameters in re.findall(by_hand, header, re.M):
        words = [p.strip() for p in parameters.split(",")]
        found[name] = of_prototype(result, [] if words == ["void"] else words)
    return types, {name: letters for name, letters in found.items() if letters}


def structs(header):
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", header, re.S):
        fields = []
        for declaration in body.split(";")[:-1]:
            declaration = " ".join(declaration.split())
            if m := re.fullmatch(r".*\(\*(\w+)\)\(.*\)", declaration):
                fields.append((m[1], "P", 1))
                continue
            base, first = re.fullmatch(r"((?:const )?(?:unsigned )?\w+ \**)(.*)",
                                       declaration).groups()
            for word in first.split(","):
                m = re.fullmatch(r"\s*(\**)(\w+)(?:\[(\d+)\])?", word)
                fields.append((m[2], letter(base + m[1]), int(m[3] or 1)))
        yield name, fields


def constants(text):
    for name, value in re.findall(r"^#define (SHMEMX?_\w+) (\S.*)$", text, re.M):
        value = re.sub(r"\((?:shmem_\w+_t)\)|(?<=\d)L\b", "", value)
        if re.fullmatch(r"[\d()<< -]+", value):
            yield name, int(eval(value))
    for body in re.findall(r"typedef enum \{(.*?)\}", text, re.S):
        value = 0
        for word in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(","):
            name, _, given = (w.strip() for w in word.partition("="))
            value = int(given) if given else value
            yield name, value
            value += 1


def initial(header, known):
    """The values of a structure's initializer, without those of the first field, the size, and of
    the last field, which is reserved."""
    defined = r"#define (SHMEMX_\w+)_INITIALIZER\s*\\\n((?:.*\\\n)*.*)\n"
    for name, body in re.findall(defined, header):
        words = re.sub(r"[\\\s]+", " ", body).strip(" {}").split("{")[0].split(",")[1:-1]
        values = [word.strip(" ()") for word in words]
        yield name.lower() + "_t", [known[v] if v in known else float(v[:-1]) if v.endswith("f")
                                    else int(v) for v in values]


def dictionary(name, pairs):
    yield f"{name} = {{"
    for key, value in pairs:
        yield f"    {key!r}: {value!r},"
    yield "}"


def interface(table, headers):
    """The text of _routines.py."""
    texts = [re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S) for path in headers]
    types, found = routines(table, texts[-1])
    known = dict(pair for text in texts for pair in constants(text))
    yield f'# SPDX-License-Identifier: MIT\n"""{gen.NOTE}"""\n'
    yield from dictionary("ROUTINES", found.items())
    yield from dictionary("STRUCTS", (pair for text in texts for pair in structs(text)))
    yield from dictionary("CONSTANTS", known.items())
    yield from dictionary("TYPES", ((name, {t.name: letter(t.ctype) for t in types
                                            if name in t.classes and letter(t.ctype)})
                                    for name in ("rma", "ext", "amo", "bit", "and", "sum")))
    yield from dictionary("INITIAL", initial(texts[-1], known))
    names = [name for name, _ in gen.traced_in_kernels(*gen.parse(table))] + gen.TRITON
    called = (*gen.TRITON, "shmem_fence", "shmem_quiet", "shmem_signal_wait_until",
              "shmemx_barrier_all_wg", "shmemx_putmem_signal_wg")
    yield from dictionary("TRACED", ((name, names.index(name)) for name in called))


def main():
    source, to, stamp, routines_file, *files = sys.argv[1:]
    table, *headers = files[files.index("--") + 1:]
    package = Path(to, "shmem")
    shutil.rmtree(package, ignore_errors=True) # a module that was removed would still be imported
    for file in files[:files.index("--")]:
        place = Path(to, Path(file).resolve().relative_to(Path(source).resolve()))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    Path(routines_file).write_text("\n".join(interface(table, headers)) + "\n")
    shutil.copyfile(routines_file, package / "_routines.py")
    Path(stamp).touch()


if __name__ == "__main__":
    main()
