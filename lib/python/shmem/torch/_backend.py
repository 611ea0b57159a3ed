# SPDX-License-Identifier: MIT
"""PyTorch's symmetric memory on the symmetric heap."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

import shmem

from .. import _library as c
from .._array import line
from ._space import ranks_of

_module: Any = None


def _allocate(nbytes: int, zeros: int, device: str) -> torch.Tensor:
    x = shmem.empty(nbytes, dtype=torch.uint8, device=device)
    x[nbytes - zeros:].zero_()
    if x.is_cuda:
        torch.cuda.current_stream().synchronize()
    shmem.barrier() # no signal arrives before its word is 0
    return x


def _stream(device: int) -> int:
    return torch.cuda.current_stream(device).cuda_stream


def _on_device(numbers: list[int], device: str) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def register_backend(verbose: bool = False) -> None:
    """`torch.distributed._symmetric_memory.empty` and `rendezvous`, and the operators of
    `torch.ops.symm_mem`, take memory of the symmetric heap from here on: of the GPU, where PyTorch
    has one, and of the host for device="cpu".

    The PEs are the ranks of the default group, by number. `empty` is collective over all of them,
    and its memory is on the PE's GPU. The memory of a tensor is freed as that of any array of the
    package. `rendezvous` waits for no other PE, and is None for a tensor of other memory. There is
    no multicast. Signals are counted: put_signal never waits until an earlier signal has been
    taken. On a GPU's stream wait_signal and barrier ignore timeout_ms; SHMEM_WAIT_LIMIT limits
    them.

    The first call on a machine builds a C++ extension, in about a minute, in the folder of
    TORCH_EXTENSIONS_DIR or in PyTorch's cache; later calls load the extension."""
    global _module
    shmem.n_pes()
    if _module is None:
        if not torch.distributed.is_available():
            raise shmem.Error(line("torch.register_backend", "this PyTorch has no "
                                   "torch.distributed"))
        from torch.utils import cpp_extension

        flags = ["-O2", "-std=c++17", f"-DCOMPARE_GE={c.SHMEM_CMP_GE}"]
        try:
            # By PyTorch's version: its classes are part of the interface.
            _module = cpp_extension.load(
                "shmem_symm_mem_" + "".join(x if x.isalnum() else "_" for x in torch.__version__),
                [str(Path(__file__).with_name("backend.cpp"))], extra_cflags=flags,
                with_cuda=False, verbose=verbose)
        except (RuntimeError, ImportError, OSError) as error:
            lines = str(error).strip().splitlines()
            cause = next((text for text in lines if "error:" in text), lines[0])
            raise shmem.Error(line("torch.register_backend", f"no extension: {cause}")) from error
        _module.install(_allocate, ranks_of, _stream, _on_device)
    if torch.cuda.is_available() and os.environ.get("SHMEM_DEVICE") != "none":
        try:
            torch.distributed._symmetric_memory.set_backend("SHMEM")
        except RuntimeError as error:
            raise shmem.Error(line("torch.register_backend", "PyTorch's symmetric memory is in use "
                                   f"already in this process: {error}")) from error
