#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""teach.py IN OUT: a copy of HIP's runtime whose table of GPUs has gfx950 where it had gfx941, a
GPU that was never sold. A row begins with the addresses of a name, gfx941 or that with its
features, and of another one or none; then come two flags, as one word, and the version in three
numbers, and six words later the bytes of LDS."""
import re
import struct
import sys

OLD, NEW = b"gfx941", b"gfx950"
OLD_VERSION, NEW_VERSION = (9, 4, 1), (9, 5, 0)
OLD_LDS, NEW_LDS = 64 << 10, 160 << 10
VERSION_AT, LDS_AT = 20, 52 # of a row
RELATIVE, NOBITS = 8, 8     # R_X86_64_RELATIVE, SHT_NOBITS

with open(sys.argv[1], "rb") as file:
    data = bytearray(file.read())
if data[:5] != b"\x7fELF\x02":
    sys.exit(f"{sys.argv[1]}: no ELF file of 64 bits")
table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
# Name, type, flags, address, offset, bytes, ...
sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]


def place(address):
    for _, kind, _, first, at, size, *_ in sections:
        if kind != NOBITS and first <= address < first + size:
            return at + address - first
    return None


rows = 0
for _, kind, _, _, at, size, *_ in sections:
    # SHT_RELA: what the loader writes, and where
    for entry in range(at, at + size, 24) if kind == 4 else []:
        where, how, to = struct.unpack_from("<QQq", data, entry)
        name = place(to) if how & 0xFFFFFFFF == RELATIVE else None
        if name is None or not re.match(OLD + rb"(:[a-z+:-]+)?\0", data[name:name + 64]):
            continue
        row = place(where)
        if struct.unpack_from("<3i", data,
                              row + VERSION_AT) != OLD_VERSION or struct.unpack_from(
                                  "<i", data, row + LDS_AT)[0] != OLD_LDS:
            sys.exit(f"{sys.argv[1]}: a row at 0x{where:x} is not as it was in HIP 6.4.3")
        struct.pack_into("<3i", data, row + VERSION_AT, *NEW_VERSION)
        struct.pack_into("<i", data, row + LDS_AT, NEW_LDS)
        data[name:name + len(NEW)] = NEW
        rows += 1
if rows != 9:
    sys.exit(f"{sys.argv[1]}: {rows} rows of gfx941, not 9 as in HIP 6.4.3")
with open(sys.argv[2], "wb") as file:
    file.write(data)
