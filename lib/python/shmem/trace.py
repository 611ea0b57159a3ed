# SPDX-License-Identifier: MIT
"""Pictures of a run, from the file that the run wrote under SHMEM_TRACE (shmem_trace(1)).

    SHMEM_TRACE=run.json oshrun -n 2 python program.py
    python -m shmem.trace run.json run.png

In a notebook the last line of a cell shows the picture:

    import shmem.trace
    run = shmem.trace.load("run.json")
    run.show(begin=120, end=400)

A traced program turns the record on and off by `start` and `stop`, and marks places by `event`.
Only pictures need matplotlib."""
from __future__ import annotations

import argparse
import io
import json
import os
import sys
from typing import Any, NamedTuple

from ._library import Error, lib

STARTS = ("shmem_init", "shmem_init_thread", "shmemx_init_attr", "start_pes")
KINDS = {"stream": "stream", "kernel": "kernel"}  # by the file's "cat"; else: of the host
TRACKS = 16                                       # of each PE that a picture has
COLOURS = ("#1f5fa8", "#e07b00", "#1b7837", "#d45fa5", "#5e3c99", "#b09000", "#4f9fd4", "#a6431f",
           "#7fbf5f", "#333333")
OTHER = "#bbbbbb"


def start() -> None:
    """Records calls from here on. In a traced program `shmem.init` does so, too."""
    lib.shmemx_trace_start()


def stop() -> None:
    """Records nothing until `start`. Records of kernels go on."""
    lib.shmemx_trace_stop()


def event(number: int) -> None:
    """Records a mark with this number, from 0, at this time. In a program that is not traced the
    call does nothing."""
    if not isinstance(number, int) or not 0 <= number < 1 << 32:
        raise Error(f"shmem.trace.event: number = {number!r}: expected 0 to {(1 << 32) - 1}")
    lib.shmemx_trace_event(number)


class Event(NamedTuple):
    """A call, or a mark. Times are in microseconds from the run's first event on."""
    pe: int
    track: int
    kind: str               # "host", "stream", "kernel", or "mark" of `event`
    name: str               # of the routine
    begin: float
    length: float
    peer: int | None        # the other PE
    bytes: int
    block: int | None       # the workgroup of a kernel's call
    wave: int | None
    error: float            # of streams and kernels: their times are right within this


class Picture:
    """The picture of `show`. A notebook displays it. `figure` is matplotlib's."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=110)
        return file.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """The ending of the path says the format: png, svg, pdf ..."""
        try:
            self.figure.savefig(path)
        except (OSError, ValueError) as error:
            raise Error(f"shmem.trace: {path}: {getattr(error, 'strerror', None) or error}"
                        ) from None


class Trace:
    """A run. `events` are in the order of their begin."""

    def __init__(self, events: list[Event], pes: dict[int, str],
                 tracks: dict[tuple[int, int], str], lost: int) -> None:
        self.events, self.pes, self.tracks = events, pes, tracks
        self.lost = lost    # calls of kernels for which the ring had no room

    def __repr__(self) -> str:
        took = max((e.begin + e.length for e in self.events), default=0.0)
        return f"<shmem.trace.Trace: {len(self.pes)} PEs, {len(self.events)} events, {took:.0f} us>"

    def _repr_png_(self) -> bytes:
        return self.show()._repr_png_()

    def show(self, begin: float | None = None, end: float | None = None, colour: str = "routine",
             arrows: bool = True) -> Picture:
        """A picture: a group of tracks for each PE, and a bar for each call.

        begin, end  microseconds of the run, as of `events`. None: what comes behind init; the end
        colour      "routine": a colour for each of the routines that took longest; "peer": for
                    each other PE
        arrows      from a call's bar to the PE that gets the bytes

        The picture shows at most 16 tracks of a PE, those with most events. The PE's label says how
        many tracks the file has."""
        return _draw(self, begin, end, colour, arrows)


def load(path: str | os.PathLike[str]) -> Trace:
    """Reads the file of SHMEM_TRACE. A job that was ended, or a full disk, leaves a file without an
    end, which is no fault."""
    pes: dict[int, str] = {}
    tracks: dict[tuple[int, int], str] = {}
    events: list[Event] = []
    lost = 0
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, 1):
                words = text.strip().rstrip(",")
                if words in ("[", "]", "") or not text.endswith("\n"):
                    continue
                try:
                    lost += _read(json.loads(words), pes, tracks, events)
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise Error(f"shmem.trace.load: {path}: line {number}: no event of a trace"
                                ) from None
    except OSError as error:
        raise Error(f"shmem.trace.load: {path}: {error.strerror}") from None
    first = min((e.begin for e in events), default=0.0)
    events = sorted((e._replace(begin=e.begin - first) for e in events), key=lambda e: e.begin)
    return Trace(events, dict(sorted(pes.items())), tracks, lost)


def _read(line: Any, pes: dict[int, str], tracks: dict[tuple[int, int], str],
          events: list[Event]) -> int:
    """Adds the event of a line. Returns the number of lost calls that the line tells."""
    pe, what, args = line["pid"], line["ph"], line.get("args", {})
    if what == "M":
        if line["name"] == "process_name":
            pes[pe] = args["name"]
        elif line["name"] == "thread_name":
            tracks[pe, line["tid"]] = args["name"]
    elif what == "i" and "calls" in args:
        return int(args["calls"])
    elif what in ("X", "i"):
        kind = "mark" if what == "i" else KINDS.get(line.get("cat", ""), "host")
        events.append(Event(pe, line["tid"], kind, line["name"], float(line["ts"]),
                            float(line.get("dur", 0)), args.get("pe"), args.get("bytes", 0),
                            args.get("block"), args.get("wave"), args.get("clock +- us", 0.0)))
    else:
        raise ValueError
    return 0


def show(trace: Trace | str | os.PathLike[str], **options: Any) -> Picture:
    """`Trace.show` of a trace, or of a file."""
    return (trace if isinstance(trace, Trace) else load(trace)).show(**options)


def _part(trace: Trace, begin: float | None, end: float | None) -> tuple[list[Event], float, float]:
    """The events between begin and end, and these times."""
    if begin is None: # init takes milliseconds, and hides the rest
        inits = [e.begin + e.length for e in trace.events if e.name in STARTS]
        begin = max(inits, default=0.0)
        if not any(e.begin >= begin for e in trace.events):
            begin = 0.0
    if end is None:
        end = max((e.begin + e.length for e in trace.events), default=0.0)
        end += (end - begin) * 0.01
    if not begin < end:
        raise Error(f"shmem.trace.show: begin = {begin:g}, end = {end:g}: no time between them")
    found = [e for e in trace.events
             if e.begin <= end and (e.begin >= begin or e.begin + e.length > begin)]
    if not found:
        raise Error(f"shmem.trace.show: no events from {begin:g} to {end:g} us")
    return found, begin, end


def _rows(trace: Trace, events: list[Event]) -> tuple[dict[tuple[int, int], int], dict[int, str]]:
    """The place of each track that is drawn, from above, and each PE's label."""
    many: dict[tuple[int, int], int] = {}
    for e in events:
        many[e.pe, e.track] = many.get((e.pe, e.track), 0) + 1
    rows: dict[tuple[int, int], int] = {}
    labels = {}
    for pe in sorted({*trace.pes, *(e.pe for e in events)}):
        mine = sorted((t for t in many if t[0] == pe), key=lambda t: -many[t])
        for track in sorted(mine[:TRACKS]):
            rows[track] = len(rows) + len(labels) # a gap between two PEs
        labels[pe] = f"PE {pe}"
        if len(mine) > TRACKS:
            labels[pe] += f"\n{TRACKS} of {len(mine)} tracks"
        if not mine:
            rows[pe, 0] = len(rows) + len(labels) - 1
    return rows, labels


def _colours(events: list[Event], by: str) -> tuple[dict[Any, str], Any]:
    """The colour of each name, longest time first, and the name of an event."""
    def key(e: Event) -> Any:
        return e.name if by == "routine" else "no other PE" if e.peer is None else f"PE {e.peer}"

    time: dict[Any, float] = {}
    for e in events:
        if e.kind != "mark":
            time[key(e)] = time.get(key(e), 0.0) + e.length
    return dict(zip(sorted(time, key=lambda name: (-time[name], name)), COLOURS)), key


def _draw(trace: Trace, begin: float | None, end: float | None, colour: str,
          arrows: bool) -> Picture:
    if colour not in ("routine", "peer"):
        raise Error(f"shmem.trace.show: colour = {colour!r}: expected routine or peer")
    try:
        from matplotlib.collections import PolyCollection
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError:
        raise Error("shmem.trace.show: no matplotlib here (python3-matplotlib)") from None
    events, begin, end = _part(trace, begin, end)
    rows, labels = _rows(trace, events)
    colours, key = _colours(events, colour)
    span = end - begin
    unit, scale = ("s", 1e-6) if span >= 2e6 else ("ms", 1e-3) if span >= 2e3 else ("us", 1.0)
    height = max(rows.values()) + 1
    figure = Figure(figsize=(12, min(1.6 + 0.3 * height, 60)), layout="constrained")
    axes = figure.add_subplot()
    bars, faces, away, marks = [], [], [], []
    for e in events:
        row = rows.get((e.pe, e.track))
        if row is None:
            continue
        if e.kind == "mark":
            marks.append((e.begin * scale, row, e.name))
            continue
        # At least as wide as a line, or short calls vanish.
        left, right = max(e.begin, begin) * scale, max(e.begin + e.length, e.begin + span / 2000)
        right = min(right, end) * scale
        bars.append([(left, row - 0.4), (left, row + 0.4), (right, row + 0.4), (right, row - 0.4)])
        faces.append(colours.get(key(e), OTHER))
        if e.peer is not None and e.peer != e.pe and e.bytes and e.kind != "stream":
            there = min((r for (pe, _), r in rows.items() if pe == e.peer), default=None)
            if there is not None:
                back = "get" in e.name or e.name.endswith(("_g", "load"))
                away.append((left, row, right, there, back))
    axes.add_collection(PolyCollection(bars, facecolors=faces, linewidths=0, gid="calls"))
    if arrows and away:
        # Towards the PE that gets the bytes, which is the caller of a get.
        tail = [(x1, y1) if back else (x0, y0) for x0, y0, x1, y1, back in away]
        head = [(x1, y0) if back else (x1, y1) for x0, y0, x1, y1, back in away]
        axes.quiver([x for x, _ in tail], [y for _, y in tail],
                    [h[0] - t[0] for h, t in zip(head, tail)],
                    [h[1] - t[1] for h, t in zip(head, tail)], angles="xy", scale_units="xy",
                    scale=1, width=0.0008, headwidth=6, headlength=8, color="#00000070",
                    gid="arrows")
    if marks:
        axes.plot([m[0] for m in marks], [m[1] - 0.45 for m in marks], "v", color="black",
                  markersize=4, linestyle="none", gid="marks")
        for x, row, name in marks[:40]: # more would hide each other
            axes.annotate(name.replace("event ", ""), (x, row - 0.45), xytext=(0, 3),
                          textcoords="offset points", ha="center", fontsize=6)
    for pe in list(labels)[1:]:
        axes.axhline(min(r for (p, _), r in rows.items() if p == pe) - 1, color="#dddddd",
                     linewidth=0.8)
    axes.set(xlim=(begin * scale, end * scale), ylim=(height - 0.2, -1.0),
             xlabel=f"{unit} from the run's first event")
    axes.set_yticks(list(rows.values()),
                    [trace.tracks.get(t, f"thread {t[1] + 1}") for t in rows], fontsize=7)
    for pe, text in labels.items():
        mine = [r for (p, _), r in rows.items() if p == pe]
        axes.annotate(text, (0, sum(mine) / len(mine)), xycoords=("axes fraction", "data"),
                      xytext=(-62, 0), textcoords="offset points", ha="right", va="center",
                      fontweight="bold", fontsize=9)
    shown = [Patch(color=c, label=name) for name, c in colours.items()]
    if OTHER in faces:
        rest = len({key(e) for e in events if e.kind != "mark"}) - len(colours)
        shown.append(Patch(color=OTHER, label=f"{rest} more"))
    axes.legend(handles=shown, loc="upper left", bbox_to_anchor=(1, 1), fontsize=7, frameon=False)
    if trace.lost:
        axes.set_title(f"{trace.lost} calls of kernels had no room (SHMEM_TRACE_RECORDS)",
                       fontsize=8)
    return Picture(figure)


def _main(argv: list[str] | None = None) -> int:
    """python -m shmem.trace FILE PICTURE: draws the run into a file, by its ending a PNG, SVG or
    PDF. --begin and --end are in microseconds from the run's first event."""
    parser = argparse.ArgumentParser(prog="python -m shmem.trace", description=_main.__doc__)
    parser.add_argument("file", help="what SHMEM_TRACE named")
    parser.add_argument("picture")
    parser.add_argument("--begin", type=float, metavar="US")
    parser.add_argument("--end", type=float, metavar="US")
    parser.add_argument("--colour", choices=["routine", "peer"], default="routine")
    parser.add_argument("--no-arrows", action="store_true")
    options = parser.parse_args(argv)
    try:
        show(options.file, begin=options.begin, end=options.end, colour=options.colour,
             arrows=not options.no_arrows).save(options.picture)
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
