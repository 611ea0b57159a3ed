# SPDX-License-Identifier: MIT
"""Iris's names over the library."""
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import shmem
import torch
import triton
import triton.language as tl
from shmem import iris

# The methods of Iris's class; docs/reference of Iris.
METHODS = """arange as_symmetric barrier broadcast ccl debug device_barrier empty error full
    get_cu_count get_device get_device_context get_device_id get_heap_bases get_num_ranks get_rank
    info is_symmetric linspace ones ops rand randint randn tracing uniform warning zeros
    zeros_like""".split()
FUNCTIONS = """load store copy get put atomic_add atomic_cas atomic_xchg atomic_xor atomic_or
    atomic_and atomic_min atomic_max do_bench hip Iris iris DeviceContext Context TraceEvent ops
    experimental set_logger_level logger DEBUG INFO WARNING ERROR""".split()


@pytest.fixture(scope="module")
def ctx():
    return iris.iris(heap_size=1 << 24)


def filled(value, *shape, dtype=torch.float32):
    return torch.full(shape, value, dtype=dtype)


def test_names(ctx, me, n):
    assert [name for name in METHODS if not hasattr(ctx, name)] == []
    assert [name for name in FUNCTIONS if not hasattr(iris, name)] == []
    assert (ctx.get_rank(), ctx.get_num_ranks()) == (me, n) == (ctx.cur_rank, ctx.num_ranks)
    assert ctx.get_heap_bases().shape == (n,) and ctx.get_heap_bases().dtype == torch.uint64
    assert ctx.get_cu_count() > 0 and iris.hip.count_devices() > 0
    assert str(ctx.get_device()) == ctx.device
    assert iris.iris().get_rank() == me, "another object is of the same job"
    names = [name for name, _ in iris.DIFFERS]
    assert len(set(names)) == len(names)


def test_creators(ctx):
    assert torch.equal(ctx.zeros(3, 5, device="cuda").cpu(), filled(0, 3, 5))
    assert torch.equal(ctx.ones((7,), dtype=torch.int16).cpu(), filled(1, 7, dtype=torch.int16))
    assert torch.equal(ctx.full((2, 3), 5).cpu(), filled(5, 2, 3, dtype=torch.int64))
    assert ctx.full([2], 0.5).tolist() == [0.5, 0.5]
    assert ctx.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert ctx.arange(0, 10, 3, dtype=torch.float64).tolist() == [0, 3, 6, 9]
    assert ctx.linspace(0, 10, 5).tolist() == [0, 2.5, 5, 7.5, 10]
    x = ctx.ones(4, 2, dtype=torch.float16)
    assert ctx.zeros_like(x).dtype == torch.float16 and ctx.zeros_like(x).shape == (4, 2)
    assert ctx.empty(2, 3).shape == (2, 3) and ctx.empty(0).numel() == 0
    assert ctx.is_symmetric(x) and ctx.is_symmetric(x[1:]) and not ctx.is_symmetric(torch.ones(3))
    for made, low, high in ((ctx.rand(1000), 0, 1), (ctx.uniform((1000,), 2.0, 3.0), 2, 3),
                            (ctx.randint(3, 9, (1000,)), 3, 8)):
        assert low <= made.min() and made.max() <= high and made.float().std() > 0.1
    assert abs(ctx.randn(4001).mean()) < 0.1 and ctx.randint(5, (2, 2)).dtype == torch.int64
    out = ctx.empty(6)
    assert ctx.ones(2, 3, out=out).data_ptr() == out.data_ptr() and out.sum() == 6
    assert ctx.randn(3, requires_grad=True).requires_grad


def test_as_symmetric(ctx, me):
    private = torch.arange(9, device=ctx.get_device()) + me
    x = ctx.as_symmetric(private)
    assert ctx.is_symmetric(x) and torch.equal(x, private)


def test_bad_input(ctx, n):
    private = torch.zeros(6, device=ctx.get_device())
    for call, message in (
            (lambda: ctx.zeros(2, 3, out=private), "out: not symmetric"),
            (lambda: ctx.zeros(7, out=ctx.empty(6)), r"out: \(6,\) of torch.float32, expected"),
            (lambda: ctx.zeros(6, dtype=torch.int8, out=ctx.empty(6)), "expected"),
            (lambda: ctx.broadcast(1, src=n), "src = "),
            (lambda: ctx.ccl.all_reduce(private, private), "not symmetric"),
            (lambda: ctx.ccl.all_reduce(private, private, op="AVG"), "op = AVG"),
            (lambda: ctx.ccl.all_to_all(ctx.empty(2, n), ctx.empty(3, n)), "expected the same"),
            (lambda: ctx.ccl.reduce_scatter(ctx.empty(n + 1, 2), ctx.empty(2 * n, 2)), "rows")):
        if n == 1 and message == "rows":
            continue # one rank has all of its 2 rows
        with pytest.raises(shmem.Error, match=message):
            call()


def test_broadcast(ctx, me, n):
    root = n - 1
    for value in (42, 2.5, "text", {"a": [1, None]}, None):
        assert ctx.broadcast(value if me == root else None, root) == value
    got = ctx.broadcast(torch.arange(5) if me == root else None, src=root)
    assert got.tolist() == [0, 1, 2, 3, 4]
    assert ctx.broadcast(me, source_rank=0) == 0


def test_log(ctx, me, n, caplog):
    iris.logger.propagate = True
    iris.set_logger_level(iris.WARNING)
    ctx.info("not to be seen")
    ctx.warning("hot")
    iris.set_logger_level(iris.INFO)
    assert [record.getMessage() for record in caplog.records] == [f"[{me}/{n}] hot"]


@triton.jit
def every_rank_kernel(x, results, size, rank: tl.constexpr, ranks: tl.constexpr,
                      block: tl.constexpr, heap_bases: tl.tensor):
    """As in Iris's examples: the sum of what all ranks have, and a count on each."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < size
    total = tl.zeros([block], dtype=x.type.element_ty)
    for target in range(ranks):
        iris.get(x + at, results + at, rank, target, heap_bases, mask=mask)
        total += tl.load(results + at, mask=mask)
        iris.atomic_add(results + size, 1.0, rank, target, heap_bases, sem="acq_rel", scope="sys")
    tl.store(results + at, total, mask=mask)


@pytest.mark.parametrize("size", [1, 77, 512])
def test_kernels(ctx, size, me, n):
    x, results = ctx.full((size,), me + 1.0), ctx.zeros(size + 1)
    every_rank_kernel[lambda meta: (triton.cdiv(size, meta["block"]),)](
        x, results, size, me, n, 64, ctx.get_heap_bases())
    ctx.barrier()
    assert torch.equal(results[:size].cpu(), filled(n * (n + 1) / 2, size))
    assert results[size] == n * triton.cdiv(size, 64)
    ctx.barrier()


@triton.jit
def traced_kernel(context, x, rank: tl.constexpr, ranks: tl.constexpr):
    ctx = iris.DeviceContext.initialize(context, rank, ranks, tracing=True)
    at = tl.arange(0, 16)
    handle = ctx.tracing.record_event_start(event_id=iris.TraceEvent().put, target_rank=0,
                                            address=x + at, pid_m=tl.program_id(0), pid_n=0,
                                            mask=at < 10)
    ctx.store(x + at, 1.0, 0, mask=at < 10)
    ctx.tracing.record_event_end(handle)


def test_tracing(me, n, tmp_path_factory):
    ctx = iris.iris()
    folder = ctx.broadcast(str(tmp_path_factory.mktemp("trace")))
    x = ctx.zeros(16)
    assert ctx.tracing.export() == {}, "before enable"
    traced_kernel[(1,)](ctx.get_device_context(), x, me, n) # keeps nothing
    ctx.tracing.enable(max_events=4)
    for _ in range(2):
        ctx.tracing.reset()
        traced_kernel[(6,)](ctx.get_device_context(), x, me, n) # two more than fit
    ctx.barrier()
    ctx.tracing.export(f"{folder}/t.json", merge=True)
    own = json.loads(Path(folder, f"t_rank{me}.json").read_text())["traceEvents"]
    kept = {event["args"]["pid_m"] for event in own[:4]} # a GPU's programs come in any order
    assert len(own) == 5 and len(kept) == 4 and kept <= set(range(6)), own
    assert all(event["name"] == "put" and event["dur"] >= 0 and event["args"]["payload_size"] == 40
               for event in own[:4])
    if me == 0:
        merged = json.loads(Path(folder, "t.json").read_text())["traceEvents"]
        assert sorted(event["pid"] for event in merged) == sorted(list(range(n)) * 5)
    ctx.barrier()


def inputs(ctx, *shape, seed=0):
    """Of all ranks, the same on each; and this rank's as a symmetric tensor."""
    generator = torch.Generator().manual_seed(seed)
    every = torch.randn(ctx.num_ranks, *shape, generator=generator)
    mine = ctx.empty(*shape)
    mine.copy_(every[ctx.cur_rank])
    ctx.barrier()
    return every, mine


@pytest.mark.parametrize("async_op", [False, True])
def test_ccl(ctx, async_op, me, n):
    m, k = 3 * n, 5
    every, x = inputs(ctx, m, k)
    out = ctx.zeros(m, k)
    ctx.ccl.all_reduce(out, x, async_op=async_op, config=iris.ccl.Config(),
                       workspace=ctx.ccl.all_reduce_preamble(out, x))
    ctx.barrier()
    torch.testing.assert_close(out.cpu(), every.sum(0))
    ctx.ccl.all_reduce(out, x, op="ReduceOp.MAX")
    assert torch.equal(out.cpu(), every.max(0).values)
    gathered = ctx.zeros(n * m, k)
    ctx.ccl.all_gather(gathered, x, async_op=async_op)
    ctx.barrier()
    assert torch.equal(gathered.cpu(), every.view(-1, k))
    rows = slice(3 * me, 3 * me + 3)
    whole, part = ctx.zeros(m, k), ctx.zeros(3, k)
    ctx.ccl.reduce_scatter(whole, x, async_op=async_op)
    ctx.ccl.reduce_scatter(part, x, async_op=async_op)
    ctx.barrier()
    torch.testing.assert_close(part.cpu(), every.sum(0)[rows])
    assert torch.equal(whole[rows], part) and whole.count_nonzero() <= part.numel()
    ctx.ccl.broadcast(out, x, src=n - 1)
    assert torch.equal(out.cpu(), every[n - 1])
    for lap in range(3): # nothing between
        every, x = inputs(ctx, 3, 2 * n, seed=lap)
        out = ctx.zeros(3, 2 * n)
        ctx.ccl.all_to_all(out, x, async_op=async_op)
        ctx.barrier()
        columns = [block[:, 2 * me:2 * me + 2] for block in every]
        assert torch.equal(out.cpu(), torch.cat(columns, 1))


def test_ops(ctx, me, n):
    rows, k, columns = 4, 6, 8 * n
    every_a, a = inputs(ctx, rows * n, k)
    every_b, b = inputs(ctx, k, columns, seed=1)
    products = torch.stack([x @ y for x, y in zip(every_a, every_b)]) # noqa: B905  Python 3.9
    mine = slice(rows * me, rows * (me + 1))
    close = dict(rtol=1e-4, atol=1e-4)

    out = ctx.zeros(rows * n, columns)
    ctx.ops.matmul_all_reduce(out, a, b)
    torch.testing.assert_close(out.cpu(), products.sum(0), **close)
    bias = torch.arange(columns, dtype=torch.float32, device=out.device)
    iris.ops.matmul_all_reduce(ctx, out, a, b, bias=bias)
    torch.testing.assert_close(out.cpu(), products.sum(0) + bias.cpu(), **close)

    ctx.ops.matmul_reduce_scatter(out.zero_(), a, b)
    torch.testing.assert_close(out[mine].cpu(), products.sum(0)[mine], **close)
    part = ctx.zeros(rows, columns)
    ctx.ops.matmul_reduce_scatter(part, a, b)
    assert torch.equal(part, out[mine])
    part = ctx.zeros(rows * n, 8)
    ctx.ops.matmul_reduce_scatter(part, a, b)
    torch.testing.assert_close(part.cpu(), products.sum(0)[:, 8 * me:8 * me + 8], **close)

    every_a, a = inputs(ctx, rows, k)
    same = every_b[0].to(a.device)
    ctx.ops.matmul_all_gather(out, a, same, config=iris.ops.FusedConfig())
    torch.testing.assert_close(out.cpu(), every_a.view(-1, k) @ every_b[0], **close)

    b = torch.randn(k * n, 7, generator=torch.Generator().manual_seed(3))
    out = ctx.zeros(rows, 7)
    ctx.ops.all_gather_matmul(out, a, b.to(a.device))
    torch.testing.assert_close(out.cpu(), torch.cat(list(every_a), 1) @ b, **close)


def settle():
    """A barrier on a stream does not stop the host."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def test_device_barrier(ctx, n):
    count = ctx.zeros(1, dtype=torch.int64)
    for lap in range(1, 4):
        shmem.atomic_add(count, 1, 0)
        ctx.device_barrier()
        settle()
        assert shmem.g(count, 0) == lap * n
        ctx.device_barrier()
        settle()


def test_do_bench(ctx):
    calls = []
    time = iris.do_bench(lambda: calls.append(1), ctx.barrier, n_warmup=2, n_repeat=3)
    assert time >= 0 and len(calls) == 5
    assert len(iris.do_bench(lambda: None, n_warmup=1, n_repeat=4, return_mode="all")) == 4
    low, high = iris.do_bench(lambda: None, n_warmup=1, n_repeat=4, quantiles=[0.1, 0.9])
    assert low <= high


PROGRAM = r'''
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import triton
import triton.language as tl
import iris
from iris.ccl import Config
from iris.experimental import iris_gluon
from iris.mem.triton.context import Context

@triton.jit
def send(x, flag, n: tl.constexpr, heap_bases):
    at = tl.arange(0, n)
    iris.store(x + at, 1, 0, 1, heap_bases, mask=at < n - 3)
    iris.atomic_xchg(flag, 1, 0, 1, heap_bases, sem="release", scope="sys")

@triton.jit
def double(context, x, flag, n: tl.constexpr, rank: tl.constexpr, ranks: tl.constexpr):
    ctx = Context.initialize(context, rank, ranks)
    while tl.load(flag, volatile=True) != 1:
        pass
    at = tl.arange(0, n)
    total = tl.zeros([n], dtype=tl.float32)
    for i in range(2):
        total += ctx.load(x + at, from_rank=rank)
    tl.store(x + at, total)

def worker(rank, ranks, start):
    device = rank % torch.cuda.device_count()
    dist.init_process_group(backend="nccl", rank=rank, world_size=ranks, init_method=start,
                            device_id=torch.device(f"cuda:{device}"))
    ctx = iris.iris(2**26)
    assert ctx.get_rank() == rank
    x, flag = ctx.zeros(64, device="cuda"), ctx.zeros(1, dtype=torch.int32)
    if rank == 0:
        send[(1,)](x, flag, 64, ctx.get_heap_bases())
    elif rank == 1:
        double[(1,)](ctx.get_device_context(), x, flag, 64, rank, ranks)
    ctx.barrier(group=dist.group.WORLD)
    want = torch.zeros(64, device="cuda")
    if rank == 1:
        want[:61] = 2
    torch.testing.assert_close(x, want)
    some = dist.new_group([0, 2]) # rank 1 calls nothing
    source, dest = ctx.zeros(4, 6), ctx.zeros(4, 6)
    if rank != 1:
        mine = torch.arange(24.0, device="cuda").view(4, 6)
        source.copy_(mine + 100 * rank)
        ctx.barrier(group=some)
        place = rank // 2
        for async_op in (False, True):
            ctx.ccl.all_to_all(dest, source, group=some, async_op=async_op)
            ctx.barrier(group=some)
            part = mine[:, 3 * place:3 * place + 3]
            torch.testing.assert_close(dest, torch.cat((part, part + 200), 1))
            dest.fill_(7)
            ctx.barrier(group=some)
            ctx.ccl.reduce_scatter(dest, source, group=some, async_op=async_op)
            ctx.barrier(group=some)
            total = torch.full((4, 6), 7.0, device="cuda")
            total[2 * place:2 * place + 2] = (2 * mine + 200)[2 * place:2 * place + 2]
            torch.testing.assert_close(dest, total)
            ctx.ccl.all_reduce(dest, source, group=some)
            torch.testing.assert_close(dest, 2 * mine + 200)
            ctx.barrier(group=some) # before the next one stores into the others' dest
        ctx.device_barrier(group=some)
    ctx.barrier()
    print(f"rank {rank} is right\n", end="", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    if "RANK" in os.environ:
        worker(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://")
    else:
        mp.spawn(worker, args=(3, f"tcp://127.0.0.1:{sys.argv[1]}"), nprocs=3, join=True)
'''


@pytest.mark.skipif("shmem.n_pes() > 1", reason="a job of its own")
@pytest.mark.skipif("0 < torch.cuda.device_count() < 3", reason="nccl wants a GPU for each rank")
@pytest.mark.parametrize("how", ["spawned", "torchrun"])
def test_program_that_says_import_iris(how, tmp_path):
    """With the starts of Iris's README and of its examples, and a group of nccl."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environ = {name: value for name, value in os.environ.items()
               if not name.startswith(("PMI", "SHMEM_BOOTSTRAP", "TRITON_INTERPRET"))}
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=3"]
    done = subprocess.run([sys.executable, *(launcher if how == "torchrun" else []), "-m",
                           "shmem.iris", str(program), str(port)],
                          env=environ, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {i} is right" for i in range(3)]


@pytest.mark.skipif("shmem.n_pes() > 1", reason="a job of its own")
def test_no_program(tmp_path):
    done = subprocess.run([sys.executable, "-m", "shmem.iris", str(tmp_path / "none.py")],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode and done.stderr.count("\n") == 1 and "No such file" in done.stderr
