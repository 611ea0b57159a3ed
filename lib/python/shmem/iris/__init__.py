# SPDX-License-Identifier: MIT
"""Iris's names over libshmem: a program of Iris's changes one import, or none.

    import shmem.iris as iris                 # in the program, or:
    python -m shmem.iris program.py args      # runs one that says `import iris`

PEs are the ranks of torch.distributed where the program has a process group, as with Iris, else
those of oshrun or torchrun. Without a GPU tensors are on the CPU, and kernels run in Triton's
interpreter. DIFFERS lists the differences from Iris."""
from __future__ import annotations

import logging
import os
import pickle
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

if not torch.cuda.is_available(): # before Triton is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

import shmem
from shmem import Error
from shmem import triton as kernels
from shmem.triton import (DeviceContext, atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min,
                          atomic_or, atomic_sub, atomic_xchg, atomic_xor, copy, get, load, put,
                          store)

from . import ccl, experimental, hip, ops, tracing
from .hip import do_bench
from .tracing import TraceEvent

__all__ = [
    "DEBUG", "DIFFERS", "ERROR", "INFO", "WARNING", "Context", "DeviceContext", "Iris",
    "TraceEvent", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_sub", "atomic_xchg", "atomic_xor", "ccl", "copy", "do_bench", "experimental", "get",
    "get_device_id_for_rank", "hip", "iris", "is_simulation_env", "load", "logger", "ops", "put",
    "set_logger_level", "store", "tracing"]

# The differences from Iris: a name and a sentence. shmem_python(7) has these rows.
DIFFERS = [
    ("iris(heap_size)",
     "is the size of the device heap if this call starts the job, and nothing afterwards: "
     "all Iris objects of a process share one heap, which grows on NVIDIA GPUs"),
    ("iris(allocator_type, copy_engine)",
     "are ignored: there is one allocator, and the library chooses where copy engines are "
     "faster"),
    ("device=", '"cuda" is the CPU where there is no GPU'),
    ("memory_format=, layout=, pin_memory=", "tensors are contiguous and strided"),
    ("memory",
     "of a tensor that no PE refers to any more is given back, at the next call that makes a "
     "tensor; Iris keeps it"),
    ("as_symmetric", "returns a copy if the tensor is not symmetric; Iris's shares its memory"),
    ("group=",
     "becomes a team at its members' first call with it; without torch.distributed pass None"),
    ("atomic_*(scope)", 'is "sys" by default; that of Iris, "gpu", does not reach other GPUs'),
    ("atomic_*(sem)",
     "that releases covers all stores of the program; Triton's covers those of one thread, and "
     "Iris's is Triton's (3.6)"),
    ("load, store, ...(hint)",
     "is not needed for loads of 16 bytes: the translation keeps what the compiler knows of "
     "a pointer"),
    ("put, atomic_*(copy_engine_ctx, use_copy_engine)", "there are no such arguments"),
    ("ccl.Config, ops.FusedConfig", "are taken and not read: the library chooses algorithms"),
    ("ccl",
     "has all_to_all, all_gather, all_reduce, reduce_scatter and broadcast. Sums have the "
     "same bits on all ranks"),
    ("ccl.all_reduce(op)", "also has MIN, MAX, PRODUCT, BAND, BOR and BXOR"),
    ("ccl.reduce_scatter",
     "rank r has rows r*M/ranks to (r+1)*M/ranks of the sum, in the same rows of an output "
     "of M rows, or as an output of M/ranks rows; Iris's tiles depend on Config"),
    ("ops.*(bias)", "has an element for each column, and is added once, after the sum over ranks"),
    ("ops.matmul_reduce_scatter",
     "an output of M rows, or M/ranks, is as ccl.reduce_scatter's; one of N/ranks columns "
     "has this rank's columns"),
    ("ops.all_gather_matmul",
     "gathers along K as Iris's, by a collective and torch.matmul; shmem.all_gather_matmul "
     "gathers rows while it multiplies"),
    ("tracing",
     "times are in microseconds; there is neither xcc_id nor cu_id, and op_index is the "
     "number of the record"),
    ("x, bench, compile, concurrent, tensor_creation, triggered", "there are no such modules"),
    ("CUDAArrayInterface, tensor_from_ptr, make_tensor_view, Tile, hip.*_ipc_handle",
     "there are no such names"),
    ("get",
     "as in Iris's code and tests: from_rank is this rank, to_rank the one that is read. "
     "Iris's text has them the other way, and so DeviceContext.get names the rank that is "
     "read from_rank"),
]

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
Context = DeviceContext

logger = logging.getLogger("iris")
logger.setLevel(os.environ.get("IRIS_LOG_LEVEL", "INFO").upper())
if not logger.handlers:
    logger.addHandler(logging.StreamHandler())
    logger.handlers[0].setFormatter(logging.Formatter("[Iris] %(message)s"))


def set_logger_level(level: int) -> None:
    """iris.DEBUG, INFO, WARNING or ERROR."""
    logger.setLevel(level)


def is_simulation_env() -> bool:
    """Whether this is Iris's own simulator: never."""
    return False


def get_device_id_for_rank(local_rank: int) -> int:
    return local_rank


def _start(heap_size: int) -> None:
    if torch.cuda.is_available():
        os.environ.setdefault("SHMEM_DEVICE_SIZE", str(heap_size))
        if dist.is_available() and dist.is_initialized(): # Iris's rule
            local = int(os.environ.get("LOCAL_RANK", dist.get_rank()))
            torch.cuda.set_device(local % torch.cuda.device_count())
    shmem.init()


class Iris:
    """The job, as a rank sees it. All ranks make it, and call its methods, in the same order."""

    def __init__(self, heap_size: int = 1 << 30, allocator_type: str = "torch",
                 copy_engine: str | None = None) -> None:
        if not shmem.is_initialized():
            _start(heap_size)
            if not (torch.cuda.is_available() or kernels.INTERPRET):
                logger.warning("no GPU, and Triton was imported without TRITON_INTERPRET=1")
        self.cur_rank, self.num_ranks = shmem.my_pe(), shmem.n_pes()
        self.heap_size = heap_size
        self._bases = shmem.heap_bases()
        self.heap_bases = self._bases.view(torch.uint64)
        self.mapped = [base != 0 for base in self._bases.tolist()]
        self._device = self._bases.device
        self.device = str(self._device)
        self.gpu_id = self._device.index or 0
        self.tracing = tracing.Tracing(self)
        self.ccl = SimpleNamespace(**{name: self._bound(getattr(ccl, name), 2)
                                      for name in ccl.METHODS})
        self._teams: dict[Any, shmem.Team | None] = {None: None}
        self._scratch: dict[Any, torch.Tensor] = {}
        self._build_device_context()

    def _bound(self, function: Any, place: int) -> Any:
        """A function of ccl or ops as a method, with this object as argument number `place`."""
        return lambda *args, **options: function(*args[:place], self, *args[place:], **options)

    @cached_property
    def ops(self) -> SimpleNamespace:
        return SimpleNamespace(**{name: self._bound(getattr(ops, name), 0) for name in ops.METHODS})

    # --- this rank and its device ---

    def get_rank(self) -> int:
        return self.cur_rank

    get_cur_rank = get_rank

    def get_num_ranks(self) -> int:
        return self.num_ranks

    def get_heap_bases(self) -> torch.Tensor:
        """A tensor of uint64, one for each rank, by which kernels translate addresses."""
        return self.heap_bases

    def get_device(self) -> torch.device:
        return self._device

    def get_device_id(self) -> int:
        return self.gpu_id

    def get_cu_count(self) -> int:
        return hip.get_cu_count(self.gpu_id)

    def _build_device_context(self) -> None:
        self._context = kernels.context(*self.tracing.buffers())

    def get_device_context(self) -> torch.Tensor:
        """The tensor of which a kernel makes a DeviceContext."""
        return self._context

    # --- messages ---

    def _log(self, level: int, message: Any) -> None:
        logger.log(level, "[%d/%d] %s", self.cur_rank, self.num_ranks, message)

    def debug(self, message: Any) -> None:
        self._log(DEBUG, message)

    def info(self, message: Any) -> None:
        self._log(INFO, message)

    def warning(self, message: Any) -> None:
        self._log(WARNING, message)

    def error(self, message: Any) -> None:
        self._log(ERROR, message)

    # --- ranks together ---

    def team(self, group: Any) -> shmem.Team | None:
        """The team of a group of torch.distributed; None: all ranks."""
        if group not in self._teams:
            self._teams[group] = shmem.Team.from_group(group)
        return self._teams[group]

    def barrier(self, stream: Any = None, group: Any = None) -> None:
        """Waits until this rank's GPU, or the stream, is done, and all other ranks have called."""
        if self._device.type == "cuda":
            (stream or torch.cuda).synchronize()
        shmem.barrier() if group is None else shmem.sync(self.team(group))

    def device_barrier(self, group: Any = None) -> None:
        """A barrier on the current stream, which a graph may capture."""
        stream = torch.cuda.current_stream() if self._device.type == "cuda" else None
        shmem.barrier(stream) if group is None else shmem.sync(self.team(group), stream)

    def broadcast(self, value: Any, src: int = 0, source_rank: int | None = None) -> Any:
        """The value that rank `src` passes: a number, an object that pickle takes, or a tensor or
        an array, which all ranks get as an array of NumPy."""
        root = src if source_rank is None else source_rank
        if not 0 <= root < self.num_ranks:
            raise Error(f"PE {self.cur_rank}: iris.broadcast: src = {root}: expected a rank from 0 "
                        f"to {self.num_ranks - 1}")
        data = b""
        if self.cur_rank == root:
            data = pickle.dumps(value.detach().cpu().numpy() if torch.is_tensor(value) else value)
        size = shmem.full((1,), len(data), dtype=torch.int64, device="cpu")
        shmem.broadcast(size, root=root)
        box = shmem.empty(int(size), dtype=torch.uint8, device="cpu")
        if self.cur_rank == root:
            box.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        shmem.broadcast(box, root=root)
        return pickle.loads(box.numpy().tobytes())

    # --- memory ---

    def as_symmetric(self, external_tensor: torch.Tensor) -> torch.Tensor:
        return shmem.as_symmetric(external_tensor)

    def is_symmetric(self, tensor: torch.Tensor) -> bool:
        return shmem.is_symmetric(tensor)

    def _make(self, name: str, size: Any, fill: Any, out: Any = None, dtype: Any = None,
              device: Any = None, requires_grad: bool = False, layout: Any = None,
              pin_memory: bool = False, memory_format: Any = None) -> torch.Tensor:
        """A symmetric tensor, or `out`, that `fill` has filled. Then all ranks meet, so that no
        rank stores to the tensor before the fill."""
        while len(size) == 1 and not isinstance(size[0], int):
            size = size[0]
        dtype = dtype or torch.get_default_dtype()
        if device is not None and self._device.type == "cuda" and torch.device(device) not in (
                self._device, torch.device("cuda")):
            raise Error(f"PE {self.cur_rank}: iris.{name}: device = {device}: the symmetric heap "
                        f"is on {self._device}")
        if out is None:
            made = shmem.empty(*size, dtype=dtype, device=self._device)
        else:
            if out.dtype != dtype or out.numel() != torch.Size(size).numel():
                raise Error(f"PE {self.cur_rank}: iris.{name}: out: {tuple(out.shape)} of "
                            f"{out.dtype}, expected {tuple(size)} of {dtype}")
            if not shmem.is_symmetric(out):
                raise Error(f"PE {self.cur_rank}: iris.{name}: out: not symmetric")
            made = out.view(size)
        if fill is not None:
            fill(made)
            self.barrier()
        return made.requires_grad_() if requires_grad else made

    def empty(self, *size: Any, **options: Any) -> torch.Tensor:
        return self._make("empty", size, None, **options)

    def zeros(self, *size: Any, **options: Any) -> torch.Tensor:
        return self._make("zeros", size, torch.Tensor.zero_, **options)

    def ones(self, *size: Any, **options: Any) -> torch.Tensor:
        return self._make("ones", size, lambda t: t.fill_(1), **options)

    def full(self, size: Any, fill_value: Any, *, dtype: Any = None, **options: Any
             ) -> torch.Tensor:
        if dtype is None:
            dtype = torch.tensor(fill_value).dtype
        return self._make("full", (size,), lambda t: t.fill_(fill_value), dtype=dtype, **options)

    def zeros_like(self, input: torch.Tensor, *, dtype: Any = None, device: Any = None,
                   **options: Any) -> torch.Tensor:
        return self._make("zeros_like", tuple(input.shape), torch.Tensor.zero_,
                          dtype=dtype or input.dtype, device=device, **options)

    def rand(self, *size: Any, generator: Any = None, **options: Any) -> torch.Tensor:
        return self._make("rand", size, lambda t: t.uniform_(generator=generator), **options)

    def randn(self, *size: Any, generator: Any = None, **options: Any) -> torch.Tensor:
        return self._make("randn", size, lambda t: t.normal_(generator=generator), **options)

    def uniform(self, size: Any, low: float = 0.0, high: float = 1.0, dtype: Any = torch.float
                ) -> torch.Tensor:
        return self._make("uniform", (size,), lambda t: t.uniform_(low, high), dtype=dtype)

    def randint(self, *args: Any, generator: Any = None, dtype: Any = torch.int64, **options: Any
                ) -> torch.Tensor:
        """randint(high, size) or randint(low, high, size)."""
        *low, high, size = args
        return self._make("randint", (size,), lambda t: t.random_(
            low[0] if low else 0, high, generator=generator), dtype=dtype or torch.int64, **options)

    def arange(self, start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None,
               **options: Any) -> torch.Tensor:
        if end is None:
            start, end = 0, start
        values = torch.arange(start, end, step, dtype=dtype, device=self._device)
        return self._make("arange", values.shape, lambda t: t.copy_(values), dtype=values.dtype,
                          **options)

    def linspace(self, start: Any, end: Any, steps: int, out: Any = None, dtype: Any = None,
                 **options: Any) -> torch.Tensor:
        values = torch.linspace(start, end, steps, dtype=dtype, device=self._device)
        return self._make("linspace", values.shape, lambda t: t.copy_(values), out,
                          dtype=values.dtype, **options)

    def scratch(self, name: str, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        """Symmetric memory, the same on all ranks, that calls of ccl and ops use again."""
        key = name, tuple(shape), dtype
        if key not in self._scratch:
            self._scratch[key] = self.empty(*shape, dtype=dtype)
        return self._scratch[key]


def iris(heap_size: int = 1 << 30, allocator_type: str = "torch", copy_engine: str | None = None
         ) -> Iris:
    """The job, as a rank sees it; the first call makes this process a PE."""
    return Iris(heap_size, allocator_type, copy_engine)
