# SPDX-License-Identifier: MIT
"""shmem.compat: the names of mori.shmem, nvshmem.core and rocshmem4py, as programs import them."""
from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import torch

import shmem
import shmem.compat

shmem.is_initialized() or shmem.init()
shmem.compat.install()

import mori.shmem  # noqa: E402
import mori.shmem.tensor_utils  # noqa: E402
import nvshmem.core as nv  # noqa: E402
import nvshmem.core.interop.torch  # noqa: E402
import rocshmem4py as roc  # noqa: E402
from rocshmem4py.interop import torch as roc_torch  # noqa: E402

ME, N = shmem.my_pe(), shmem.n_pes()
RIGHT, LEFT = (ME + 1) % N, (ME - 1) % N
WORLD = nv.Teams.TEAM_WORLD


class Stream:
    """As cuda.core's streams: what has __cuda_stream__."""

    def __cuda_stream__(self):
        return 0, 0 if shmem.platform() == "cpu" else torch.cuda.current_stream().cuda_stream


@pytest.fixture(params=["host", "stream"])
def stream(request):
    return None if request.param == "host" else Stream()


def settle():
    if shmem.platform() == "cpu":
        shmem._library.lib.shmemx_stream_synchronize(0)
    else:
        torch.cuda.synchronize()
    shmem.barrier()


def ours(text):
    """A line of the library's, as an exception."""
    return pytest.raises(shmem.Error, match=text)


# --- the packages ---------------------------------------------------------------------------------

def test_imports():
    assert mori.shmem.__name__ == "shmem.compat.mori" and nv.__name__ == "shmem.compat.nvshmem"
    assert nvshmem.core.interop.torch.tensor is nv.tensor
    assert roc_torch.create_tensor is roc.create_tensor
    rows = shmem.compat.differs()
    assert len(rows) > 20 and all(len(row) == 3 and all(row) for row in rows)


def test_program(tmp_path):
    """python -m shmem.compat: a program that does not know this library."""
    code = textwrap.dedent("""
        import sys
        import mori.shmem, nvshmem.core, rocshmem4py
        from nvshmem.core import SignalOp
        assert __name__ == "__main__" and sys.argv[1:] == ["one", "-m"], sys.argv
        nvshmem.core.init()
        assert mori.shmem.shmem_npes() == rocshmem4py.rocshmem_n_pes() == 1
        t = nvshmem.core.tensor((4,))
        t.fill_(3)
        nvshmem.core.reduce(nvshmem.core.Teams.TEAM_WORLD, t, t, "sum")
        print("the sum is", t.sum().item())
        nvshmem.core.finalize()
        """)
    path = tmp_path / "program.py" # Python imports from a program's folder
    path.write_text(code)
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("PMIX", "PMI_", "PRTE"))}
    done = subprocess.run([sys.executable, "-m", "shmem.compat", str(path), "one", "-m"], env=keep,
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout == "the sum is 12.0\n", done


@pytest.mark.parametrize("init", [
    "import nvshmem.core as m; m.init(uid=m.UniqueID(uid), rank=rank, nranks=2, "
    "initializer_method='uid'); me, n, end = m.my_pe(), m.n_pes(), m.finalize",
    "import mori.shmem as m; m.shmem_init_attr(m.MORI_SHMEM_INIT_WITH_UNIQUEID, rank, 2, uid); "
    "me, n, end = m.shmem_mype(), m.shmem_npes(), m.shmem_finalize",
    "import rocshmem4py as m; m.rocshmem_init_attr(rank, 2, uid); "
    "me, n, end = m.rocshmem_my_pe(), m.rocshmem_n_pes(), m.rocshmem_finalize"])
def test_start_by_a_unique_id(init, tmp_path):
    """Two processes without a launcher, which another one has made an id for."""
    if ME == 0:
        program = tmp_path / "program.py"
        program.write_text(
            "import sys\nrank, uid = int(sys.argv[1]), bytes.fromhex(sys.argv[2])\n"
            + init.replace("; ", "\n") + "\nassert (me, n) == (rank, 2)\nend()\n")
        uid = shmem.get_unique_id().hex()
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("PMIX", "PMI_", "PRTE"))}
        two = [subprocess.Popen([sys.executable, "-m", "shmem.compat", program, str(rank), uid],
                                env=keep) for rank in range(2)]
        assert [p.wait(100) for p in two] == [0, 0]
    shmem.barrier()


# --- nvshmem.core ---------------------------------------------------------------------------------

def test_nv_queries():
    assert (nv.my_pe(), nv.n_pes()) == (ME, N)
    assert nv.init_status() == nv.InitStatus.STATUS_IS_INITIALIZED
    assert nv.get_version().openshmem_spec_version == "1.6" and "libshmem" in nv.get_name().lower()
    assert nv.query_thread() in list(nv.ThreadSupport)
    assert len(bytes(nv.get_unique_id(empty=True))) == 128
    uid = nv.get_unique_id()
    assert bytes(nv.UniqueID(bytes(uid))) == bytes(uid) and any(bytes(uid))


def test_nv_tensor():
    t = nv.tensor((3, 5), torch.int32)
    assert t.shape == (3, 5) and t.dtype == torch.int32 and shmem.is_symmetric(t)
    t.fill_(ME)
    shmem.barrier()
    assert (nv.get_peer_tensor(t, RIGHT) == RIGHT).all()
    made, nbytes, kind = nv.tensor_get_buffer(t)
    assert nbytes == made.size == 60 and kind == "torch.int32"
    assert (torch.from_dlpack(made).view(torch.int32) == ME).all()
    shmem.barrier()
    nv.free_tensor(t)
    with ours("not of tensor"):
        nv.free_tensor(t)
    f = nv.tensor((2, 3), torch.float32, morder="F")
    assert f.stride() == (1, 2)
    assert nv.bytetensor((7,)).dtype == torch.uint8
    with ours("morder"):
        nv.tensor((1,), morder="X")


def test_nv_buffers(stream):
    a, b = nv.buffer(4096), nv.buffer(4096)
    mine, other = torch.from_dlpack(a), torch.from_dlpack(b)
    mine.fill_(ME + 1)
    other.zero_()
    settle()
    nv.put(b, a, RIGHT, stream)
    nv.quiet(stream)
    settle()
    assert (other == LEFT + 1).all()
    settle()
    nv.get(b, a, RIGHT, stream)
    nv.quiet(stream)
    settle()
    assert (other == RIGHT + 1).all()
    peer = nv.get_peer_buffer(a, RIGHT)
    assert (torch.from_dlpack(peer) == RIGHT + 1).all()
    settle()
    nv.free(a), nv.free(b)
    with ours("freed"):
        nv.free(a)
    with ours("not of buffer"):
        nv.free(peer)


def test_nv_signals(stream):
    data, signal = nv.tensor((100,), torch.float32), nv.buffer(8)
    word = torch.from_dlpack(signal).view(torch.int64)
    word.zero_()
    settle()
    source = torch.full((100,), float(ME), device=data.device)
    for lap in range(1, 4):
        nv.put_signal(data, source, signal, 1, nv.SignalOp.SIGNAL_ADD, RIGHT, stream)
        nv.signal_wait(signal, lap, nv.ComparisonType.CMP_GE, stream)
        settle()
        assert (data == LEFT).all() and nv.signal_fetch(signal) == lap
        settle()
    nv.signal_op(signal, 40, nv.SignalOp.SIGNAL_SET, RIGHT, stream)
    nv.signal_wait(signal, 40, nv.ComparisonType.CMP_EQ, stream)
    settle()
    nv.free(signal), nv.free_tensor(data)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16, torch.bfloat16])
def test_nv_collectives(dtype, stream):
    x, y = nv.tensor((N * 6,), dtype), nv.tensor((N * 6,), dtype)
    part, whole = nv.tensor((6,), dtype), nv.tensor((N * N * 6,), dtype)
    x.copy_(torch.arange(N * 6) + ME)
    settle()
    sums = N * torch.arange(N * 6) + N * (N - 1) // 2
    nv.reduce(WORLD, y, x, "sum", stream)
    settle()
    assert (y.cpu().double() == sums).all()
    nv.reducescatter(WORLD, part, x, "sum", stream)
    settle()
    assert (part.cpu().double() == sums[6 * ME:6 * ME + 6]).all()
    nv.fcollect(WORLD, whole, x, stream)
    settle()
    assert (whole.cpu().view(N, -1).double() == torch.arange(N * 6) +
            torch.arange(N).unsqueeze(1)).all()
    nv.alltoall(WORLD, y, x, stream)
    settle()
    assert (y.cpu().view(N, 6).double() == torch.arange(6 * ME, 6 * ME + 6) +
            torch.arange(N).unsqueeze(1)).all()
    shmem.barrier() # all have read y
    nv.broadcast(WORLD, y, x, N - 1, stream)
    settle()
    assert (y.cpu().double() == torch.arange(N * 6) + N - 1).all()
    nv.barrier(WORLD, stream), nv.sync(WORLD, stream), nv.barrier_all(stream), nv.sync_all(stream)
    settle()
    for t in x, y, part, whole:
        nv.free_tensor(t)


def test_nv_collective_on_buffer():
    a, b = nv.buffer(40), nv.buffer(40)
    torch.from_dlpack(a).view(torch.int32).fill_(ME)
    shmem.barrier()
    spent = nv.collective_on_buffer("reduce", WORLD, b, a, "int32", "max", enable_timing=True)
    settle()
    assert (torch.from_dlpack(b).view(torch.int32) == N - 1).all() and spent > 0
    for word, text in (("gather", "coll = 'gather'"), ("reduce", "dtype = 'decimal'")):
        with ours(text):
            nv.collective_on_buffer(word, WORLD, b, a, "decimal", "max")
    shmem.barrier()
    nv.free(a), nv.free(b)


def test_nv_teams():
    config = nv.TeamConfig()
    even = nv.team_split_strided(WORLD, 0, 2, (N + 1) // 2, config, 0, "EVEN")
    if ME % 2 == 0:
        assert nv.Teams.EVEN == nv.Teams["EVEN"] == even and "EVEN" in nv.Teams
        assert (nv.team_my_pe(even), nv.team_n_pes(even)) == (ME // 2, (N + 1) // 2)
        assert nv.team_translate_pe(even, nv.team_my_pe(even), WORLD) == ME
        nv.team_destroy("EVEN")
        assert "EVEN" not in nv.Teams
        with ours("there is no such team"):
            nv.team_n_pes(even)
    else:
        assert even is None
    shmem.barrier()
    x, y = nv.team_split_2d(WORLD, 2 if N > 1 else 1, config, 0, config, 0)
    assert nv.team_n_pes(x) in (1, 2) and nv.team_n_pes(y) >= 1
    shmem.barrier()
    nv.team_destroy(x), nv.team_destroy(y)
    assert nv.team_n_pes(nv.Teams.TEAM_SHARED) == nv.team_n_pes(nv.Teams.TEAM_NODE) == N
    with ours("shmem.Team.from_list"):
        nv.team_init(config, 0, 2, 0)


def test_nv_atomics():
    t = nv.tensor((4,), torch.int64)
    t.zero_()
    settle()
    for pe in range(N):
        nv.atomic_add(t, 5, pe)
        nv.atomic_inc(t, remote_pe=pe, offset=1)
    settle()
    assert t.tolist() == [5 * N, N, 0, 0]
    settle()
    assert nv.atomic_fetch(t, RIGHT) == 5 * N
    if ME == 0:
        assert nv.atomic_compare_swap(t, 0, 9, 0, offset=2) == 0
        assert nv.atomic_swap(t, 1, 0, offset=2) == 9
    with ours("offset = 4"):
        nv.atomic_fetch(t, 0, offset=4)
    shmem.barrier()
    made, _, _ = nv.tensor_get_buffer(t)
    assert nv.atomic_fetch(made, ME, offset=1, dtype="int64") == N
    shmem.barrier()
    nv.free_tensor(t)


def test_nv_external():
    t = torch.zeros(1 << 18)
    nv.register_external_tensor(t)
    source = torch.full((1 << 18,), float(ME))
    if shmem.platform() == "cpu":
        nv.put(t, source, RIGHT)
        nv.quiet()
        shmem.barrier()
        assert (t == LEFT).all()
    with ours("registered already"):
        nv.register_external_tensor(t)
    shmem.barrier()
    nv.unregister_external_tensor(t)
    with ours("has not been registered"):
        nv.unregister_external_tensor(t)


def test_nv_bad_input():
    t, plain = nv.tensor((4,)), torch.zeros(4)
    for call, text in (
            (lambda: nv.put(t, plain), "pe = -1"),
            (lambda: nv.put(plain, t, 0), "not symmetric"),
            (lambda: nv.put("x", t, 0), "dst"),
            (lambda: nv.reduce(WORLD, t, t, "mean"), "op = 'mean'"),
            (lambda: nv.reduce(99, t, t, "sum"), "team = 99"),
            (lambda: nv.signal_wait(nv.bytetensor((4,)), 0, 0), "a signal has 8"),
            (lambda: nv.get_multicast_tensor(WORLD, t), "no multicast"),
            (lambda: nv.init(initializer_method="magic"), "initializer_method = 'magic'"),
            (lambda: nv.init(initializer_method="uid"), "needs uid, rank and nranks"),
            (lambda: nv.init(initializer_method="mpi"), "mpi_comm"),
            (lambda: nv.init(), "is a PE already"),
            (lambda: nv.library_init(0), "module_init"),
            (lambda: nv.buffer(1 << 50), "no room")):
        with ours(text):
            call()
        shmem.barrier()


# --- mori.shmem -----------------------------------------------------------------------------------

def test_mori():
    m = mori.shmem
    assert (m.shmem_mype(), m.shmem_npes(), m.shmem_num_qp_per_pe()) == (ME, N, 1)
    assert len(m.shmem_get_unique_id()) == 128
    t = m.mori_shmem_create_tensor((5, 3), torch.int32)
    t.fill_(ME)
    m.shmem_barrier_all()
    peers = [mori.shmem.tensor_utils.symm_mori_shmem_tensor(t, pe) for pe in range(N)]
    assert [int(x[4, 2]) for x in peers] == list(range(N)) and peers[ME] is t
    assert m.shmem_ptr_p2p(t.data_ptr(), ME, RIGHT) == peers[RIGHT].data_ptr()
    m.shmem_barrier_on_stream(None)
    settle()
    m.shmem_free(t.data_ptr())
    at = m.shmem_malloc_align(4096, 100)
    assert at % 4096 == 0
    m.shmem_free(at)
    m.shmem_free(m.shmem_ext_malloc_with_flags(100, 3))
    assert [len(m.mori_shmem_create_tensor_list_intra_node((2,), torch.float32, N))] == [N]
    memory = torch.zeros(1 << 16)
    assert m.shmem_buffer_register(memory.data_ptr(), memory.nbytes) == 0
    assert m.shmem_buffer_deregister(memory.data_ptr(), memory.nbytes) == 0
    for call, text in (
            (lambda: m.shmem_malloc(-1), "size = -1"),
            (lambda: m.shmem_malloc_align(3, 8), "alignment = 3"),
            (lambda: m.shmem_free(memory.data_ptr()), "not on the symmetric heap"),
            (lambda: m.shmem_ptr_p2p(memory.data_ptr(), ME, 0), "not symmetric"),
            (lambda: m.shmem_ptr_p2p(at, N, 0), f"my_pe = {N}"),
            (lambda: m.symm_mori_shmem_tensor(memory, 0), "not of mori_shmem_create_tensor"),
            (lambda: m.shmem_buffer_deregister(17, 3), "has not been registered"),
            (lambda: m.shmem_init_attr(0, 0, 1, bytes(128)), "flags = 0"),
            (lambda: m.shmem_torch_process_group_init("nobody"), "nobody")):
        with ours(text):
            call()
    shmem.barrier()


# --- rocshmem4py ----------------------------------------------------------------------------------

def test_roc():
    assert (roc.rocshmem_my_pe(), roc.rocshmem_n_pes()) == (ME, N)
    assert len(roc.rocshmem_get_uniqueid()) == 128
    buf, other = roc.rocshmem_create_buffer(256), roc.SymmetricBuffer(256)
    source = torch.full((256,), ME + 1, dtype=torch.uint8)
    if shmem.platform() == "cpu":
        roc.rocshmem_putmem(buf.ptr, source.data_ptr(), 256, RIGHT)
        roc.rocshmem_quiet()
        roc.rocshmem_barrier_all()
        assert (torch.as_tensor(__import__("numpy").asarray(buf)) == LEFT + 1).all()
        roc.rocshmem_getmem(source.data_ptr(), buf.ptr, 256, RIGHT)
        assert (source == ME + 1).all()
    table = roc.rocshmem_get_peer_ptr_table(buf.ptr)
    assert table[ME] == int(buf) and table[RIGHT] == buf.get_remote_ptr(RIGHT)
    assert roc.rocshmem_get_peer_buffer(buf, RIGHT).ptr == table[RIGHT]
    shmem.barrier()
    at = roc.rocshmem_calloc(4, 8)
    assert roc.rocshmem_int64_atomic_fetch_add(at, 3, ME) == 0
    assert roc.rocshmem_int64_atomic_fetch(at, ME) == 3
    roc.rocshmem_barrier_all_on_stream(0)
    settle()
    roc.rocshmem_free(at), buf.free(), other.free(), other.free()
    with pytest.raises(AttributeError, match="rocshmem_no_such"):
        roc.rocshmem_no_such()
    with ours("is a PE already"):
        roc.rocshmem_init()


def test_roc_teams():
    status, team = roc.rocshmem_team_split_strided(roc.ROCSHMEM_TEAM_WORLD, 0, 1, N)
    assert status == roc.ROCSHMEM_SUCCESS and roc.rocshmem_team_n_pes(team) == N
    assert roc.rocshmem_team_my_pe(team) == ME
    assert roc.rocshmem_team_translate_pe(team, RIGHT, roc.ROCSHMEM_TEAM_WORLD) == RIGHT
    x, y = roc_torch.create_tensor((N, 4), torch.float32), roc.create_tensor((N, 4), torch.float32)
    x.fill_(ME)
    settle()
    roc.alltoall(team, y, x)
    settle()
    assert (y.cpu() == torch.arange(N).unsqueeze(1)).all()
    shmem.barrier()
    roc.broadcast(team, y, x, N - 1)
    settle()
    assert (y == N - 1).all()
    settle()
    roc.put(y, x, RIGHT)
    roc.barrier_all()
    settle()
    assert (y == LEFT).all() and (roc.get_peer_tensor(x, RIGHT) == RIGHT).all()
    settle()
    roc.get(y, x, RIGHT)
    settle()
    assert (y == RIGHT).all()
    assert roc.get_heap_bases(x)[ME] == x.data_ptr()
    roc.rocshmem_barrier(team), roc.rocshmem_team_sync(team)
    roc.rocshmem_barrier_on_stream(team, 0), roc.rocshmem_team_sync_on_stream(team, 0)
    settle()
    roc.free_tensor(x), roc.free_tensor(y)
    with ours("not of create_tensor, or freed"):
        roc.free_tensor(x)
    assert roc.rocshmem_team_split_strided(0, 0, 1, N + 7)[1] == roc.ROCSHMEM_TEAM_INVALID
    roc.rocshmem_team_destroy(team)
    with ours("team = -1"):
        roc.rocshmem_barrier(-1)
    shmem.barrier()
