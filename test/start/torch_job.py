#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Workers of torchrun with gloo: torch_job.py LIBSHMEM N starts N of them, which make three jobs
one after the other in their processes, by an id that PyTorch broadcasts. A tensor is registered,
and each PE stores there; on a GPU the members sum on PyTorch's stream. Skipped without PyTorch."""
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from run import python_with # noqa: E402

JOBS, WORDS = 3, 1 << 18
WORLD = ctypes.c_void_p(1)  # SHMEM_TEAM_WORLD


def start(library, n):
    python = python_with("torch")
    # PyTorch 1.13 with Python 3.11 knows the numbers of one bit only.
    with tempfile.TemporaryDirectory() as logs:
        done = subprocess.run(
            [python, "-m", "torch.distributed.run", "--standalone", "--redirects", "1", "--tee",
             "1", "--log_dir", logs, "--nproc_per_node", str(n), __file__, library],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=100, capture_output=True, text=True)
    good = done.returncode == 0 and done.stdout.count("jobs are right") == n
    if not good:
        print(done.stdout, done.stderr, sep="\n")
    return 0 if good else 1


def work(path):
    import torch
    import torch.distributed as dist

    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]

    class Attr(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("rank", ctypes.c_int), ("n", ctypes.c_int),
                    ("uniqueid", ctypes.POINTER(Id)), ("allgather", ctypes.c_void_p),
                    ("barrier", ctypes.c_void_p), ("context", ctypes.c_void_p),
                    ("thread_level", ctypes.c_int), ("device", ctypes.c_int),
                    ("reserved", ctypes.c_void_p * 6)]

    dist.init_process_group("gloo")
    me, n = dist.get_rank(), dist.get_world_size()
    lib = ctypes.CDLL(path)
    lib.shmemx_error_string.restype = ctypes.c_char_p
    gpu = torch.cuda.is_available() and os.environ.get("SHMEM_DEVICE") != "none"
    if gpu:
        torch.cuda.set_device(me % torch.cuda.device_count())
    where = "cuda" if gpu else "cpu"
    for job in range(JOBS):
        uniqueid = Id()
        if me == 0:
            assert lib.shmemx_get_uniqueid(ctypes.byref(uniqueid)) == 0
        box = [bytes(uniqueid)]
        dist.broadcast_object_list(box, 0)
        uniqueid = Id.from_buffer_copy(box[0])
        attr = Attr(ctypes.sizeof(Attr), me, n, ctypes.pointer(uniqueid), None, None, None, 0, -1)
        assert lib.shmemx_init_attr(0, ctypes.byref(attr)) == 0, lib.shmemx_error_string()
        assert (lib.shmem_my_pe(), lib.shmem_n_pes()) == (me, n)
        # A tensor of PyTorch's is symmetric, and the neighbour stores a part of its own.
        memory = torch.zeros(2 * WORDS, dtype=torch.float32, device=where)
        source = torch.full((WORDS,), float(me + job), device=where)
        if gpu:
            torch.cuda.synchronize()
        handle = ctypes.c_void_p()
        bytes_of = memory.numel() * memory.element_size()
        lib.shmemx_buffer_register(ctypes.c_void_p(memory.data_ptr()), ctypes.c_size_t(bytes_of),
                                   ctypes.byref(handle))
        lib.shmem_float_put(ctypes.c_void_p(memory.data_ptr()), ctypes.c_void_p(source.data_ptr()),
                            ctypes.c_size_t(WORDS), (me + 1) % n)
        lib.shmem_barrier_all()
        left = (me - 1) % n
        assert (memory[:WORDS] == left + job).all(), memory
        sums = memory[WORDS:].data_ptr()
        if gpu:
            lib.shmemx_float_sum_reduce_on_stream(
                WORLD, ctypes.c_void_p(sums), ctypes.c_void_p(memory.data_ptr()),
                ctypes.c_size_t(WORDS), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            torch.cuda.synchronize()
        else:
            lib.shmem_float_sum_reduce(WORLD, ctypes.c_void_p(sums),
                                       ctypes.c_void_p(memory.data_ptr()), ctypes.c_size_t(WORDS))
        assert (memory[WORDS:] == n * (n - 1) / 2 + n * job).all(), memory
        lib.shmem_barrier_all()
        lib.shmemx_buffer_unregister(handle)
        lib.shmem_finalize()
    print(f"rank {me} of {n}: {JOBS} jobs are right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(start(sys.argv[1], int(sys.argv[2])) if len(sys.argv) == 3 else work(sys.argv[1]))
