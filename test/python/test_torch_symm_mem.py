# SPDX-License-Identifier: MIT
"""PyTorch's symmetric memory on the symmetric heap: shmem.torch.register_backend. Builds its
extension, in half a minute, unless PyTorch's cache has it."""
from __future__ import annotations

import os
import tempfile
import time

import pytest
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

import shmem
import shmem.torch as st

shmem.is_initialized() or shmem.init()
# Before any test: PyTorch changes its back end no more once memory is from it, as in test_bench.py.
st.register_backend()
ME, N = shmem.my_pe(), shmem.n_pes()
DEVICE = "cpu" if shmem.platform() == "cpu" else f"cuda:{torch.cuda.current_device()}"


@pytest.fixture(scope="module")
def world():
    """The default group, of gloo, with the numbers of the PEs."""
    name = torch.tensor([time.time_ns(), os.getpid()])
    name = st.broadcast(name, 0).tolist()
    path = os.path.join(tempfile.gettempdir(), f"shmem-{name[0]}-{name[1]}")
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=ME, world_size=N)
    yield dist.group.WORLD
    dist.destroy_process_group()
    if ME == 0 and os.path.exists(path):
        os.unlink(path)


def wait():
    if DEVICE != "cpu":
        torch.cuda.synchronize()
    shmem.barrier()


def test_name(world):
    assert symm_mem.get_backend(torch.device(DEVICE)) == "SHMEM"


@pytest.mark.parametrize("shape, dtype", [((3, 5), torch.float32), ((1,), torch.uint8),
                                          ((1 << 18,), torch.int64)])
def test_buffers(world, shape, dtype):
    """Each PE sees what the others have stored, in its place."""
    t = symm_mem.empty(*shape, dtype=dtype, device=DEVICE)
    handle = symm_mem.rendezvous(t, world)
    assert (handle.rank, handle.world_size) == (ME, N)
    assert handle.buffer_size == t.nbytes and handle.signal_pad_size == \
        symm_mem.get_signal_pad_size()
    assert handle.buffer_ptrs[ME] == t.data_ptr() and all(handle.buffer_ptrs)
    assert handle.buffer_ptrs_dev and handle.signal_pad_ptrs_dev
    assert handle.multicast_ptr == 0
    assert shmem.is_symmetric(t)
    t.fill_(ME + 1)
    wait()
    for pe in range(N):
        assert (handle.get_buffer(pe, shape, dtype) == pe + 1).all()
        assert handle.get_remote_tensor(pe, shape, dtype).data_ptr() == handle.buffer_ptrs[pe]
    wait()
    handle.get_buffer((ME + 1) % N, shape, dtype).fill_(77)
    wait()
    assert (t == 77).all()
    wait()


def test_signal_pads(world):
    """They begin as zeros, and a peer's stores are seen."""
    t = symm_mem.empty(16, device=DEVICE)
    handle = symm_mem.rendezvous(t, world)
    pad = handle.get_signal_pad(ME)
    assert (pad == 0).all() and pad.numel() * pad.element_size() == handle.signal_pad_size
    wait()
    handle.get_signal_pad((ME + 1) % N)[3] = ME + 5
    wait()
    assert pad[3] == (ME - 1) % N + 5
    wait()


def test_put_and_wait_signal(world):
    t = symm_mem.empty(64, device=DEVICE)
    handle = symm_mem.rendezvous(t, world)
    right, left = (ME + 1) % N, (ME - 1) % N
    for channel in 0, 1, 5:
        for lap in range(50):
            handle.get_buffer(right, (64,), t.dtype).fill_(100 * channel + lap + ME)
            handle.put_signal(right, channel)
            handle.wait_signal(left, channel)
            assert (t == 100 * channel + lap + left).all()
            handle.barrier(channel)
    # Counted: three signals are three waits.
    for _ in range(3):
        handle.put_signal(right, 2)
    for _ in range(3):
        handle.wait_signal(left, 2)
    wait()


def test_barrier(world):
    t = symm_mem.empty(N, dtype=torch.int64, device=DEVICE)
    handle = symm_mem.rendezvous(t, world)
    for lap in range(100):
        for pe in range(N):
            handle.get_buffer(pe, (N,), torch.int64)[ME] = lap
        handle.barrier(0, 10000)
        assert (t == lap).all()
        handle.barrier(1)


def test_a_group(world):
    """A part of the PEs, in its own numbers; memory is made by all."""
    if N < 2:
        pytest.skip("needs two PEs")
    group = dist.new_group(list(range(N - 1, N - 3, -1)) if N == 2 else [1, 3])
    t = symm_mem.empty(8, device=DEVICE)
    t.fill_(ME)
    wait()
    ranks = dist.get_process_group_ranks(group)
    if ME in ranks:
        handle = symm_mem.rendezvous(t, group)
        assert handle.world_size == 2 and ranks[handle.rank] == ME
        handle.barrier(0)
        for i, pe in enumerate(ranks):
            assert (handle.get_buffer(i, (8,), t.dtype) == pe).all()
        handle.barrier(0)
    wait()


def test_offset(world):
    """A view shares its tensor's memory."""
    t = symm_mem.empty(100, device=DEVICE)
    handle = symm_mem.rendezvous(t[50:], world)
    assert handle.buffer_ptrs[ME] == t.data_ptr() and handle.buffer_size == t.nbytes
    wait()


def test_rendezvous_again(world):
    """An operator's rendezvous in each call is the first one, until the name is another group's."""
    t = symm_mem.empty(4, device=DEVICE)
    c10d = torch._C._distributed_c10d
    groups = [dist.new_group([0]), dist.new_group(list(range(N)))]
    for group, size in zip(groups, (1, N)):
        if ME < size:
            c10d._register_process_group("again", group)
            once, twice = (symm_mem.rendezvous(t, "again") for _ in range(2))
            c10d._unregister_process_group("again")
            assert once.world_size == size
            assert once.buffer_ptrs_dev == twice.buffer_ptrs_dev
    wait()


def test_memory_comes_back(world):
    from shmem import _memory

    shmem.collect()
    before = len(_memory._order)
    for _ in range(20):
        t = symm_mem.empty(1 << 20, dtype=torch.uint8, device=DEVICE)
        del t
    shmem.collect()
    assert len(_memory._order) == before or DEVICE != "cpu" # a pool of PyTorch's keeps it


def test_persistent(world):
    make = torch._C._distributed_c10d._SymmetricMemory.empty_strided_p2p
    t = make((10,), (1,), torch.float32, torch.device(DEVICE), world.group_name, 17)
    at = t.data_ptr()
    with pytest.raises(RuntimeError, match="still active"):
        make((10,), (1,), torch.float32, torch.device(DEVICE), world.group_name, 17)
    handle = symm_mem.rendezvous(t, world)
    del t
    assert make((10,), (1,), torch.float32, torch.device(DEVICE), world.group_name,
                17).data_ptr() == at == handle.buffer_ptrs[ME]


def test_the_operators_and_the_core_take_it(world):
    t = symm_mem.empty(32, device=DEVICE)
    t.fill_(ME)
    shmem.barrier()
    assert (st.all_reduce(t) == N * (N - 1) / 2).all()
    torch.ops.shmem.all_reduce_out(t, t)
    assert (t == N * (N - 1) / 2).all()
    wait()


@pytest.mark.skipif(DEVICE == "cpu", reason="kernels of CUDA or HIP")
@pytest.mark.parametrize("name", ["one_shot_all_reduce", "two_shot_all_reduce_"])
def test_operators_of_pytorch(world, name):
    t = symm_mem.empty(1 << 16, dtype=torch.bfloat16, device=DEVICE)
    symm_mem.rendezvous(t, world)
    t.fill_(ME + 1)
    wait()
    y = getattr(torch.ops.symm_mem, name)(t, "sum", world.group_name)
    assert (y == N * (N + 1) / 2).all()
    wait()


@pytest.mark.skipif(DEVICE == "cpu", reason="graphs of CUDA or HIP")
def test_graph(world):
    t = symm_mem.empty(1 << 12, dtype=torch.bfloat16, device=DEVICE)
    symm_mem.rendezvous(t, world)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(2):
            torch.ops.symm_mem.two_shot_all_reduce_(t, "sum", world.group_name)
    for lap in range(1, 4):
        t.fill_(lap + ME)
        wait()
        graph.replay()
        wait()
        assert (t == N * (lap * N + N * (N - 1) / 2)).all()
        wait()


def test_bad_input(world):
    t = symm_mem.empty(8, device=DEVICE)
    handle = symm_mem.rendezvous(t, world)
    channels = handle.signal_pad_size // 4 // N
    # PyTorch's operators ask so whether a tensor is of this memory.
    assert symm_mem.rendezvous(torch.zeros(3, device=DEVICE), world) is None
    other = (torch.cuda.current_device() + 1) % torch.cuda.device_count() if DEVICE != "cpu" else 0
    if DEVICE not in ("cpu", f"cuda:{other}"):
        with pytest.raises(RuntimeError, match=f"empty: device = cuda:{other}: this PE has"):
            symm_mem.empty(8, device=f"cuda:{other}")
    for call, text in (
            (lambda: handle.put_signal(N, 0), f"dst_rank = {N}: the group has {N} members"),
            (lambda: handle.wait_signal(-1, 0), "src_rank = -1"),
            (lambda: handle.barrier(channels), f"channel = {channels}"),
            (lambda: handle.get_buffer(0, (9,), torch.float32), "exceeds"),
            (lambda: torch._C._distributed_c10d._SymmetricMemory.rendezvous(t), "group: neither")):
        with pytest.raises(RuntimeError, match=text):
            call()
    shmem.barrier()
    if DEVICE == "cpu" and N > 1:
        with pytest.raises(RuntimeError, match="has not signalled for 20 ms"):
            handle.wait_signal((ME + 1) % N, 3, 20)
    wait()


def test_in_use(monkeypatch):
    """On a GPU PyTorch refuses another back end once memory is from the one before."""
    def refuses(name):
        raise RuntimeError("Backend can not be changed after use.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(symm_mem, "set_backend", refuses)
    monkeypatch.delenv("SHMEM_DEVICE", raising=False)
    with pytest.raises(shmem.Error, match="in use already in this process: Backend"):
        st.register_backend()
