# SPDX-License-Identifier: MIT
"""The accesses on the way while a loop moves data. A wave's loads and stores of global memory are
counted by vmcnt, in order, so a wait for a load is one for each store before it. LLVM does not
count stores in inline assembly, and may wait for them by mistake: a copy of four words took three
round trips of a store so (gfx942, 2026-11-26).

A loop that moves data has loads of global memory, none of them in an inner loop, and stores, and
meets no other wave: no barrier, no write-back, no atomic, no sleep. A loop with stores alone
counts, too: the words of one load go to several PEs by it."""
import re

from expect import FLIGHT, LINKS, ROUND_TRIP

ACCESS = re.compile(r"(?:global|flat|buffer)_(load|store)_(?:format_)?(\w+)")
BYTES = {"x4": 16, "x3": 12, "x2": 8, "rd": 4}
MEETS = re.compile(r"s_barrier|buffer_wbl2|s_sleep|s_endpgm|s_trap|(global|flat|buffer)_atomic")
MOST = 64 # what vmcnt can count
# Of a loop with more ways, which one product has (conditional loads), the first are walked
STATES = 40000


class Code:
    """A function's instructions and labels, as the compiler or the disassembler wrote them."""

    def __init__(self, lines):
        self.rows, self.labels = [], {}
        for line in lines:
            label = re.fullmatch(r"<?([\w.$]+)>?:", line)
            if label:
                self.labels[label[1]] = len(self.rows)
            else:
                word, _, rest = line.partition(" ")
                self.rows.append((word, [o.strip().split(" ")[0] for o in rest.split(",")], line))


def of_assembly(text):
    """(name, lines) of each function."""
    for m in re.finditer(r"^(\w+):\s.*?\n(.*?)^\.Lfunc_end", text, re.S | re.M):
        rows = (re.sub(r"\s*;.*|//.*", "", row).strip() for row in m[2].splitlines())
        yield m[1], [re.sub(r"\s+", " ", row) for row in rows if row
                     and (row[0] not in ".;" or row.endswith(":"))]


def size_of(what):
    return BYTES.get(what[-2:], 1 if "byte" in what else 2)


def counted(line):
    """How many accesses a wait leaves on the way, or None."""
    if line == "s_waitcnt 0":
        return 0
    found = re.search(r"vmcnt\((\d+)\)", line) if line.startswith("s_waitcnt") else None
    return int(found[1]) if found else None


class Blocks:
    """A function's basic blocks: where each begins, and which may follow it."""

    def __init__(self, code):
        jumps = {i: code.labels[operands[0]] for i, (word, operands, _) in enumerate(code.rows)
                 if word.startswith(("s_branch", "s_cbranch"))}
        starts = sorted({0, *jumps.values(), *(i + 1 for i in jumps)} & set(range(len(code.rows))))
        self.rows = {start: range(start, end) for start,
                     end in zip(starts, [*starts[1:], len(code.rows)])}
        self.next = {}
        for start, rows in self.rows.items():
            word = code.rows[rows[-1]][0]
            ways = {jumps[rows[-1]]} if rows[-1] in jumps else set()
            if word not in ("s_branch", "s_endpgm"):
                ways.add(rows[-1] + 1)
            self.next[start] = ways & self.rows.keys()

    def components(self, nodes):
        """The strongly connected ones (Tarjan, without recursion)."""
        number, low, on, stack = {}, {}, set(), []
        for root in sorted(nodes):
            if root in number:
                continue
            number[root] = low[root] = len(number)
            stack.append(root)
            on.add(root)
            work = [(root, iter(self.next[root] & nodes))]
            while work:
                node, ways = work[-1]
                to = next(ways, None)
                if to is None:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == number[node]:
                        found = set()
                        while node not in found:
                            found.add(stack.pop())
                        on -= found
                        yield found
                elif to not in number:
                    number[to] = low[to] = len(number)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(self.next[to] & nodes)))
                elif to in on:
                    low[node] = min(low[node], number[to])

    def loops(self, nodes=None):
        """(head, blocks, loops in it) of each loop, inner ones after the one that they are in."""
        nodes = set(self.rows) if nodes is None else nodes
        for found in self.components(nodes):
            if len(found) == 1 and not found & self.next[min(found)]:
                continue
            # Of two ways in, as a peeled first round has them, the one that all rounds pass.
            entries = {to for node in self.rows if node not in found
                       for to in self.next[node]} & found or {min(found)}
            head = min(entries, key=lambda entry: (max(map(len, self.components(found - {entry})),
                                                       default=0), entry))
            kept, self.next = self.next, {node: ways - {head} if node in found else ways for node,
                                          ways in self.next.items()}
            inner = list(self.loops(found))
            self.next = kept
            yield head, found, [blocks for _, blocks, _ in inner]
            yield from inner


def moving(code):
    """The loops that move data: head, rows, and whether they load."""
    blocks = Blocks(code)
    for head, nodes, inner in blocks.loops():
        rows = {i for node in nodes for i in blocks.rows[node]}
        if any(MEETS.match(code.rows[i][2]) for i in rows):
            continue
        accesses = {i: found[1] for i in rows if (found := ACCESS.match(code.rows[i][2]))}
        deep = {i for some in inner for node in some for i in blocks.rows[node]}
        loads = {i for i, kind in accesses.items() if kind == "load"}
        if not loads & deep and "store" in accesses.values():
            yield head, rows, bool(loads)


def walk(code, first, rows, has_loads):
    """All ways through a loop. (its places where a store waits for one of the same round, and the
    most bytes of loads and of stores that are on the way where it waits)"""
    rounds = 2 # the first begins with nothing on the way
    todo, seen, bad, most = [(first, 0, (), False)], set(), set(), [0, 0]
    while todo and len(seen) < STATES:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        at, turn, queue, waited = state
        word, operands, line = code.rows[at]
        if found := ACCESS.match(line):
            if found[1] == "store" and waited:
                bad.add(at)
            # An entry: load or store, bytes, and whether it is of this round.
            queue = (*queue, (found[1], size_of(found[2]), True))[-MOST:]
        elif (left := counted(line)) is not None:
            for k, kind in enumerate(("load", "store")):
                most[k] = max(most[k], sum(bytes_ for what, bytes_, _ in queue if what == kind))
            done, queue = queue[:len(queue) - left], queue[
                max(len(queue) - left, 0):] if left else ()
            waited = waited or any(kind == "store" and own for kind, _, own in done)
        ways = []
        if word.startswith(("s_branch", "s_cbranch")):
            ways.append(code.labels[operands[0]])
        if word != "s_branch":
            ways.append(at + 1)
        for to in ways:
            if to == first:
                if turn + 1 < rounds:
                    # Where nothing is loaded, there is nothing that a store of any round would have
                    # to wait for.
                    todo.append((first, turn + 1, tuple((kind, b, own and not has_loads) for kind,
                                                        b, own in queue),
                                 waited and not has_loads))
            elif to in rows:
                todo.append((to, turn, queue, waited))
    return sorted(bad), most


def waits(code):
    """Stores that wait for a store of their own round, as text."""
    for loop in moving(code):
        for at in walk(code, *loop)[0]:
            yield f"{code.rows[at][2]}, the {at}. instruction"


def most(code):
    """The most bytes of loads and of stores that a lane has on the way where one of its loops
    waits."""
    loads = stores = 0
    for head, rows, has_loads in moving(code):
        if has_loads:
            _, (in_loads, in_stores) = walk(code, head, rows, has_loads)
            loads, stores = max(loads, in_loads), max(stores, in_stores)
    return loads, stores


def too_little(arch, name, code):
    """Kernels of expect.FLIGHT that have less on the way than they need."""
    for row, lanes, links, what in FLIGHT:
        if re.search(row, name):
            rate, of_all = LINKS[arch]
            needed = rate * 1e9 * (of_all if links == "all" else 1) * ROUND_TRIP[arch] / lanes
            has = dict(zip(("loads", "stores"), most(code)))[what]
            if has < needed:
                yield f"{has} bytes of {what} a lane, and {needed:.0f} are needed"
