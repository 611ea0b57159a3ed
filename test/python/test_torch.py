# SPDX-License-Identifier: MIT
"""shmem.torch, inside a job: oshrun -n N python -m pytest test_torch.py. Each PE runs the same
tests in the same order, against PyTorch alone."""
from __future__ import annotations

import math

import pytest
import torch

import shmem
import shmem.torch as st

shmem.is_initialized() or shmem.init()
ME, N = shmem.my_pe(), shmem.n_pes()
DEVICE = "cpu" if shmem.platform() == "cpu" else f"cuda:{torch.cuda.current_device()}"
ops = torch.ops.shmem


def numbers(*shape, pe=None, dtype=torch.float32):
    """The same on all PEs for the same pe."""
    g = torch.Generator().manual_seed(1000 + (ME if pe is None else pe))
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype).to(DEVICE)


def of_all(*shape, dtype=torch.float32):
    return [numbers(*shape, pe=pe, dtype=dtype) for pe in range(N)]


def close(a, b, tolerance=1e-5):
    assert a.shape == b.shape and a.dtype == b.dtype
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.fixture
def grid():
    """Teams of two PEs each, and of what is left."""
    rows = shmem.world().split_2d(2) if N > 1 else (shmem.world(), None)
    yield rows[0]
    if N > 1:
        rows[0].destroy(), rows[1].destroy()


# --- values ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64,
                                   torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (7, 3), (0, 4), (4099,), ()])
def test_all_reduce(shape, dtype):
    xs = [(8 * x).to(dtype) for x in of_all(*shape)]
    want = sum(x.double() for x in xs)
    got = ops.all_reduce(xs[ME], "sum", 0)
    assert got.dtype == dtype and not shmem.is_symmetric(got) or not got.numel()
    close(got.double(), want, 0.05 if dtype.itemsize == 2 else 1e-5)


@pytest.mark.parametrize("op", ["max", "min", "prod"])
def test_other_operations(op):
    whole = torch.stack(of_all(33))
    want = {"max": whole.amax(0), "min": whole.amin(0), "prod": whole.prod(0)}[op]
    close(st.all_reduce(numbers(33), op), want)


def test_bits():
    xs = [torch.arange(9, device=DEVICE) * (pe + 3) for pe in range(N)]
    want = xs[0].clone()
    for x in xs[1:]:
        want ^= x
    assert torch.equal(st.all_reduce(xs[ME], "xor"), want)


@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 5), (257, 2)])
def test_moves(rows, columns):
    xs = of_all(N * rows, columns)
    close(st.reduce_scatter(xs[ME]), sum(xs)[ME * rows:(ME + 1) * rows])
    close(st.all_gather(xs[ME]), torch.cat(xs))
    close(st.all_to_all(xs[ME]), torch.cat([x[ME * rows:(ME + 1) * rows] for x in xs]))
    for root in range(N):
        close(st.broadcast(xs[ME], root), xs[root])


def test_one_behind_the_other():
    """Nothing between the calls: a result is not overwritten by a PE that is ahead."""
    for i in range(200):
        x = torch.full((1000,), float(ME + i), device=DEVICE)
        if i % 3 == ME % 3:
            x = x * 1.0 # one PE is later than another
        assert (st.all_gather(x).view(N, -1)[:, 0].cpu() == torch.arange(N) + i).all()
        assert (st.broadcast(x, i % N) == i % N + i).all()
        assert (st.all_reduce(x) == N * i + N * (N - 1) / 2).all()


def test_not_contiguous():
    x = numbers(6, 4).t()
    close(st.all_reduce(x), sum(of_all(6, 4)).t().contiguous())


def test_symmetric_input_is_read_in_place():
    x = shmem.empty(50, device=DEVICE)
    x.copy_(numbers(50))
    close(st.all_reduce(x), sum(of_all(50)))
    close(x, numbers(50))


def test_no_allocation():
    x = numbers(1000)
    st.all_reduce(x), st.all_gather(x)
    from shmem.torch import _space
    before = {key: list(spaces) for key, spaces in _space._spaces.items()}
    for _ in range(5):
        st.all_reduce(x), st.all_gather(x)
    assert _space._spaces == before


def test_inference_mode():
    """A workspace that was made there serves training, too."""
    with torch.inference_mode():
        close(st.all_reduce(numbers(1 << 17)), sum(of_all(1 << 17)), 1e-4)
    x = numbers(1 << 17).requires_grad_()
    st.all_reduce(x).sum().backward()
    assert (x.grad == N).all()


def test_out():
    """Calls that need no copy: in place, and from one symmetric tensor to another."""
    x, y = shmem.empty(8, device=DEVICE), shmem.empty(8 * N, device=DEVICE)
    x.copy_(numbers(8))
    shmem.barrier()
    ops.all_gather_out(y, x)
    close(y, torch.cat(of_all(8)))
    ops.all_reduce_out(x, x)
    close(x, sum(of_all(8)))
    shmem.barrier()


def test_teams(grid):
    mine = grid.pes()
    xs = {pe: numbers(2 * 6, 3, pe=pe) for pe in mine}
    close(st.all_reduce(xs[ME], team=grid), sum(xs[pe] for pe in mine))
    close(ops.all_gather(xs[ME], grid.handle), torch.cat([xs[pe] for pe in mine]))


def test_teams_come_and_go():
    """A new team may have an old one's handle, on some of its members."""
    for lap in range(6):
        with shmem.Team.from_list(sorted(range(N), key=lambda pe: (pe * 7 + lap) % N)) as team:
            if lap % 2:
                with shmem.world().split_strided(0, 1, N) as other:
                    close(st.all_reduce(numbers(9), team=other), sum(of_all(9)))
            close(st.all_reduce(numbers(9), team=team), sum(of_all(9)), 1e-4)
            close(st.all_gather(numbers(3), team=team), torch.cat(
                [numbers(3, pe=pe) for pe in team.pes()]))
            handle = team.handle
        with pytest.raises(shmem.Error, match="has been destroyed"):
            st.all_reduce(numbers(9), team=team)
        with pytest.raises(shmem.Error, match="has been destroyed"):
            ops.all_reduce(numbers(9), "sum", handle)
    close(st.all_reduce(numbers(9), team=shmem.world()), sum(of_all(9)))


def test_a_team_without_all_pes():
    """The others call reserve alone."""
    team = shmem.world().split_strided(0, 1, 1)
    st.reserve(1 << 14, team, DEVICE)
    if team is not None:
        close(st.all_reduce(numbers(100), team=team), numbers(100))
        team.destroy()
    shmem.barrier()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("m, k, n", [(1, 8, 8), (37, 16, 24), (64, 32, 40)])
def test_products(m, k, n, dtype):
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    a, b = of_all(m, k, dtype=dtype), [numbers(k, n, pe=50 + pe, dtype=dtype) for pe in range(N)]
    whole = sum((x.float() @ y.float()).to(dtype).float() for x, y in zip(a, b))
    close(st.matmul_all_reduce(a[ME], b[ME]).float(), whole, tolerance)
    size = math.ceil(m / N)
    mine = slice(min(ME * size, m), min((ME + 1) * size, m))
    close(st.matmul_reduce_scatter(a[ME], b[ME]).float(), whole[mine], tolerance)
    close(st.matmul_all_gather(a[0][mine], b[0], m).float(), a[0].float() @ b[0].float(), tolerance)
    close(st.all_gather_matmul(a[0][mine], b[ME], m).float(), a[0].float() @ b[ME].float(),
          tolerance)
    close(st.matmul_all_reduce(a[ME], b[ME].t().contiguous().t()).float(), whole, tolerance)


def norm_of(s, weight, eps=1e-6):
    return s * torch.rsqrt(s.square().mean(-1, keepdim=True) + eps) * weight


@pytest.mark.parametrize("rows", [1, 5])
def test_all_reduce_norm(rows):
    xs, residual, weight = of_all(rows, 64), numbers(rows, 64, pe=90), numbers(64, pe=91)
    out, total = st.all_reduce_norm(xs[ME], residual, weight)
    close(total, sum(xs) + residual, 1e-5)
    close(out, norm_of(sum(xs) + residual, weight), 1e-4)
    out, total = st.all_reduce_norm(xs[ME])
    close(out, norm_of(sum(xs), 1), 1e-4)


# --- gradients ------------------------------------------------------------------------------------
# The loss is the sum of those of the PEs. The reference is one graph that has all PEs in it: each
# has its own inputs and its own result, with its own weight in the loss.

def check(operator, reference, inputs, tolerance=1e-4):
    """inputs: of each PE, a list of tensors. reference: of all PEs' inputs, all PEs' results."""
    whole = [[x.clone().requires_grad_(x.is_floating_point()) for x in of_pe] for of_pe in inputs]
    results = reference(whole)
    loss = sum((numbers(*y.shape, pe=200 + pe) * y.float()).sum() for pe, y in enumerate(results))
    loss.backward()
    mine = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs[ME]]
    y = operator(*mine)
    close(y.float(), results[ME].detach().float(), tolerance)
    (numbers(*y.shape, pe=200 + ME) * y.float()).sum().backward()
    for x, r in zip(mine, whole[ME]):
        close(x.grad, r.grad if r.grad is not None else torch.zeros_like(x), tolerance)


def test_gradients_of_collectives():
    def rows(x, pe):
        return x[pe * 3:(pe + 1) * 3]

    inputs = [[x] for x in of_all(3 * N, 2)]
    pes = range(N)
    check(st.all_reduce, lambda xs: [sum(x for x, in xs)] * N, inputs)
    check(st.reduce_scatter, lambda xs: [rows(sum(x for x, in xs), pe) for pe in pes], inputs)
    check(st.all_gather, lambda xs: [torch.cat([x for x, in xs])] * N, inputs)
    check(st.all_to_all, lambda xs: [torch.cat([rows(x, pe) for x, in xs]) for pe in pes], inputs)
    check(lambda x: st.broadcast(x, N - 1), lambda xs: [xs[N - 1][0]] * N, inputs)


@pytest.mark.parametrize("m", [5, 8])
def test_gradients_of_products(m):
    size = math.ceil(m / N)

    def shard(x, pe):
        return x[min(pe * size, m):min((pe + 1) * size, m)]

    inputs = [[numbers(m, 8, pe=pe), numbers(8, 8, pe=50 + pe)] for pe in range(N)]
    check(st.matmul_all_reduce, lambda xs: [sum(a @ b for a, b in xs)] * N, inputs)
    check(st.matmul_reduce_scatter,
          lambda xs: [shard(sum(a @ b for a, b in xs), pe) for pe in range(N)], inputs)
    shards = [[shard(inputs[0][0], pe), inputs[pe][1]] for pe in range(N)]
    check(lambda a, b: st.all_gather_matmul(a, b, m),
          lambda xs: [torch.cat([a for a, _ in xs]) @ xs[pe][1] for pe in range(N)], shards)
    # b is the same on all PEs, and its gradient a part: the parts' sum is the whole.
    b = inputs[0][1]
    check(lambda a: st.matmul_all_gather(a, b, m),
          lambda xs: [torch.cat([a for a, in xs]) @ b] * N, [[a] for a, _ in shards])
    mine, w = shards[ME][0], b.clone().requires_grad_()
    st.matmul_all_gather(mine, w, m).sum().backward()
    close(st.all_reduce(w.grad), N * inputs[0][0].t() @ torch.ones(m, 8, device=DEVICE), 1e-4)


def test_gradient_of_the_norm():
    inputs = [[numbers(4, 16, pe=pe), numbers(4, 16, pe=60 + pe), numbers(16, pe=70 + pe)]
              for pe in range(N)]

    def reference(xs):
        return [torch.cat([norm_of(sum(x[0] for x in xs) + r, w), sum(x[0] for x in xs) + r])
                for _, r, w in xs]

    check(lambda x, r, w: torch.cat(st.all_reduce_norm(x, r, w)), reference, inputs)


def test_gradcheck():
    """By differences, in double precision: the losses of all PEs in one."""
    if N > 1:
        pytest.skip("gradcheck changes one PE's input at a time")
    x = numbers(4, 3, dtype=torch.float64).requires_grad_()
    for f in st.all_reduce, st.reduce_scatter, st.all_gather, st.all_to_all:
        assert torch.autograd.gradcheck(f, x)
        assert torch.autograd.gradgradcheck(f, x)


def test_only_sums_have_a_gradient():
    with pytest.raises(shmem.Error, match="only sum has a gradient"):
        st.all_reduce(numbers(3).requires_grad_(), "max")
    shmem.barrier()


# --- experts --------------------------------------------------------------------------------------

HIDDEN, TOP_K, TOKENS = 32, 2, 6


def routing(pe, experts, tokens):
    g = torch.Generator().manual_seed(7 + pe)
    ids = torch.stack([torch.randperm(experts, generator=g)[:TOP_K] for _ in range(tokens)]) \
        if tokens else torch.zeros(0, TOP_K)
    if tokens > 1:
        ids[1, 1] = -1 # names no expert
    return ids.int().to(DEVICE)


@pytest.mark.parametrize("layout", ["by_expert", "packed"])
def test_experts(layout):
    """Each expert multiplies by a number of its own; the gradients of tokens, weights and experts
    are those of one process."""
    each = 2
    experts = each * N
    e = st.Experts(HIDDEN, experts, TOP_K, TOKENS, torch.float32, layout=layout)
    tokens = [numbers(TOKENS - pe % 3, HIDDEN, pe=pe).requires_grad_() for pe in range(N)]
    ids = [routing(pe, experts, t.shape[0]) for pe, t in enumerate(tokens)]
    weights = [numbers(t.shape[0], TOP_K, pe=30 + pe).abs().requires_grad_()
               for pe, t in enumerate(tokens)]
    scale = numbers(experts, pe=40).requires_grad_()
    wanted = []
    for t, i, w in zip(tokens, ids, weights):
        factor = (w * scale[i.clamp(min=0).long()]).masked_fill(i < 0, 0)
        wanted.append(t.tanh() * factor.sum(1, keepdim=True))
    sum((numbers(*y.shape, pe=80 + pe) * y).sum() for pe, y in enumerate(wanted)).backward()

    for _ in range(2):
        t, w = (x[ME].detach().clone().requires_grad_() for x in (tokens, weights))
        s = scale.detach()[ME * each:(ME + 1) * each].clone().requires_grad_()
        rows = e.dispatch(t, ids[ME], w)
        of_row = s[e.core.expert[:, 0].clamp(min=0).long()].unsqueeze(1)
        y = e.combine(rows.tanh() * of_row)
        close(y, wanted[ME].detach())
        (numbers(*y.shape, pe=80 + ME) * y).sum().backward()
        close(t.grad, tokens[ME].grad)
        close(w.grad, weights[ME].grad)
        close(s.grad, scale.grad[ME * each:(ME + 1) * each])
    shmem.barrier()
    e.destroy()


def test_experts_used_twice():
    """The routing of the second call is not that of the first, whose backward pass comes later."""
    e = st.Experts(HIDDEN, N, 1, TOKENS, torch.float32, layout="by_expert")
    x = numbers(TOKENS, HIDDEN).requires_grad_()
    first = torch.full((TOKENS, 1), ME, dtype=torch.int32, device=DEVICE)
    second = torch.full((TOKENS, 1), (ME + 1) % N, dtype=torch.int32, device=DEVICE)
    one = e.combine(e.dispatch(x, first).square())
    two = e.combine(e.dispatch(one, second).sin())
    two.sum().backward()
    y = x.detach().clone().requires_grad_()
    y.square().sin().sum().backward()
    close(two, x.detach().square().sin())
    close(x.grad, y.grad)
    shmem.barrier()
    e.destroy()


# --- torch.compile --------------------------------------------------------------------------------

def model(x, w):
    h = st.all_gather(torch.tanh(x))
    h = st.matmul_all_reduce(h, w)
    return st.reduce_scatter(h).sum() + st.all_reduce(x).square().sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend):
    x, w = numbers(2, 8).requires_grad_(), numbers(8, 4).requires_grad_()
    model(x, w).backward()
    want = model(x, w).detach(), x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    torch._dynamo.reset()
    got = torch.compile(model, fullgraph=True, backend=backend)(x, w)
    got.backward()
    for a, b in zip((got.detach(), x.grad, w.grad), want):
        close(a, b)


def test_what_is_compiled_is_of_this_job():
    """PyTorch keeps compiled functions on disk, and a job of another size has other shapes."""
    st.all_reduce(numbers(3))
    assert f"shmem: PE {ME} of {N}" in torch.compiler.config.cache_key_tag


def test_compile_experts():
    e = st.Experts(HIDDEN, N, 1, TOKENS, torch.float32, layout="by_expert")
    x = numbers(TOKENS, HIDDEN).requires_grad_()
    ids = torch.full((TOKENS, 1), (ME + 1) % N, dtype=torch.int32, device=DEVICE)

    def layer(x, ids):
        rows, route = ops.dispatch(x, ids, None, e.number)
        return ops.combine(rows.sin(), ids, None, route, e.number)

    torch._dynamo.reset()
    y = torch.compile(layer, fullgraph=True, backend="aot_eager")(x, ids)
    close(y.detach(), x.detach().sin())
    y.sum().backward()
    close(x.grad, x.detach().cos())
    shmem.barrier()
    e.destroy()


def test_opcheck():
    """PyTorch's own tests of schema, fake kernel and registration."""
    x = numbers(N * 2, 3)
    which = ("test_schema", "test_faketensor", "test_autograd_registration")
    for op in ops.all_reduce, ops.reduce_scatter, ops.all_gather, ops.all_to_all:
        torch.library.opcheck(op.default, (x,), test_utils=which)
    torch.library.opcheck(ops.broadcast.default, (x, 0), test_utils=which)
    torch.library.opcheck(ops.matmul_all_reduce.default, (numbers(3, 8), numbers(8, 8)),
                          test_utils=which)


# --- asynchronous ---------------------------------------------------------------------------------

def test_async():
    works = [st.all_reduce(numbers(100) * i, async_op=True) for i in range(4)]
    close(st.all_gather(numbers(3)), torch.cat(of_all(3)))
    for i, work in enumerate(works):
        close(work.wait(), sum(of_all(100)) * i)
        assert work.is_completed()


@pytest.mark.skipif(DEVICE == "cpu", reason="graphs of CUDA or HIP")
def test_graph():
    """Replayed, with eager operators of the same workspace between."""
    x = numbers(5000)
    st.all_reduce(x), st.all_gather(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, z = st.all_reduce(x), st.all_gather(x)
    for lap in range(100):
        x.fill_(ME + lap)
        if lap % 3 == ME % 3:
            torch.cuda._sleep(100000) # one PE is later than another
        graph.replay()
        eager = st.all_reduce(x)
        assert (y == N * lap + N * (N - 1) // 2).all() and torch.equal(y, eager)
        assert (z.view(N, -1)[:, 0].cpu() == torch.arange(N) + lap).all()
    more = numbers(1 << 24)
    with pytest.raises(shmem.Error, match="call it before the capture"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            st.all_reduce(more)


# --- bad input: one line, and the job goes on -----------------------------------------------------

@pytest.mark.parametrize("call, text", [
    (lambda: st.all_reduce(numbers(3), "mean"), "op = 'mean'"),
    (lambda: st.all_reduce(numbers(3), team=0), "team: a int"),
    (lambda: ops.all_reduce(numbers(3), "sum", 12345), "team = 0x3039: has been destroyed"),
    (lambda: ops.reduce_scatter(numbers(N * 2 + 1) if N > 1 else numbers()),
     "first dimension is not a multiple"),
    (lambda: st.all_gather(numbers()), "without dimensions"),
    (lambda: st.broadcast(numbers(3), N), f"root = {N}"),
    (lambda: st.matmul_all_reduce(numbers(3, 4), numbers(5, 4)), "expected matrices"),
    (lambda: st.matmul_all_gather(numbers(50, 8), numbers(8, 8), 9), "this PE's shard"),
    (lambda: ops.all_reduce_out(numbers(3), numbers(3)), "not symmetric"),
    (lambda: st.all_reduce_norm(numbers(3)), "expected \\[rows, columns\\]"),
    (lambda: st.all_reduce(numbers(3, dtype=torch.complex64), "max"), "complexf"),
    (lambda: ops.dispatch(numbers(1, 8), torch.zeros(1, 1, dtype=torch.int32), None, 999),
     "experts = 999"),
])
def test_bad_input(call, text):
    with pytest.raises(shmem.Error, match=text) as caught:
        call()
    assert "\n" not in str(caught.value) and str(caught.value).startswith(f"PE {ME}: shmem.")
    shmem.barrier()
    assert (st.all_reduce(torch.ones(2, device=DEVICE)) == N).all()
