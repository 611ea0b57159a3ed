# SPDX-License-Identifier: MIT
"""Iris's records of what kernels do, as a file for ui.perfetto.dev: `ctx.tracing.enable()`, in a
kernel `ctx = DeviceContext.initialize(..., tracing=True)` and `ctx.tracing.record_event_start` and
`record_event_end`, then `ctx.tracing.export()`."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from shmem.triton import INTERPRET, RECORD

EVENT_NAMES = dict(enumerate((
    "load", "store", "get", "put", "copy", "atomic_add", "atomic_sub", "atomic_cas", "atomic_xchg",
    "atomic_xor", "atomic_and", "atomic_or", "atomic_min", "atomic_max"))) | {
        1024: "fetch", 2048: "compute", 2049: "reduce", 3072: "wait", 3073: "barrier"}
_EVENTS = tuple(EVENT_NAMES.items()) # Triton refuses code that calls a method of a global


def _make_events() -> type:
    """A class whose objects have the numbers of events. Kernels make the objects."""
    import triton
    import triton.language as tl
    from triton.language import core

    class TraceEvent:
        __annotations__ = dict.fromkeys(EVENT_NAMES.values(), tl.constexpr)

        def __init__(self):
            for number, name in _EVENTS:
                setattr(self, name, number if INTERPRET else tl.constexpr(number))

    if INTERPRET:
        return TraceEvent
    TraceEvent.__init__ = triton.constexpr_function(TraceEvent.__init__)
    return core._aggregate(TraceEvent)


TraceEvent = _make_events()


class Tracing:
    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self.enabled, self.max_events = False, 0
        self._counter = self._records = None

    def buffers(self) -> tuple[Any, ...]:
        return (self._counter, self._records) if self.enabled else ()

    def enable(self, max_events: int = 1_000_000) -> None:
        """Call this before `ctx.get_device_context()`: later contexts keep records."""
        self.enabled, self.max_events = True, max_events
        device = self._ctx.get_device()
        self._counter = torch.zeros(1, dtype=torch.int64, device=device)
        self._records = torch.zeros(max_events, len(RECORD), dtype=torch.int64, device=device)
        self._ctx._build_device_context()

    def reset(self) -> None:
        """Forgets the records."""
        if self.enabled:
            self._counter.zero_()

    def _events(self) -> list[dict[str, Any]]:
        ctx, events = self._ctx, []
        n = min(int(self._counter), self.max_events)
        ticks = 100 if torch.version.hip and not INTERPRET else 1000 # of a microsecond
        for number, row in enumerate(self._records[:n].tolist()):
            record = dict(zip(RECORD, row))
            name, start, end = (record.pop(key) for key in ("event_id", "start", "end"))
            how = {"ph": "X", "dur": (end - start) / ticks} if end else {"ph": "i", "s": "t"}
            events.append({"name": EVENT_NAMES.get(name, f"event {name}"), "cat": "iris",
                           "ts": start / ticks, "pid": ctx.cur_rank, "tid": record["pid"],
                           "args": {**record, "op_index": number}, **how})
        return [*events, {"name": "process_name", "ph": "M", "pid": ctx.cur_rank,
                          "args": {"name": f"Rank {ctx.cur_rank}"}}]

    def export(self, filename: str = "trace.json", merge: bool = False) -> dict[str, Any]:
        """Writes FILENAME_rankR.json; with merge rank 0 also writes the records of all ranks to
        `filename`, and returns them. All ranks call."""
        if not self.enabled:
            self._ctx.warning("tracing.export before tracing.enable")
            return {}
        path = Path(filename)
        own = {"traceEvents": self._events(), "displayTimeUnit": "ns"}
        path.with_name(f"{path.stem}_rank{self._ctx.cur_rank}{path.suffix}").write_text(
            json.dumps(own))
        if not merge:
            return own
        parts = [self._ctx.broadcast(own["traceEvents"], rank)
                 for rank in range(self._ctx.num_ranks)]
        if self._ctx.cur_rank:
            return {}
        merged = {**own, "traceEvents": [event for part in parts for event in part]}
        path.write_text(json.dumps(merged))
        return merged
