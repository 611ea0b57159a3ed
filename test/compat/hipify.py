#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a CUDA source in HIP: CUDA's runtime and launches, and nothing else, as AMD's hipify does.
Usage: hipify.py SOURCE > file"""
import re
import sys

text = open(sys.argv[1]).read()
text = text.replace("<cuda_runtime.h>", "<hip/hip_runtime.h>")
text = re.sub(r"\bcuda([A-Z]\w*)", r"hip\1", text)
# k<<<grid, block, shared, stream>>>(a, b) -> hipLaunchKernelGGL(k, grid, block, shared, stream, a, b)
text = re.sub(r"(\w+)<<<([^,>]+), ([^,>]+), ([^,>]+), ([^,>]+)>>>\(",
              r"hipLaunchKernelGGL(\1, dim3(\2), dim3(\3), \4, \5, ", text)
if "<<<" in text:
    sys.exit(f"{sys.argv[1]}: a launch that is not name<<<grid, block, shared, stream>>>(argument...)")
print(f'#line 1 "{sys.argv[1]}"\n{text}', end="")
