#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""start.py PACKAGE CASE N: how Python's processes become PEs, without oshrun. CASE is a function
below; a process that it starts runs this file again, with more words."""
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

from run import python_with


def sums(n):
    """A PE's part of a job."""
    import shmem

    assert shmem.n_pes() == n
    x = shmem.full((100,), shmem.my_pe() + 1.0)
    shmem.all_reduce(x)
    assert (x == n * (n + 1) // 2).all()
    if shmem.platform() != "cpu" and "torch" in sys.modules:
        signals(n)
    shmem.barrier()


def signals(n):
    """A kernel of Triton with the library's bitcode. A process loads the kernel once: in a second
    job the kernel must find that job's memory."""
    import shmem
    import torch
    from test_triton import add_kernel

    source, dest = shmem.full((100,), shmem.my_pe() + 1.0), shmem.zeros(100)
    signal, out = shmem.zeros(1, dtype=torch.int64), shmem.zeros(2, dtype=torch.int64)
    shmem.barrier()
    add_kernel[(1,)](source, dest, 100, signal, 7, (shmem.my_pe() + 1) % n, out)
    assert out.tolist() == [7, shmem.my_pe() * 100 + n], out
    assert (dest == (shmem.my_pe() - 1) % n + 1).all(), dest


def torchrun(n, words, variables=None):
    with tempfile.TemporaryDirectory() as logs:
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--redirects", "3",
             "--log_dir", logs, "--nproc_per_node", str(n), __file__, *words],
            env={**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})}, timeout=200)
        if done.returncode:
            for folder, _, files in os.walk(logs):
                for file in files:
                    print(open(os.path.join(folder, file)).read()[-3000:])
    assert done.returncode == 0


def group(package, n):
    """Workers of torchrun with a group of gloo: its members are the PEs, three times. The last
    job's group is of PyTorch's back end "fake", which sends nothing."""
    torchrun(n, [package, "group_worker", str(n)])


def group_worker(n):
    import torch.distributed as dist

    import shmem

    dist.init_process_group("gloo")
    for _ in range(2):
        shmem.init() # from the default group
        assert shmem.my_pe() == dist.get_rank()
        sums(n)
        with shmem.Team.from_group(dist.group.WORLD) as team:
            assert team.pes() == list(range(n))
        shmem.finalize()
    back = dist.new_group(list(range(n // 2, n)))
    if dist.get_rank() >= n // 2:
        shmem.init(back)
        sums(n - n // 2)
        shmem.finalize()
    dist.barrier()
    dist.destroy_process_group()
    from torch.testing._internal.distributed.fake_pg import FakeStore # registers the back end

    assert FakeStore
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                          is_master=False)
    dist.init_process_group("fake", store=store, rank=int(os.environ["RANK"]), world_size=n)
    shmem.init(dist.group.WORLD)
    sums(n)
    shmem.finalize()
    os.environ["SHMEM_BOOTSTRAP_INTERFACE"] = "nosuch0" # no id can be made
    try:
        shmem.init(dist.group.WORLD)
        raise AssertionError
    except shmem.Error as error:
        assert ("rank 0 of the group", "nosuch0")[dist.get_rank() == 0] in str(error), error
    dist.destroy_process_group()


def workers(package, n):
    """Workers of torchrun without a group."""
    torchrun(n, [package, "worker", str(n)])


def worker(n):
    import shmem

    shmem.init()
    assert shmem.my_pe() == int(os.environ["RANK"])
    sums(n)


def by_id(rank, n, uid, results):
    import shmem

    try:
        if rank == 0: # errors are exceptions, and the process goes on
            for arguments, text in (({"uid": uid, "rank": n, "size": n}, "expected 0 <= rank"),
                                    ({"uid": b"x", "rank": 0, "size": n}, "1 bytes, expected"),
                                    ({"uid": bytes(128), "rank": 0, "size": n}, "uniqueid is not"),
                                    ({"rank": 0, "size": 2}, "go with a uid"),
                                    ({"thread_level": "all"}, "thread_level = 'all'")):
                try:
                    shmem.init(**arguments)
                except shmem.Error as error:
                    assert text in str(error), error
                else:
                    raise AssertionError(text)
            try:
                shmem.zeros(3)
            except shmem.Error as error:
                assert "before shmem.init" in str(error), error
        shmem.init(uid=uid, rank=rank, size=n)
        sums(n)
        shmem.finalize()
        results.put("right")
    except BaseException as error: # noqa: B902
        results.put(f"{type(error).__name__}: {error}")
        raise


def spawned(package, n):
    """Processes of multiprocessing, by a unique id that the parent makes."""
    import shmem

    context = multiprocessing.get_context("spawn")
    for _ in range(2):
        uid, results = shmem.get_unique_id(), context.Queue()
        processes = [context.Process(target=by_id, args=(rank, n, uid, results))
                     for rank in range(n)]
        for process in processes:
            process.start()
        said = [results.get(timeout=100) for _ in processes]
        for process in processes:
            process.join(100)
        assert said == ["right"] * n, said


def exception(package, n):
    """An exception on one PE ends the job at once, though the others wait for it."""
    start = time.monotonic()
    done = subprocess.run([os.environ["OSHRUN"], "-n", str(n), sys.executable, __file__, package,
                           "exception_worker", str(n)], timeout=100, capture_output=True, text=True)
    assert done.returncode != 0 and "ZeroDivisionError" in done.stderr, done
    assert time.monotonic() - start < 60


def exception_worker(n):
    import shmem

    shmem.init()
    exception_in(n)


def exception_in(n):
    import shmem

    if shmem.my_pe() == n - 1:
        1 / 0 # noqa: B018
    shmem.barrier()


def fails(rank, n, uid):
    import shmem

    shmem.init(uid=uid, rank=rank, size=n)
    exception_in(n)


def spawned_exception(package, n):
    """The same in processes of multiprocessing."""
    import shmem

    context, start = multiprocessing.get_context("spawn"), time.monotonic()
    uid = shmem.get_unique_id()
    processes = [context.Process(target=fails, args=(rank, n, uid)) for rank in range(n)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
        assert process.exitcode, "ended well, or not at all"
    assert time.monotonic() - start < 60


SUITE = """import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch.testing._internal.common_distributed import (MultiProcContinuousTest,
                                                        requires_multicast_support)

import shmem


class Suite(MultiProcContinuousTest):
    world_size = 2
    backend_str = classmethod(lambda cls: "gloo")
    device_type = classmethod(lambda cls: "cpu")

    def test_neighbour(self):
        x = symm_mem.empty(8, device="cpu")
        assert shmem.my_pe() == self.rank and shmem.is_symmetric(x)
        handle = symm_mem.rendezvous(x, dist.group.WORLD)
        x.fill_(self.rank)
        handle.barrier()
        assert (handle.get_buffer(1 - self.rank, (8,), torch.float32) == 1 - self.rank).all()
        handle.barrier()

    @requires_multicast_support()
    def test_multicast(self):
        raise AssertionError
"""


def suite(package, n):
    """torch_suite.py on a suite that is made as PyTorch's are."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "test_suite.py")
        with open(file, "w") as out:
            out.write(SUITE)
        done = subprocess.run(
            [sys.executable, os.path.join(os.path.dirname(__file__), "torch_suite.py"), file],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0 and "Ran 2 tests" in done.stderr and (
        "OK (skipped=1)" in done.stderr), done.stderr


def main():
    package, case, n = sys.argv[1:]
    if case.endswith("worker"):
        globals()[case](int(n))
        return
    python = python_with("numpy", *(["torch"] if case in ("group", "workers", "suite") else []),
                         *(["expecttest"] if case == "suite" else []))
    if os.path.abspath(sys.executable) != os.path.abspath(python) or (
            os.environ.get("PYTHONPATH") != package):
        os.environ.update(PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1")
        os.execv(python, [python, *sys.argv])
    globals()[case](package, int(n))


if __name__ == "__main__":
    main()
