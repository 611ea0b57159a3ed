# SPDX-License-Identifier: MIT
"""OpenSHMEM for Python: symmetric memory, one-sided communication, collectives and products.

    import shmem
    shmem.init()
    x = shmem.zeros(1024)                      # on every PE; a tensor where PyTorch is imported
    shmem.put(x, x + 1, (shmem.my_pe() + 1) % shmem.n_pes())
    shmem.barrier()

shmem_python(7) is the manual."""
from __future__ import annotations

from ._collectives import (all_gather, all_reduce, all_to_all, all_to_all_v, broadcast, exscan,
                           inscan, reduce, reduce_scatter)
from ._job import finalize, get_unique_id, init, is_initialized, my_pe, n_pes
from ._layer import (Experts, Matmul, Wire, all_gather_matmul, all_reduce_norm, matmul,
                     matmul_all_gather, matmul_all_reduce, matmul_reduce_scatter)
from ._library import Error, platform
from ._memory import (address, arange, as_symmetric, collect, empty, empty_like, free, full,
                      full_like, heap_bases, is_symmetric, linspace, manual_seed, ones, ones_like,
                      peer, rand, rand_like, randint, randn, randn_like, uniform, zeros,
                      zeros_like)
from ._rma import *  # noqa: F403  of many names, which _rma lists
from ._rma import __all__ as _rma_names
from ._team import Team, shared, world

__all__ = [
    "Error", "Experts", "Matmul", "Team", "Wire", "address", "all_gather", "all_gather_matmul",
    "all_reduce", "all_reduce_norm", "all_to_all", "all_to_all_v", "arange", "as_symmetric",
    "broadcast", "collect", "empty", "empty_like", "exscan", "finalize", "free", "full",
    "full_like", "get_unique_id", "heap_bases", "init", "inscan", "is_initialized", "is_symmetric",
    "linspace", "manual_seed", "matmul", "matmul_all_gather", "matmul_all_reduce",
    "matmul_reduce_scatter", "my_pe", "n_pes", "ones", "ones_like", "peer", "platform", "rand",
    "rand_like", "randint", "randn", "randn_like", "reduce", "reduce_scatter", "shared", "uniform",
    "world", "zeros", "zeros_like", *_rma_names]
