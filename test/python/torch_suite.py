#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_suite.py FILE [TEST...]: PyTorch's own tests of symmetric memory, such as
test/distributed/test_symmetric_memory.py of its source, on the symmetric heap. The file must fit
the installed PyTorch, which needs the package expecttest for it. TEST: names as unittest takes
them; default: all tests.

Each process of a test becomes a PE when it makes its group. PyTorch itself skips tests that ask for
multicast where there is none. After a test that fails PyTorch skips the rest of its class; tests
that are named one by one go on."""
import os
import sys
from contextlib import nullcontext
from pathlib import Path

os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _SymmetricMemory

import shmem
import shmem.torch

# The file asks when it is imported, and to ask is to use a back end: PyTorch would then refuse
# register_backend, which needs a group.
_SymmetricMemory.has_multicast_support = staticmethod(lambda device, index: False)

begin, end = dist.init_process_group, dist.destroy_process_group


def begin_with_pes(*arguments, **options):
    begin(*arguments, **options)
    if dist.get_backend() == "fake":
        return
    # The group may be of NCCL, and some tests do not choose a GPU themselves. One has all on GPU 0.
    one = os.environ.get("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES")
    gpu = None if not torch.cuda.is_available() else 0 if one else dist.get_rank()
    with nullcontext() if gpu is None else torch.cuda.device(gpu):
        shmem.init(dist.group.WORLD, device=gpu)
        shmem.torch.register_backend()


def end_with_pes(group=None):
    if group in (None, dist.group.WORLD):
        shmem.finalize()
    end(group)


# The tests' processes import this file again, as multiprocessing does for each program.
dist.init_process_group, dist.destroy_process_group = begin_with_pes, end_with_pes

if __name__ == "__main__":
    import unittest

    file = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(file.parent))
    unittest.main(module=file.stem, argv=[file.name, "-v", *sys.argv[2:]])
