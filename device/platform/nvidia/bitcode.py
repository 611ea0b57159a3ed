#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bitcode.py CLANG WORD... -o OUTPUT: the bitcode that clang makes, without its flag
nvvm-reflect-ftz.

Every compiler of kernels sets that flag as it likes, and LLVM links no modules that differ in it:
Triton 3.6 has 1, clang 0. The library's code asks for neither."""
import os
import re
import subprocess
import sys

words, output = [word for word in sys.argv[1:-2] if word != "-c"], sys.argv[-1]
text = output + ".ll"
subprocess.run([*words, "-S", "-o", text], check=True)
with open(text) as file:
    module = file.read()
flag = re.search(r'^(!\d+) = !\{i32 \d, !"nvvm-reflect-ftz", i32 \d\}$', module, re.M)
if flag:
    flags = re.search(r"^!llvm\.module\.flags = !\{(.*)\}$", module, re.M)
    kept = ", ".join(word for word in flags[1].split(", ") if word != flag[1])
    module = module.replace(flags[0], "!llvm.module.flags = !{" + kept + "}")
    with open(text, "w") as file:
        file.write(module)
subprocess.run([words[0], "-x", "ir", "--target=nvptx64-nvidia-cuda", "-Wno-override-module",
                "-Xclang", "-disable-llvm-passes",
                "-emit-llvm", "-c", text, "-o", output], check=True)
os.remove(text)
