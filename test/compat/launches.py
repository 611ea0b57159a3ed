#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the launches of a CUDA source, name<<<grid, block, shared, stream>>>(argument...), as C++.
Usage: launches.py SOURCE > file"""
import re
import sys

text = open(sys.argv[1]).read()
# k<<<grid, block, shared, stream>>>(a, b) -> hipLaunchKernelGGL(k, grid, block, shared, stream, a, b)
text = re.sub(r"(\w+)<<<([^,>]+), ([^,>]+), ([^,>]+), ([^,>]+)>>>\(",
              r"hipLaunchKernelGGL(\1, dim3(\2), dim3(\3), \4, \5, ", text)
if "<<<" in text:
    sys.exit(f"{sys.argv[1]}: a launch that is not name<<<grid, block, shared, stream>>>(argument...)")
print(f'#line 1 "{sys.argv[1]}"\n{text}', end="")
