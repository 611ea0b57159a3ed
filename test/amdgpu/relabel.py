#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""relabel.py FROM TO IN OUT: a program or library whose code for GPU FROM says that it is for TO, and the other way round. For a
runtime that does not know FROM yet, on a machine that has FROM's instructions and calls itself TO."""
import os
import struct
import sys

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
MACH = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx950": 0x4F}  # EF_AMDGPU_MACH, in the lowest byte of the flags of an ELF file
E_FLAGS = 48


def relabel(data, names):
    changed = 0
    at = data.find(MAGIC)
    while at >= 0:
        count, = struct.unpack_from("<Q", data, at + len(MAGIC))
        entry = at + len(MAGIC) + 8
        for _ in range(count if count < 64 else 0):  # the name alone is in programs that read bundles
            offset, size, length = struct.unpack_from("<QQQ", data, entry)
            name = bytes(data[entry + 24:entry + 24 + length]).decode("ascii", "replace")
            for old, new in names.items():
                if not name.endswith(old) or data[at + offset:at + offset + 4] != b"\x7fELF":
                    continue
                begin, end = at + offset, at + offset + size
                if data[begin + E_FLAGS] != MACH[old]:
                    sys.exit(f"{name}: flags 0x{data[begin + E_FLAGS]:02x}, not those of {old}")
                data[begin + E_FLAGS] = MACH[new]
                data[entry + 24:entry + 24 + length] = name.replace(old, new).encode()
                data[begin:end] = data[begin:end].replace(f"--{old}".encode(), f"--{new}".encode())
                changed += 1
            entry += 24 + length
        at = data.find(MAGIC, at + 1)
    return changed


old, new, source, target = sys.argv[1:]
with open(source, "rb") as file:
    data = bytearray(file.read())
if not relabel(data, {old: new, new: old}):
    sys.exit(f"{source}: no code for {old}")
with open(target, "wb") as file:
    file.write(data)
os.chmod(target, 0o755)
