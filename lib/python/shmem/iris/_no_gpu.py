# SPDX-License-Identifier: MIT
"""Programs that say "cuda" and "nccl", on a machine without a GPU: tensors go to the CPU, groups to
gloo, and one device is there. Only `python -m shmem.iris` imports this module."""
from __future__ import annotations

import os
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode


def _moved(x: Any) -> Any:
    on_gpu = isinstance(x, (str, torch.device)) and str(x).partition(":")[0] == "cuda"
    return "cpu" if on_gpu else x


class _OnCpu(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None
                           ) -> Any:
        if function is torch.Tensor.cuda:
            return args[0]
        if function is torch.Tensor.to:
            args = tuple(map(_moved, args))
        kwargs = kwargs or {}
        if "device" in kwargs:
            kwargs = {**kwargs, "device": _moved(kwargs["device"])}
        return function(*args, **kwargs)


class _Event:
    def __init__(self, **_: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Any) -> float:
        return (end.time - self.time) * 1e3


def stand_in() -> None:
    _OnCpu().__enter__()
    for name, answer in {
            "device_count": 1, "current_device": 0, "set_device": None, "synchronize": None,
            "empty_cache": None, "get_device_name": "CPU", "manual_seed": None,
            "get_device_properties": SimpleNamespace(
                name="CPU", multi_processor_count=os.cpu_count(), total_memory=0, major=0, minor=0,
                gcnArchName="cpu")}.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    torch.cuda.Event = _Event # type: ignore[misc, assignment]
    start = dist.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **options: Any) -> None:
        options.pop("device_id", None)
        start("gloo", *args, **options)

    dist.init_process_group = init_process_group
