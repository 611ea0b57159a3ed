# SPDX-License-Identifier: MIT
"""Answers to the questions of Iris's programs about the GPU, or without a GPU about the CPU."""
from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch


def count_devices() -> int:
    return max(1, torch.cuda.device_count())


def set_device(gpu_id: int) -> None:
    if torch.cuda.is_available():
        torch.cuda.set_device(gpu_id)


def get_device_id() -> int:
    return torch.cuda.current_device() if torch.cuda.is_available() else 0


def _properties(device_id: int | None) -> Any:
    return torch.cuda.get_device_properties(get_device_id() if device_id is None else device_id)


def get_cu_count(device_id: int | None = None) -> int:
    """The number of compute units or multiprocessors; of a CPU the number of cores."""
    if not torch.cuda.is_available():
        return os.cpu_count() or 1
    return _properties(device_id).multi_processor_count


def get_num_xcc(device_id: int | None = None) -> int:
    """The number of dies with compute units: 8 on MI300X, MI325X, MI350X and MI355X."""
    amd = torch.version.hip and torch.cuda.is_available()
    return 8 if amd and get_arch_string(device_id) in ("gfx942", "gfx950") else 1


def get_arch_string(device_id: int | None = None) -> str:
    if not torch.cuda.is_available():
        return "cpu"
    found = _properties(device_id)
    return found.gcnArchName.partition(":")[0] if torch.version.hip \
        else f"sm_{found.major}{found.minor}"


def get_wall_clock_rate(device_id: int | None = None) -> int:
    """kHz of the clock of records (iris.tracing)."""
    return 100_000 if torch.version.hip else 1_000_000


def get_rocm_version() -> tuple[int, int]:
    if not torch.version.hip:
        return -1, -1
    major, minor, *_ = torch.version.hip.split(".")
    return int(major), int(minor)


def _milliseconds(fn: Callable[[], Any]) -> float:
    if not torch.cuda.is_available():
        start = perf_counter()
        fn()
        return (perf_counter() - start) * 1e3
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    fn()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def do_bench(fn: Callable[[], Any], barrier_fn: Callable[[], Any] = lambda: None,
             preamble_fn: Callable[[], Any] = lambda: None, n_warmup: int = 25, n_repeat: int = 100,
             quantiles: list[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds of a call: mean, median, min, max or all of n_repeat calls, or quantiles. Before
    each call the GPU's last cache is filled with other data."""
    on_gpu = torch.cuda.is_available()
    cache = torch.empty(1 << 28 if on_gpu else 1, dtype=torch.int8,
                        device="cuda" if on_gpu else "cpu")
    times = []
    for i in range(n_warmup + n_repeat):
        barrier_fn()
        preamble_fn()
        cache.zero_()
        barrier_fn()
        time = _milliseconds(fn)
        if i >= n_warmup:
            times.append(time)
    barrier_fn()
    if quantiles is not None:
        found = torch.quantile(torch.tensor(times), torch.tensor(quantiles)).tolist()
        return found if len(found) > 1 else found[0]
    return times if return_mode == "all" else {
        "mean": statistics.mean, "median": statistics.median, "min": min, "max": max}[return_mode](
            times)
