#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rewrites a CUDA source as C++ for the CPU platform: launches,
kernel<<<grid, block, shared, stream>>>(argument...), and dynamic shared memory,
extern __shared__ type name[]. Lines keep their numbers. Usage: launches.py SOURCE > file"""
import re
import sys

OPEN, CLOSE = "([{", ")]}"


def masked(text):
    """The text with blanks for comments and literals, of the same length."""
    parts = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'"
    # After a digit ' is a separator of digits.
    return re.sub(rf"(?<![0-9A-Fa-f])(?:{parts})|//[^\n]*|/\*.*?\*/",
                  lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def back(text, at, opening, closing):
    """The place of the bracket whose partner is at `at`."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (text[i] == closing) - (text[i] == opening)
        if depth == 0:
            return i
    return -1


def kernel_before(text, end):
    """The begin of the kernel's name: a::b<c>, this->b or (expression)."""
    at = end
    while at > 0 and text[at - 1].isspace():
        at -= 1
    if at and text[at - 1] == ")":
        return back(text, at - 1, "(", ")")
    if at and text[at - 1] == ">":
        at = back(text, at - 1, "<", ">")
        while at > 0 and text[at - 1].isspace():
            at -= 1
    m = re.search(r"(?:(?:\w+\s*(?:<[^<>;{}]*>\s*)?)?(?:::|\.|->)\s*)*(?:template\s+)?\w+$",
                  text[:max(at, 0)])
    return m.start() if m else -1


def arguments(text, at, end):
    """The parts between commas from `at` up to `end`, and the place of `end`."""
    depth, parts, first = 0, [], at
    while at < len(text):
        if depth == 0 and text.startswith(end, at):
            return [*parts, (first, at)], at
        if text[at] in OPEN:
            depth += 1
        elif text[at] in CLOSE:
            depth -= 1
        elif text[at] == "," and depth == 0:
            parts.append((first, at))
            first = at + 1
        at += 1
    return [], -1


def rewritten(text, name):
    out, mask, done = [], masked(text), 0
    for m in re.finditer("<<<", mask):
        line = mask.count("\n", 0, m.start()) + 1
        begin = kernel_before(mask, m.start())
        words, end = arguments(mask, m.end(), ">>>")
        call = re.compile(r"\s*\(").match(mask, end + 3) if end >= 0 else None
        if begin < done or not 2 <= len(words) <= 4 or not call:
            sys.exit(
                f"{name}:{line}: a launch that is not kernel<<<grid, block, shared, "
                "stream>>>(argument...)")
        grid, block, *rest = (text[a:b].strip() for a, b in words)
        shared, stream = (rest + ["0", "nullptr"][len(rest):])
        after = re.compile(r"\s*\)").match(mask, call.end())
        # The lines over which the words were spread.
        lines = "\n" * (mask.count("\n", begin, call.end()) -
                        "".join([grid, block, *rest, text[begin:m.start()].strip()]).count("\n"))
        out += [text[done:begin],
                f"hipLaunchKernelGGL(({text[begin:m.start()].strip()}), dim3({grid}), "
                f"dim3({block}), {shared}, "
                f"{stream}{'' if after else ', '}{lines}"]
        done = call.end()
    text = "".join([*out, text[done:]])
    return re.sub(
        r"\bextern\s+__shared__\s+(?:(?:__align__|alignas)\s*\(\w+\)\s*)?"
        r"([^;\[\]()]+?)\s*\b(\w+)\s*\[\s*\]\s*;",
        r"HIP_DYNAMIC_SHARED(\1, \2)", text)


if __name__ == "__main__":
    with open(sys.argv[1]) as source:
        print(f'#line 1 "{sys.argv[1]}"\n{rewritten(source.read(), sys.argv[1])}', end="")
