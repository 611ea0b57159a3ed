# SPDX-License-Identifier: MIT
"""What a call costs: through Python, in C, and with PyTorch's own collectives beside it.

    oshrun -n 2 python -m shmem.bench
    torchrun --nproc-per-node 2 -m shmem.bench --op all_reduce --sizes 1k:64m --json

Each call is checked first, with numbers that all types represent exactly. Then the ways to do the
call take turns: a batch of calls each, behind a barrier, and again. A time is the median of the
batches on the slowest PE. On a GPU the calls of a batch follow each other on one stream, and the
host waits for the last one. A second time is the host's until the stream has the call."""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import shmem

from . import _collectives
from . import _library as c
from ._array import typename
from ._library import lib

OPS = ("put", "get", "atomic_fetch_add", "barrier", "all_reduce", "reduce_scatter", "all_gather",
       "all_to_all", "broadcast")
BATCH = 5e-3        # seconds
MOST = 1000         # calls of a batch
MOST_GIVEN = 200    # on a stream; after a thousand kernels the host would have to wait


class Way(NamedTuple):
    """One way to do an operation. The check fills dest and source before the call, and compares
    dest with the expected elements after it."""
    name: str
    call: Callable[[], Any]
    dest: Any
    source: Any


class Case(NamedTuple):
    """An operation of a size. expected: the elements of dest on this PE afterwards; None: the call
    does not change dest. active: this PE calls."""
    op: str
    nbytes: int
    ways: list[Way]
    expected: Any
    active: bool = True


def median(us: list[float]) -> float:
    """The median, rounded to the nanosecond."""
    return round(statistics.median(us), 3)


def prepared(routine: Any, *values: Any) -> Callable[[], Any]:
    """A C call with arguments that are converted already."""
    return partial(routine, *(t(v) for t, v in zip(routine.argtypes, values)))


class Bench:
    """The state that all cases share."""

    def __init__(self, options: argparse.Namespace, torch: Any) -> None:
        self.me, self.n, self.torch = shmem.my_pe(), shmem.n_pes(), torch
        self.runs, self.notes = options.runs, list[str]()
        self.on_gpu = (shmem.platform() != "cpu" and options.device != "cpu" and bool(torch)
                       and torch.cuda.is_available())
        if options.device == "cuda" and not self.on_gpu:
            raise shmem.Error("shmem.bench: --device cuda: there is no symmetric heap on a GPU")
        self.device = f"cuda:{torch.cuda.current_device()}" if self.on_gpu else "cpu"
        if torch:
            self.module = torch
        else:
            import numpy

            self.module = numpy
        self.dtype = getattr(self.module, options.dtype, None)
        if self.dtype is None:
            raise shmem.Error(f"shmem.bench: --dtype {options.dtype}: no type of "
                              f"{self.module.__name__}")
        if not torch:
            self.dtype = self.module.dtype(self.dtype)
        self.type, self.size = typename(self.dtype, "bench", "--dtype")
        self.stream = torch.cuda.current_stream().cuda_stream if self.on_gpu else None
        self.group: Any = None
        self.backend = ""
        self.values = shmem.zeros(64, dtype=self.module.float64, device="cpu")

    # --- arrays ---

    def empty(self, count: int) -> Any:
        return shmem.empty(count, dtype=self.dtype, device=self.device)

    def plain(self, count: int) -> Any:
        """Memory of PyTorch's own, for another library's way."""
        return self.torch.empty(count, dtype=self.dtype, device=self.device)

    def numbers(self, count: int, pe: int, first: int = 0) -> Any:
        """The numbers of a PE, up to 10: a sum over 25 PEs is exact in bfloat16, too."""
        if self.torch:
            x = self.torch.arange(first, first + count, device=self.device)
            return (x % 7 + pe % 5).to(self.dtype)
        return (self.module.arange(first, first + count) % 7 + pe % 5).astype(self.dtype)

    def sum(self, count: int, first: int = 0) -> Any:
        whole = sum(self.numbers(count, pe, first) for pe in range(self.n))
        return whole.to(self.dtype) if self.torch else whole.astype(self.dtype)

    def joined(self, parts: list[Any]) -> Any:
        return self.torch.cat(parts) if self.torch else self.module.concatenate(parts)

    # --- all PEs together ---

    def slowest(self, values: list[float]) -> list[float]:
        """Each value's largest of all PEs."""
        found: list[float] = []
        for at in range(0, len(values), 64):
            part = values[at:at + 64]
            for i, v in enumerate(part):
                self.values[i] = v
            shmem.all_reduce(self.values, op="max")
            found += [float(self.values[i]) for i in range(len(part))]
        return found

    def settle(self) -> None:
        """Waits until the stream's work, or the puts, are complete."""
        if self.on_gpu:
            self.torch.cuda.synchronize()
        else:
            lib.shmem_quiet()

    def meet(self) -> None:
        self.settle()
        shmem.barrier()

    # --- a case ---

    def check(self, case: Case, way: Way) -> str:
        """A line about the first wrong element, or nothing."""
        if way.dest is not None:
            if way.dest is not way.source:
                way.dest[...] = -1
            if way.source is not None:
                way.source[...] = self.numbers(len(way.source), self.me)
        self.meet()
        if case.active:
            way.call()
        self.meet()
        if way.dest is None or case.expected is None:
            return ""
        wrong = way.dest != case.expected
        if not bool(wrong.any()):
            return ""
        i = int(wrong.nonzero()[0][0])
        return (f"PE {self.me}: {case.op} of {case.nbytes} bytes by {way.name}: element {i} is "
                f"{float(way.dest[i])}, expected {float(case.expected[i])}")

    def batch(self, call: Callable[[], Any], calls: int) -> tuple[float, float]:
        """Seconds of a call, and of the host until the stream has the call."""
        self.meet()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        given = time.perf_counter()
        self.settle()
        return (time.perf_counter() - start) / calls, (given - start) / calls

    def measure(self, case: Case) -> dict[str, Any]:
        """The row of a case."""
        nothing, most = (0.0, 0.0), MOST_GIVEN if self.on_gpu else MOST
        calls = {}
        for way in case.ways:
            first = self.batch(way.call, 5) and self.batch(way.call, 5) if case.active else nothing
            if not case.active:
                self.meet(), self.meet()
            calls[way.name] = max(1, min(most, int(BATCH / max(self.slowest([first[0]])[0], 1e-9))))
        found: list[float] = []
        for _ in range(self.runs):
            for way in case.ways:
                if case.active:
                    found += self.batch(way.call, calls[way.name])
                else:
                    self.meet()
                    found += nothing
        found = self.slowest(found)
        step = 2 * len(case.ways)
        us = {way.name: [1e6 * v for v in found[2 * i::step]] for i, way in enumerate(case.ways)}
        issue = {way.name: [1e6 * v for v in found[2 * i + 1::step]]
                 for i, way in enumerate(case.ways)}
        of = issue if self.on_gpu and case.op != "atomic_fetch_add" else us
        row: dict[str, Any] = {"op": case.op, "bytes": case.nbytes,
                               "us": {k: median(v) for k, v in us.items()}}
        if self.on_gpu:
            row["issue_us"] = {k: median(v) for k, v in issue.items()}
        row["python_us"] = median([p - q for p, q in zip(of["python"], of["C"])])
        return row

    def run(self, case: Case) -> dict[str, Any] | None:
        """Checks all ways, and measures the right ones. None: this library's result is wrong."""
        good = []
        for way in case.ways:
            try:
                said = self.check(case, way)
            except (RuntimeError, ValueError) as error: # another library lacks the operation
                if isinstance(error, shmem.Error):
                    raise
                said = str(error).strip().partition("\n")[0]
                self.note(f"{way.name} has no {case.op} of {case.nbytes} bytes here: {said}")
                continue
            if self.slowest([1.0 if said else 0.0])[0] == 0:
                good.append(way)
                continue
            if said:
                print(f"wrong: {said}", file=sys.stderr, flush=True)
            if way.name in ("python", "C"):
                return None
            self.note(f"{way.name} is left out: {case.op} of {case.nbytes} bytes is wrong")
        return self.measure(case._replace(ways=good))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # --- what is measured ---

    def cases(self, op: str, sizes: list[int]) -> Iterator[Case]:
        if op == "barrier":
            to = (lib.shmemx_barrier_all_on_stream, self.stream) if self.on_gpu else (
                lib.shmem_barrier_all,)
            ways = [Way("python", partial(shmem.barrier, self.stream), None, None),
                    Way("C", prepared(*to), None, None)]
            if self.group:
                ways.append(Way(self.backend, self.dist.barrier, None, None))
            yield Case(op, 0, ways, None)
        elif op == "atomic_fetch_add":
            x = shmem.zeros(1, dtype=self.module.int64, device="cpu")
            at, pe = shmem.address(x), self.n - 1
            yield Case(op, 8, [
                Way("python", partial(shmem.atomic_fetch_add, x, 1, pe), None, None),
                Way("C", prepared(lib.shmem_int64_atomic_fetch_add, at, 1, pe), None, None)],
                None, self.me == 0)
            self.settle()
            shmem.free(x)
        else:
            for size in sizes:
                count = max(1, size // self.size)
                if op in ("reduce_scatter", "all_to_all"):
                    count = -(-count // self.n) * self.n
                yield from getattr(self, op)(count)

    def two_sided(self, op: str, count: int) -> Iterator[Case]:
        """PE 0 puts to the last PE, or gets from there."""
        dest, source, pe = self.empty(count), self.empty(count), self.n - 1
        nbytes, name = count * self.size, f"{op}mem"
        words = (shmem.address(dest), shmem.address(source), nbytes, pe)
        routine = getattr(lib, f"shmemx_{name}_on_stream" if self.on_gpu else f"shmem_{name}")
        if self.on_gpu:
            words += (self.stream,)
        ways = [Way("python", partial(getattr(shmem, op), dest, source, pe), dest, source),
                Way("C", prepared(routine, *words), dest, source)]
        try:
            there = shmem.peer(dest if op == "put" else source, pe)
            to, value = (there, source) if op == "put" else (dest, there)
            ways.append(Way("peer()[...]", partial(type(to).__setitem__, to, ..., value), dest,
                            source))
        except shmem.Error: # on another node
            pass
        here = self.me == (pe if op == "put" else 0)
        expected = self.numbers(count, 0 if op == "put" else pe) if here else None
        yield Case(op, nbytes, ways, expected, self.me == 0)
        self.release(dest, source)

    def put(self, count: int) -> Iterator[Case]:
        yield from self.two_sided("put", count)

    def get(self, count: int) -> Iterator[Case]:
        yield from self.two_sided("get", count)

    def collective(self, op: str, count: int, dest_count: int, routine: str, kind: str,
                   words: tuple[int, ...], expected: Any, peers: Any) -> Iterator[Case]:
        """words: arguments of the C routine behind team, dest and source. peers(dest, source):
        calls by name, of memory of their own."""
        dest, source = self.empty(dest_count), self.empty(count)
        on_host, on_stream = _collectives._find(routine, kind)
        given = (c.SHMEM_TEAM_WORLD, shmem.address(dest), shmem.address(source), *words)
        if on_host and not self.on_gpu:
            call = prepared(on_host, *given)
        else:
            call = prepared(on_stream, *given, self.stream or 0)
            if not self.on_gpu: # the host waits, as the Python package does
                call = partial(_both, call, prepared(lib.shmemx_stream_synchronize, 0))
        ways = [Way("python", partial(getattr(shmem, op), dest, source), dest, source),
                Way("C", call, dest, source)]
        if self.group:
            ways += peers(self.plain(dest_count), self.plain(count))
        yield Case(op, count * self.size, ways, expected)
        self.release(dest, source)

    def release(self, *arrays: Any) -> None:
        self.meet()
        for x in arrays:
            shmem.free(x)

    def all_reduce(self, count: int) -> Iterator[Case]:
        def peers(dest: Any, source: Any) -> Iterator[Way]:
            yield Way(self.backend, partial(self.dist.all_reduce, source), source, source)
            if self.on_gpu:
                yield from self.two_shot(count)

        yield from self.collective("all_reduce", count, count, "sum_reduce", self.type, (count,),
                                   self.sum(count), peers)

    def two_shot(self, count: int) -> Iterator[Way]:
        """Of PyTorch's symmetric memory."""
        name = self.group.group_name
        try:
            import torch.distributed._symmetric_memory as symm_mem

            x = symm_mem.empty(count, dtype=self.dtype, device=self.device)
            symm_mem.rendezvous(x, name)
            routine = self.torch.ops.symm_mem.two_shot_all_reduce_
        except (RuntimeError, ImportError, AttributeError, NotImplementedError) as error:
            self.note(f"symm_mem is left out: {str(error).strip().partition(chr(10))[0]}")
            return
        yield Way("symm_mem", partial(routine, x, "sum", name), x, x)

    def reduce_scatter(self, count: int) -> Iterator[Case]:
        block = count // self.n

        def peers(dest: Any, source: Any) -> Iterator[Way]:
            yield Way(self.backend, partial(self.dist.reduce_scatter_tensor, dest, source), dest,
                      source)

        yield from self.collective("reduce_scatter", count, block, "sum_reduce_scatter", self.type,
                                   (block,), self.sum(block, self.me * block), peers)

    def all_gather(self, count: int) -> Iterator[Case]:
        def peers(dest: Any, source: Any) -> Iterator[Way]:
            yield Way(self.backend, partial(self.dist.all_gather_into_tensor, dest, source), dest,
                      source)

        yield from self.collective(
            "all_gather", count, count * self.n, "fcollect", "mem", (count * self.size,),
            self.joined([self.numbers(count, pe) for pe in range(self.n)]), peers)

    def all_to_all(self, count: int) -> Iterator[Case]:
        block = count // self.n

        def peers(dest: Any, source: Any) -> Iterator[Way]:
            yield Way(self.backend, partial(self.dist.all_to_all_single, dest, source), dest,
                      source)

        yield from self.collective(
            "all_to_all", count, count, "alltoall", "mem", (block * self.size,),
            self.joined([self.numbers(block, pe, self.me * block) for pe in range(self.n)]), peers)

    def broadcast(self, count: int) -> Iterator[Case]:
        def peers(dest: Any, source: Any) -> Iterator[Way]:
            def call() -> None: # in place, so of what the check has filled only the root's stays
                self.dist.broadcast(source, 0)

            yield Way(self.backend, call, source, source)

        yield from self.collective("broadcast", count, count, "broadcast", "mem",
                                   (count * self.size, 0), self.numbers(count, 0), peers)

    # --- the peers ---

    def join(self) -> bool:
        """The default group of torch.distributed. True: this call has made the group."""
        if not self.torch or not self.torch.distributed.is_available():
            return False
        self.dist = self.torch.distributed
        made = not self.dist.is_initialized()
        if made:
            self._init_process_group("nccl" if self.on_gpu else "gloo")
        self.group, self.backend = self.dist.group.WORLD, self.dist.get_backend()
        return made

    def _init_process_group(self, backend: str) -> None:
        words: dict[str, Any] = {}
        if self.on_gpu:
            words["device_id"] = self.torch.device(self.device)
        if "MASTER_ADDR" in os.environ and "RANK" in os.environ: # of torchrun
            self.dist.init_process_group(backend, **words)
            return
        # PE 0 says where the others find it.
        place = shmem.zeros(256, dtype=self.module.uint8, device="cpu")
        if self.me == 0:
            near = shmem.shared().n_pes() == self.n
            host = "127.0.0.1" if near else socket.gethostname()
            store = self.dist.TCPStore(host, 0, self.n, True, wait_for_workers=False)
            text = f"{host}:{store.port}".encode()
            for i, byte in enumerate(text):
                place[i] = byte
        shmem.broadcast(place, root=0)
        if self.me != 0:
            host, _, port = bytes(place.tolist()).rstrip(b"\0").decode().rpartition(":")
            store = self.dist.TCPStore(host, int(port), self.n, False)
        self.dist.init_process_group(backend, store=store, rank=self.me, world_size=self.n, **words)
        shmem.barrier()
        shmem.free(place)


def _both(call: Callable[[], Any], then: Callable[[], Any]) -> None:
    call()
    then()


def ctypes_us() -> float:
    """The time of a C call by ctypes: a put of 0 bytes, which returns at once."""
    x = shmem.zeros(1, device="cpu")
    call = prepared(lib.shmem_putmem, shmem.address(x), shmem.address(x), 0, shmem.my_pe())
    found = []
    for _ in range(11):
        start = time.perf_counter()
        for _ in range(1000):
            call()
        found.append((time.perf_counter() - start) * 1e3)
    shmem.free(x)
    return median(found)


# --- what is printed ------------------------------------------------------------------------------

def parse_size(text: str) -> int:
    number, unit = (text[:-1], text[-1].lower()) if text[-1:].isalpha() else (text, "")
    if not number.isdigit() or unit not in ("", "k", "m", "g"):
        raise argparse.ArgumentTypeError(f"{text}: expected a number of bytes, as 8, 64k or 1m")
    return int(number) << {"": 0, "k": 10, "m": 20, "g": 30}[unit]


def parse_sizes(text: str) -> tuple[int, int]:
    least, _, most = text.partition(":")
    found = parse_size(least), parse_size(most or least)
    if not 0 < found[0] <= found[1]:
        raise argparse.ArgumentTypeError(f"{text}: expected MIN:MAX")
    return found


def parse_ops(text: str) -> list[str]:
    wrong = [op for op in text.split(",") if op not in OPS]
    if wrong:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: expected some of {', '.join(OPS)}")
    return text.split(",")


def parse_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 1 on")
    return int(text)


def sizes_of(least: int, most: int, step: int) -> list[int]:
    found = []
    while least < most:
        found.append(least)
        least *= max(step, 2)
    return [*found, most]


def show_row(row: dict[str, Any], header: bool) -> None:
    """Prints a row, and before it a line of names if these have changed."""
    ways, issue = list(row["us"]), row.get("issue_us", {})
    shown = [name for name in ("python", "C") if issue]
    if header:
        names = [f"{w} us" for w in ways] + [f"give {w} us" for w in shown] + ["+ us"]
        print("\n" + f"{row['op']:<18}{'bytes':>10}" + "".join(f"{n:>16}" for n in names))
    values = [row["us"][w] for w in ways] + [issue[w] for w in shown] + [row["python_us"]]
    print(f"{'':<18}{row['bytes']:>10}" + "".join(f"{v:>16.2f}" for v in values), flush=True)


def head(b: Bench, took: float) -> dict[str, Any]:
    name = ctypes.create_string_buffer(c.SHMEM_MAX_NAME_LEN)
    lib.shmem_info_get_name(name)
    peer = f"{b.torch.__version__} {b.backend}" if b.group else None
    return {"library": name.value.decode(), "platform": shmem.platform(), "pes": b.n,
            "dtype": str(b.dtype).rpartition(".")[2], "device": b.device, "torch": peer,
            "ctypes_us": took}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m shmem.bench", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", type=parse_ops, default=list(OPS), metavar="LIST",
                        help=f"of {', '.join(OPS)}; default: all")
    parser.add_argument("--sizes", type=parse_sizes, default=(8, 64 << 20), metavar="MIN:MAX",
                        help="bytes of a PE's source; default: 8:64m")
    parser.add_argument("--step", type=parse_count, default=8,
                        help="from one size to the next; default: 8")
    parser.add_argument("--runs", type=parse_count, default=21, help="batches; default: 21")
    parser.add_argument("--dtype", default="float32", help="as PyTorch names it; default: float32")
    parser.add_argument("--device", choices=["cuda", "cpu"],
                        help="which heap; default: the GPU's where there is one")
    parser.add_argument("--numpy", action="store_true", help="without PyTorch")
    parser.add_argument("--no-peer", action="store_true", help="without torch.distributed")
    parser.add_argument("--json", action="store_true", help="JSON in place of a table")
    options = parser.parse_args(argv)
    torch: Any = None
    if not options.numpy:
        try:
            import torch # type: ignore[no-redef]
        except ImportError:
            pass
    try:
        return _bench(options, torch)
    except shmem.Error as error:
        print(error, file=sys.stderr, flush=True)
        return 1


def _bench(options: argparse.Namespace, torch: Any) -> int:
    if not shmem.is_initialized():
        if torch and torch.cuda.is_available() and "LOCAL_RANK" in os.environ: # of torchrun
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
            torch.cuda.init()
        shmem.init()
    b = Bench(options, torch)
    made = not options.no_peer and b.join()
    about, rows, wrong = head(b, ctypes_us()), list[dict[str, Any]](), 0
    said: list[str] = []
    table = b.me == 0 and not options.json
    if table:
        print(f"{about['library']}, platform {about['platform']}, {b.n} PEs, {about['dtype']} on "
              f"{b.device}" + (f", torch {about['torch']}" if about["torch"] else ""))
        print("+ us is what Python takes above C, by ctypes with prepared arguments; of which "
              f"ctypes takes {about['ctypes_us']:.2f} us")
        if b.on_gpu:
            print("give: the host's time until the stream has the call")
    for op in options.op:
        try:
            for case in b.cases(op, sizes_of(*options.sizes, options.step)):
                row = b.run(case)
                if row is None:
                    wrong += 1
                    continue
                rows.append(row)
                names = [op, *row["us"]]
                if table:
                    show_row(row, names != said)
                said = names
        except shmem.Error as error: # on all PEs alike
            if "no room" not in str(error):
                raise
            b.note(f"{op}: larger sizes are left out: {error}")
    b.meet()
    shmem.free(b.values)
    if made:
        b.dist.destroy_process_group()
    if table:
        print("\n" + "\n".join([*b.notes, f"{wrong} of the operations are wrong" if wrong else
                                "the data of every operation was right"]), flush=True)
    elif b.me == 0:
        print(json.dumps({**about, "rows": rows, "notes": b.notes, "wrong": wrong,
                          "complete": True}, indent=1), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
