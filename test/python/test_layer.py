# SPDX-License-Identifier: MIT
import pytest
import shmem
from conftest import TORCH


def close(x, y, bound=1e-4):
    return float(abs(x - y).max()) <= bound * max(1.0, float(abs(y).max()))


def matrix(rows, columns):
    return shmem.uniform(rows, columns, low=-1.0, high=1.0)


def total(arrays, x):
    """Over all PEs, by a gather and a sum in their order."""
    n = shmem.n_pes()
    all = shmem.empty(n * x.shape[0], *x.shape[1:])
    shmem.all_gather(all, shmem.as_symmetric(x))
    return sum(all[i * x.shape[0]:(i + 1) * x.shape[0]] for i in range(n)), all


@pytest.mark.parametrize("m, n_, k", [(16, 8, 4), (13, 24, 7), (65, 33, 17)])
def test_products(arrays, me, n, m, n_, k):
    a, b = matrix(m, k), matrix(k, n_)
    whole, _ = total(arrays, a @ b)
    c = shmem.empty(m, n_)
    for _ in range(2):
        shmem.matmul_all_reduce(c, a, b)
    assert close(c, whole)
    rows = -(-m // n)
    first, mine = min(rows * me, m), max(0, min(rows, m - rows * me))
    d = shmem.empty(max(mine, 1), n_)[:mine]
    shmem.matmul_reduce_scatter(d, a, b, activation="relu")
    if mine:
        assert close(d, whole[first:first + mine] * (whole[first:first + mine] > 0))
    # The rows of the whole are the PEs' shards; as many on each PE here.
    if m % n == 0:
        shard = matrix(m // n, k)
        _, all = total(arrays, shard)
        e = shmem.empty(m, n_)
        same_b = shmem.as_symmetric(b)
        shmem.broadcast(same_b, root=0)
        shmem.matmul_all_gather(e, shard, same_b)
        assert close(e, all @ same_b)
        own = shmem.empty(m, n_)
        shmem.all_gather_matmul(own, shard, b)
        assert close(own, all @ b)
    e = shmem.empty(m, n_)
    shmem.matmul(e, a, b)
    assert close(e, a @ b)
    at, bt = shmem.as_symmetric(a.T + 0), shmem.as_symmetric(b.T + 0)
    shmem.matmul(e, at.T, bt.T)
    assert close(e, a @ b)


@pytest.mark.parametrize("rows, columns", [(1, 16), (5, 64), (33, 128)])
def test_norm(arrays, me, n, rows, columns):
    x, residual = matrix(rows, columns), matrix(rows, columns)
    shmem.broadcast(residual, root=0)
    weight = shmem.ones(columns) * 2
    whole, _ = total(arrays, x)
    whole = whole + residual
    out, kept = shmem.empty(rows, columns), shmem.empty(rows, columns)
    shmem.all_reduce_norm(x, out, residual=residual, residual_out=kept, weight=weight, eps=1e-5)
    assert close(kept, whole)
    mean = (whole * whole).mean(1).reshape(rows, 1)
    assert close(out, whole / (mean + 1e-5) ** 0.5 * 2)


@pytest.mark.parametrize("layout", ["by_pe", "by_expert", "packed"])
def test_experts(arrays, me, n, layout):
    hidden, top_k, tokens, experts = 16, 2, 9 + me, 4 * n
    e = shmem.Experts(hidden, experts, top_k, 16, arrays.float32, layout=layout, alignment=4)
    x = matrix(20, hidden)[:tokens] # the same shape on all PEs, and fewer of it in use
    ids = shmem.randint(0, experts, (20, top_k), dtype=arrays.int32)[:tokens]
    ids[0, 0] = -1
    weights = shmem.rand(20, top_k)[:tokens]
    out = shmem.empty(20, hidden)[:tokens]
    for _ in range(2):
        e.dispatch(x, ids, weights)
    arrived = int(e.expert_count.sum())
    rows = shmem.zeros(e.n_rows, hidden)
    # Each expert multiplies by its number plus one.
    here = e.expert_count.shape[0]
    for row in range(e.n_rows):
        if e.source_pe[row] < 0:
            continue
        factor = 0.0
        for k in range(e.expert.shape[1]):
            if e.expert[row, k] >= 0:
                w = float(e.weight[row, k]) if layout == "by_pe" else 1.0
                factor += w * (me * here + int(e.expert[row, k]) + 1)
        rows[row] = e.rows[row] * factor
    e.combine(rows, out)
    want = x * 0
    for t in range(tokens):
        for k in range(top_k):
            if ids[t, k] >= 0:
                want[t] += float(weights[t, k]) * x[t] * (int(ids[t, k]) + 1)
    assert close(out, want) and e.dropped() == 0 and arrived >= 0
    shmem.barrier()
    with pytest.raises(shmem.Error, match="expected"):
        e.dispatch(x, weights)
    with pytest.raises(shmem.Error, match="tokens"):
        e.dispatch(matrix(17, hidden), ids)
    e.destroy()
    with pytest.raises(shmem.Error, match="destroyed"):
        e.combine(rows, out)


def test_bad_input(arrays):
    a, b, c = matrix(4, 3), matrix(3, 5), shmem.empty(4, 5)
    n = shmem.n_pes()
    for call, text in [
            (lambda: shmem.matmul_all_reduce(c, b, a), "a is 3 x 5"),
            (lambda: shmem.matmul_all_reduce(c, a, b, activation="tanh"), "activation = 'tanh'"),
            (lambda: shmem.matmul_all_reduce(c[0], a, b), "c: expected a matrix"),
            (lambda: shmem.matmul_all_reduce(c, a, b, bias=shmem.zeros(3)), "bias: expected 5"),
            (lambda: shmem.matmul(shmem.empty(4, 5, dtype=arrays.int32), a, b), "c: elements of"),
            (lambda: shmem.all_reduce_norm(a, shmem.empty(4, 4)), "out: expected 4 x 3"),
            (lambda: shmem.all_reduce_norm(a, quantized=c), "quantized: expected float8"),
            (lambda: shmem.Experts(16, 4 * n + 1 if n > 1 else 0, 2, 8, arrays.float32), "experts"),
            (lambda: shmem.Experts(3, n, 1, 8, arrays.float32), "hidden = 3"),
            (lambda: shmem.Wire(10, arrays.float32), "expected float16 or bfloat16"),
            (lambda: shmem.Wire(10, arrays.float16, "int3"), "format = 'int3'"),
            (lambda: shmem.Matmul("sum", 1, 1, 1, arrays.float32), "op = 'sum'")]:
        with pytest.raises(shmem.Error, match=text):
            call()
    shmem.barrier()


@pytest.mark.parametrize("format, bound", [("fp8", 0.07), ("int8", 0.01), ("int4", 0.15)])
def test_wire(arrays, me, n, format, bound):
    count = 1000 * n
    wire = shmem.Wire(count, arrays.float16, format)
    plain = matrix(count, 1).reshape(count)
    x = shmem.empty(count, dtype=arrays.float16)
    x[...] = plain
    whole, all = total(arrays, plain)
    y = shmem.empty(count, dtype=arrays.float16)
    for _ in range(2):
        wire.all_reduce(y, x)
    assert close(y, whole, bound * n)
    mine = shmem.empty(1000, dtype=arrays.float16)
    wire.reduce_scatter(mine, x)
    assert close(mine, whole[1000 * me:1000 * me + 1000], bound * n)
    wire.all_gather(y, x[:1000])
    assert close(y[:1000], all[:1000], bound)
    with pytest.raises(shmem.Error, match="expected elements of half"):
        wire.all_reduce(plain)
    wire.destroy()
    with pytest.raises(shmem.Error, match="destroyed"):
        wire.all_reduce(x)


if TORCH:
    import torch

    def test_bfloat16(me, n):
        a, b = matrix(32, 16).bfloat16(), matrix(16, 8).bfloat16()
        c = shmem.empty(32, 8, dtype=torch.bfloat16)
        shmem.matmul_all_reduce(c, a, b)
        whole, _ = total(torch, (a.float() @ b.float()))
        assert close(c.float(), whole, 0.02)
