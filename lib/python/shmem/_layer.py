# SPDX-License-Identifier: MIT
"""A layer's communication: products of several PEs, an all-reduce with its norm, and tokens to
experts and back. All are work of a stream, PyTorch's current one unless the caller names another;
without a GPU the work is done when the call returns."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from . import _job
from . import _library as c
from ._array import array, line, settle, stream_of, typename
from ._library import Error, lib
from ._memory import check, symmetric, taken, view
from ._team import Team, handle, size

ELEMENTS = {"float": c.SHMEMX_F32, "half": c.SHMEMX_F16, "bfloat16": c.SHMEMX_BF16,
            "f8": c.SHMEMX_F8, "f8_fnuz": c.SHMEMX_F8_FNUZ}
ACTIVATIONS = {None: c.SHMEMX_ACTIVATION_NONE, "relu": c.SHMEMX_ACTIVATION_RELU,
               "gelu": c.SHMEMX_ACTIVATION_GELU, "silu": c.SHMEMX_ACTIVATION_SILU}
ALGORITHMS = {None: c.SHMEMX_MATMUL_BEST, "fused": c.SHMEMX_MATMUL_FUSED,
              "streams": c.SHMEMX_MATMUL_STREAMS, "bulk": c.SHMEMX_MATMUL_BULK}
OPERATIONS = {"all_reduce": c.SHMEMX_MATMUL_ALL_REDUCE,
              "reduce_scatter": c.SHMEMX_MATMUL_REDUCE_SCATTER,
              "all_gather": c.SHMEMX_MATMUL_ALL_GATHER,
              "all_gather_matmul": c.SHMEMX_ALL_GATHER_MATMUL}


class Matrix(NamedTuple):
    address: int
    rows: int
    columns: int
    stride: int        # elements from one row to the next
    transposed: bool   # in memory its columns are rows
    type: int          # SHMEMX_F32 ...
    on_gpu: bool


def _matrix(x: Any, fn: str, arg: str, may_be_transposed: bool = False,
            is_symmetric: bool = False) -> Matrix:
    if getattr(x, "ndim", 0) != 2:
        raise Error(line(fn, f"{arg}: expected a matrix, of two dimensions"))
    kind, bytes_of = typename(x.dtype, fn, arg)
    if kind not in ELEMENTS:
        raise Error(line(fn, f"{arg}: elements of {x.dtype}: expected float32, float16, bfloat16 "
                         "or float8_e4m3fn"))
    if hasattr(x, "data_ptr"):
        (s0, s1), address, on_gpu = x.stride(), x.data_ptr(), x.is_cuda
    else:
        s0, s1 = (s // bytes_of for s in x.strides)
        address, on_gpu = x.ctypes.data, False
    rows, columns = x.shape
    by_rows = (s1 == 1 or columns == 1) and (s0 >= columns or rows == 1)
    if not by_rows and not (may_be_transposed and s0 == 1 and s1 >= rows):
        raise Error(line(fn, f"{arg}: strides of {s0} and {s1}: its rows must lie without gaps"))
    stride = max(s0, columns) if by_rows else s1
    lines, length = (rows, columns) if by_rows else (columns, rows)
    if is_symmetric and rows and columns:
        check(address, ((lines - 1) * stride + length) * bytes_of, fn, arg)
    return Matrix(address, rows, columns, stride, not by_rows, ELEMENTS[kind], on_gpu)


def _chosen(words: dict[Any, int], word: Any, fn: str, arg: str) -> int:
    if word not in words:
        raise Error(line(fn, f"{arg} = {word!r}: expected one of {list(words)}"))
    return words[word]


def _done(on: int | None) -> None:
    if on is None:
        settle(0)


def _product(fn: str, call: Any, out: Any, a: Any, b: Any, bias: Any, activation: str | None,
             symmetric_out: bool) -> tuple[Matrix, Matrix, Matrix]:
    """Fills in the operands; the callers check the shapes."""
    mc = _matrix(out, fn, "c", is_symmetric=symmetric_out)
    ma, mb = _matrix(a, fn, "a", True), _matrix(b, fn, "b", True)
    if ma.type != mb.type:
        raise Error(line(fn, "a and b: elements of two types"))
    if not ma.on_gpu == mb.on_gpu == mc.on_gpu:
        raise Error(line(fn, "a, b and c: some are on a GPU, others are not"))
    if ma.columns != mb.rows or mb.columns != mc.columns:
        raise Error(line(fn, f"a is {ma.rows} x {ma.columns}, b {mb.rows} x {mb.columns}, c "
                         f"{mc.rows} x {mc.columns}"))
    call.type, call.out, call.n, call.k = ma.type, mc.type, mc.columns, ma.columns
    call.a, call.b, call.c = ma.address, mb.address, mc.address
    call.lda, call.ldb, call.ldc = ma.stride, mb.stride, mc.stride
    call.trans_a, call.trans_b = ma.transposed, mb.transposed
    call.activation = _chosen(ACTIVATIONS, activation, fn, "activation")
    if bias is not None:
        v = array(bias, fn, "bias")
        if ELEMENTS.get(v.type) != mc.type or v.count != mc.columns:
            raise Error(line(fn, f"bias: expected {mc.columns} elements of c's type"))
        call.bias = v.address
    return mc, ma, mb


def matmul(out: Any, a: Any, b: Any, *, bias: Any = None, activation: str | None = None,
           stream: Any = None) -> Any:
    """out = activation(a @ b + bias), on this PE. Sums are fp32, and rounded once."""
    _job._ready("matmul")
    call = c.shmemx_matmul_t()
    mc, ma, _ = _product("matmul", call, out, a, b, bias, activation, False)
    if mc.rows != ma.rows:
        raise Error(line("matmul", f"a has {ma.rows} rows, c {mc.rows}"))
    call.m = mc.rows
    on = stream_of(stream, mc.on_gpu)
    lib.shmemx_matmul_on_stream(ctypes.byref(call), on or 0)
    _done(on)
    return out


class Matmul:
    """A product of a team's members, of one shape, with its workspace:

        all_reduce         each has a part of K; all get all of the sum, m x n
        reduce_scatter     the same; member i gets its shard of the rows
        all_gather         each has a shard of a's rows, and all the same b; all get all of c
        all_gather_matmul  each has a shard of a's rows, and a b of its own

    A shard is ceil(m / members) rows; the last ones may be shorter. All PEs of the job make a
    Matmul at once, and destroy it at once; a PE that is in no such team passes team "none"."""

    def __init__(self, op: str, m: int, n: int, k: int, dtype: Any, out_dtype: Any = None, *,
                 team: Team | str | None = None, algorithm: str | None = None) -> None:
        fn = self._fn = "Matmul"
        at = c.SHMEM_TEAM_INVALID if team == "none" else handle(team, fn) # type: ignore[arg-type]
        kind = typename(dtype, fn, "dtype")[0]
        out = typename(out_dtype or dtype, fn, "out_dtype")[0]
        if kind not in ELEMENTS or out not in ELEMENTS:
            raise Error(line(fn, f"dtype = {dtype}: expected float32, float16, bfloat16 or "
                             "float8_e4m3fn"))
        self.op, self.m, self.n, self.k, self.team = op, m, n, k, team
        self._call = c.shmemx_matmul_t(
            type=ELEMENTS[kind], out=ELEMENTS[out], m=m, n=n, k=k, lda=k, ldb=n, ldc=n,
            algorithm=_chosen(ALGORITHMS, algorithm, fn, "algorithm"))
        number = _chosen(OPERATIONS, op, fn, "op")
        if team != "none" and size(team) > 8: # type: ignore[arg-type]
            raise Error(line(fn, f"team: {size(team)} members, and at most 8 multiply together"))
        self._workspace = lib.shmemx_matmul_workspace_create(at, number, ctypes.byref(self._call))
        self._run = getattr(lib, "shmemx_all_gather_matmul_on_stream" if op == "all_gather_matmul"
                            else f"shmemx_matmul_{op}_on_stream")

    def shard(self, i: int) -> tuple[int, int]:
        """The first row of member i's shard, and its number of rows."""
        whole = -(-self.m // size(self.team)) # type: ignore[arg-type]
        first = min(whole * i, self.m)
        return first, min(whole, self.m - first)

    def __call__(self, out: Any, a: Any, b: Any, *, bias: Any = None,
                 activation: str | None = None, stream: Any = None) -> Any:
        """c = activation(sum + bias). out of all_reduce and all_gather is symmetric."""
        fn = self._fn
        if not self._workspace:
            raise Error(line(fn, "has been destroyed"))
        call = c.shmemx_matmul_t.from_buffer_copy(self._call)
        mc, ma, mb = _product(fn, call, out, a, b, bias, activation,
                              self.op in ("all_reduce", "all_gather"))
        me = _job.me if self.team is None else self.team.my_pe() # type: ignore[union-attr]
        mine = self.shard(me)[1]
        rows_a = self.m if self.op in ("all_reduce", "reduce_scatter") else mine
        rows_c = mine if self.op == "reduce_scatter" else self.m
        if (ma.rows, ma.columns, mb.columns, mc.rows) != (rows_a, self.k, self.n, rows_c):
            raise Error(line(fn, f"a is {ma.rows} x {ma.columns}, b {mb.rows} x {mb.columns}, c "
                             f"{mc.rows} x {mc.columns}: expected {rows_a} x {self.k}, {self.k} x "
                             f"{self.n}, {rows_c} x {self.n}"))
        if (call.type, call.out) != (self._call.type, self._call.out):
            raise Error(line(fn, "a, b or c: elements of another type than the Matmul was "
                             "made for"))
        on = stream_of(stream, mc.on_gpu)
        self._run(self._workspace, ctypes.byref(call), on or 0)
        _done(on)
        return out

    def destroy(self) -> None:
        """All PEs of the job call, while no other call is running."""
        if self._workspace:
            lib.shmemx_matmul_workspace_destroy(self._workspace)
        self._workspace = None


# Until finalize: the Matmul of all PEs for an operation, shape and types.
_products: dict[Any, Matmul] = {}
_job.at_finalize.append(_products.clear)


def _of_world(op: str, out: Any, a: Any, b: Any, workspace: Matmul | None, **more: Any) -> Any:
    fn = op if op == "all_gather_matmul" else "matmul_" + op
    _job._ready(fn)
    if workspace is None:
        _matrix(out, fn, "c"), _matrix(a, fn, "a", True), _matrix(b, fn, "b", True)
        m = out.shape[0] if op != "reduce_scatter" else a.shape[0]
        key = op, m, b.shape[1], a.shape[1], a.dtype, out.dtype
        workspace = _products.get(key)
        if workspace is None:
            workspace = _products[key] = Matmul(op, *key[1:4], dtype=key[4], out_dtype=key[5])
    if workspace.op != op:
        raise Error(line(fn, f"workspace: of {workspace.op}"))
    workspace._fn = fn
    return workspace(out, a, b, **more)


def matmul_all_reduce(out: Any, a: Any, b: Any, *, workspace: Matmul | None = None,
                      bias: Any = None, activation: str | None = None, stream: Any = None) -> Any:
    """out = activation(sum over all PEs of a @ b + bias); out is symmetric. The first call of a
    shape, which all PEs make, makes its workspace. A team passes a Matmul as the workspace."""
    return _of_world("all_reduce", out, a, b, workspace, bias=bias, activation=activation,
                     stream=stream)


def matmul_reduce_scatter(out: Any, a: Any, b: Any, *, workspace: Matmul | None = None,
                          bias: Any = None, activation: str | None = None,
                          stream: Any = None) -> Any:
    """As matmul_all_reduce; out is this PE's shard of the rows."""
    return _of_world("reduce_scatter", out, a, b, workspace, bias=bias, activation=activation,
                     stream=stream)


def matmul_all_gather(out: Any, a: Any, b: Any, *, workspace: Matmul | None = None,
                      bias: Any = None, activation: str | None = None, stream: Any = None) -> Any:
    """a is this PE's shard of the rows, b the same on all PEs; out, symmetric, becomes the product
    of all rows."""
    return _of_world("all_gather", out, a, b, workspace, bias=bias, activation=activation,
                     stream=stream)


def all_gather_matmul(out: Any, a: Any, b: Any, *, workspace: Matmul | None = None,
                      bias: Any = None, activation: str | None = None, stream: Any = None) -> Any:
    """a is this PE's shard of the rows; out becomes the product of all PEs' rows with this PE's
    b."""
    return _of_world("all_gather_matmul", out, a, b, workspace, bias=bias, activation=activation,
                     stream=stream)


def all_reduce_norm(input: Any, out: Any = None, *, residual: Any = None, residual_out: Any = None,
                    weight: Any = None, quantized: Any = None, scales: Any = None, group: int = 0,
                    eps: float = 1e-6, weight_offset: float = 0.0,
                    residual_scattered: bool = False, team: Team | None = None,
                    stream: Any = None) -> Any:
    """The RMSNorm of the rows of a sum over the members:

        sum = inputs of all members + residual    -> residual_out
        norm = sum / sqrt(mean(sum^2) + eps) * (weight_offset + weight)    -> out
        quantized = norm / scale, of float8, with a scale for each row, or for each `group` columns

    All are matrices of the same rows and columns, and of input's type but for quantized; weight has
    a number for each column. input, out, quantized, scales and a residual_out that all members get
    are symmetric. residual_scattered: each member reads and writes the residual of its own rows
    only. Returns out."""
    fn = "all_reduce_norm"
    t = handle(team, fn)
    x = _matrix(input, fn, "input", is_symmetric=True)
    norm = c.shmemx_norm_t(type=x.type, rows=x.rows, columns=x.columns, input=x.address,
                           input_stride=x.stride, group=group, eps=eps,
                           weight_offset=weight_offset, residual_scattered=residual_scattered)
    for name, m, symm in (("residual", residual, False),
                          ("residual_out", residual_out, not residual_scattered),
                          ("out", out, True), ("quantized", quantized, True)):
        if m is None:
            continue
        y = _matrix(m, fn, name, is_symmetric=symm)
        if name == "quantized":
            if y.type not in (c.SHMEMX_F8, c.SHMEMX_F8_FNUZ):
                raise Error(line(fn, "quantized: expected float8_e4m3fn or float8_e4m3fnuz"))
            norm.quantized_type = y.type
        elif y.type != x.type:
            raise Error(line(fn, f"{name}: elements of another type than input's"))
        if y.on_gpu != x.on_gpu or y.columns != x.columns or (
                y.rows != x.rows and not (residual_scattered and "residual" in name)):
            raise Error(line(fn, f"{name}: expected {x.rows} x {x.columns}, where input lies"))
        setattr(norm, name, y.address)
        setattr(norm, name + "_stride", y.stride)
    for name, v, kind, count in (
            ("weight", weight, x.type, x.columns),
            ("scales", scales, c.SHMEMX_F32, x.rows * (x.columns // group if group else 1))):
        if v is not None:
            a = array(v, fn, name)
            if ELEMENTS.get(a.type) != kind or a.count != count:
                raise Error(line(fn, f"{name}: expected {count} elements of the right type"))
            if name == "scales":
                symmetric(v, fn, name)
            setattr(norm, name, a.address)
    if (quantized is None) != (scales is None):
        raise Error(line(fn, "quantized and scales go together"))
    on = stream_of(stream, x.on_gpu)
    lib.shmemx_all_reduce_norm_on_stream(t, ctypes.byref(norm), on or 0)
    _done(on)
    return out


LAYOUTS = {"by_pe": c.SHMEMX_MOE_BY_PE, "by_expert": c.SHMEMX_MOE_BY_EXPERT,
           "packed": c.SHMEMX_MOE_PACKED}


class Experts:
    """Tokens to experts and back: shmemx_moe(3). All PEs of the job make Experts at once, and
    destroy them at once; a PE that is in no such team passes team "none".

    hidden      elements of a token, which combine sums, of type dtype
    experts     of all members; expert e is on member e // (experts // members)
    layout      by_pe: the rows of a member lie together; by_expert: those of an expert of this PE;
                packed: the same without gaps, an expert's first row being a multiple of alignment
    token_dtype, scale_bytes   what dispatch moves, if not dtype: float8 with its scales, say

    Views of device memory have the result of a dispatch: rows [n_rows, hidden], pe_count [members],
    expert_count and expert_first [experts here], source_pe and source_token [n_rows], -1 where a
    row is empty, expert and weight [n_rows, top_k or 1], n_dropped [2]: rows without room, of the
    last dispatch and of all. Each dispatch changes their contents."""

    def __init__(self, hidden: int, experts: int, top_k: int, max_tokens: int, dtype: Any, *,
                 layout: str = "by_pe", alignment: int = 1, capacity: int = 0,
                 token_dtype: Any = None, scale_bytes: int = 0,
                 team: Team | str | None = None) -> None:
        fn = "Experts"
        at = c.SHMEM_TEAM_INVALID if team == "none" else handle(team, fn) # type: ignore[arg-type]
        kind = typename(dtype, fn, "dtype")[0]
        if kind not in ("float", "half", "bfloat16"):
            raise Error(line(fn, f"dtype = {dtype}: expected float32, float16 or bfloat16"))
        self.hidden, self.top_k, self.max_tokens = hidden, top_k, max_tokens
        self.dtype, self.token_dtype = dtype, token_dtype or dtype
        token_size = typename(self.token_dtype, fn, "token_dtype")[1]
        members = 1 if team == "none" else size(team) # type: ignore[arg-type]
        if experts < 1 or experts % members or experts > 1024:
            raise Error(line(fn, f"experts = {experts}: expected a multiple of the {members} "
                             "members, at most 1024"))
        if not 1 <= top_k <= 32 or max_tokens < 0 or hidden < 1 or alignment < 1:
            raise Error(line(fn, f"hidden = {hidden}, top_k = {top_k}, max_tokens = {max_tokens}, "
                             f"alignment = {alignment}: out of range"))
        if hidden * token_size % 16 or hidden * typename(dtype, fn, "dtype")[1] % 16:
            raise Error(line(fn, f"hidden = {hidden}: a token must be a multiple of 16 bytes"))
        shape = c.shmemx_moe_shape_t(
            token_bytes=hidden * token_size, scale_bytes=scale_bytes, hidden=hidden,
            type=ELEMENTS[kind], experts=experts, top_k=top_k, max_tokens=max_tokens,
            layout=_chosen(LAYOUTS, layout, fn, "layout"), alignment=alignment, capacity=capacity)
        self._moe = ctypes.c_void_p()
        if lib.shmemx_moe_create(at, ctypes.byref(shape), ctypes.byref(self._moe)):
            raise Error(line(fn, "no room on the symmetric heap (device, SHMEM_DEVICE_SIZE)"))
        if not self._moe:
            return
        v = c.shmemx_moe_view_t()
        lib.shmemx_moe_view(self._moe, ctypes.byref(v))
        self.capacity, self.n_rows, self.experts = v.capacity, v.n_rows, v.experts
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(dtype, torch.dtype):
            int32, float32, int64 = torch.int32, torch.float32, torch.int64
            on = "cpu" if c.platform() == "cpu" else f"cuda:{torch.cuda.current_device()}"
        else:
            torch, on, int32, float32, int64 = None, "cpu", "int32", "float32", "int64"

        def of(address: int, kind: Any, *shape: int) -> Any:
            return view(address, shape, kind, on, torch, self) if address else None

        taken(v.rows, v.n_rows * hidden * token_size)
        self.rows = of(v.rows, self.token_dtype, v.n_rows, hidden)
        self.scales = of(v.scales, torch.uint8 if torch else "uint8", v.n_rows, scale_bytes)
        self.pe_count = of(v.pe_count, int32, v.members)
        self.expert_count = of(v.expert_count, int32, v.experts)
        self.expert_first = of(v.expert_first, int32, v.experts)
        self.source_pe = of(v.source_pe, int32, v.n_rows)
        self.source_token = of(v.source_token, int32, v.n_rows)
        self.expert = of(v.expert, int32, v.n_rows, v.top_k)
        self.weight = of(v.weight, float32, v.n_rows, v.top_k)
        self.n_dropped = of(v.dropped, int64, 2)

    def _tokens(self, fn: str, x: Any, arg: str, dtype: Any, rows: int | None) -> Any:
        a = array(x, fn, arg)
        if not self._moe:
            raise Error(line(fn, "these experts have been destroyed, or this PE has none"))
        if x.dtype != dtype or x.ndim != 2 or x.shape[1] != self.hidden or (
                rows is not None and x.shape[0] != rows):
            n = "tokens" if rows is None else rows
            raise Error(line(fn, f"{arg}: {tuple(x.shape)} of {x.dtype}: expected ({n}, "
                             f"{self.hidden}) of {dtype}"))
        return a

    def _scales(self, fn: str, x: Any) -> int | None:
        return None if x is None else array(x, fn, "scales").address

    def dispatch(self, tokens: Any, ids: Any, weights: Any = None, scales: Any = None,
                 stream: Any = None) -> None:
        """Sends tokens [n, hidden] to experts ids [n, top_k] of int32, -1 for none, with weights
        [n, top_k] of float32, or 1. All members call; n differs."""
        fn = "Experts.dispatch"
        t, i = self._tokens(fn, tokens, "tokens", self.token_dtype, None), array(ids, fn, "ids")
        n = tokens.shape[0]
        if n > self.max_tokens:
            raise Error(line(fn, f"tokens: {n}, and at most {self.max_tokens} were announced"))
        if i.type != "int32" or i.count != n * self.top_k:
            raise Error(line(fn, f"ids: expected ({n}, {self.top_k}) of int32"))
        w = None if weights is None else array(weights, fn, "weights")
        if w is not None and (w.type != "float" or w.count != n * self.top_k):
            raise Error(line(fn, f"weights: expected ({n}, {self.top_k}) of float32"))
        on = stream_of(stream, t.on_gpu)
        lib.shmemx_moe_dispatch_on_stream(self._moe, t.address, self._scales(fn, scales), i.address,
                                          w.address if w else None, n, on or 0)
        self._n = n
        _done(on)

    def replay(self, tokens: Any, scales: Any = None, stream: Any = None) -> None:
        """Sends other tokens by the routing of the last dispatch: the gradient of combine."""
        t = self._tokens("Experts.replay", tokens, "tokens", self.token_dtype, self._n)
        on = stream_of(stream, t.on_gpu)
        lib.shmemx_moe_replay_on_stream(self._moe, t.address,
                                        self._scales("Experts.replay", scales), on or 0)
        _done(on)

    def _back(self, fn: str, routine: Any, rows: Any, out: Any, stream: Any) -> Any:
        self._tokens(fn, rows, "rows", self.dtype, self.n_rows)
        o = self._tokens(fn, out, "out", self.dtype, self._n)
        r = symmetric(rows, fn, "rows")
        on = stream_of(stream, o.on_gpu)
        routine(self._moe, r.address, o.address, on or 0)
        _done(on)
        return out

    def combine(self, rows: Any, out: Any, stream: Any = None) -> Any:
        """out [n, hidden]: for each token of the last dispatch the sum of weight * row over its
        experts in the order of k, in fp32. rows [n_rows, hidden] is symmetric, like self.rows.
        by_pe has the weights in its rows already."""
        return self._back("Experts.combine", lib.shmemx_moe_combine_on_stream, rows, out, stream)

    def sum(self, rows: Any, out: Any, stream: Any = None) -> Any:
        """As combine, without the weights: the gradient of dispatch."""
        return self._back("Experts.sum", lib.shmemx_moe_sum_on_stream, rows, out, stream)

    def members(self, mask: int, stream: Any = None) -> None:
        """Member i takes part from here on if bit i is set."""
        on = stream_of(stream, c.platform() != "cpu")
        lib.shmemx_moe_members_on_stream(self._moe, mask, on or 0)
        _done(on)

    def dropped(self) -> int:
        """The number of rows that have found no room on this PE since the Experts were made."""
        return lib.shmemx_moe_dropped(self._moe)

    def destroy(self) -> None:
        """All PEs of the job call; the views must not be used afterwards."""
        if self._moe:
            lib.shmemx_moe_destroy(self._moe)
        self._moe = ctypes.c_void_p()


FORMATS = {"fp8": c.SHMEMX_WIRE_F8, "int8": c.SHMEMX_WIRE_INT8, "int6": c.SHMEMX_WIRE_INT6,
           "int4": c.SHMEMX_WIRE_INT4}


class Wire:
    """Sums and all-gathers whose elements travel as fewer bits: shmemx_wire(3). All PEs of the job
    make a Wire at once, and destroy it at once; a PE that is in no such team passes team "none".

    elements  the most that the source of a call has, of dtype float16 or bfloat16
    format    fp8 (E4M3), int8, int6 or int4, with a scale for each 32 elements
    chunks    0: the library's choice

    dest and source need not be symmetric. All members get the same bits."""

    def __init__(self, elements: int, dtype: Any, format: str = "int8", *, chunks: int = 0,
                 team: Team | str | None = None) -> None:
        fn = "Wire"
        at = c.SHMEM_TEAM_INVALID if team == "none" else handle(team, fn) # type: ignore[arg-type]
        kind = typename(dtype, fn, "dtype")[0]
        if kind not in ("half", "bfloat16"):
            raise Error(line(fn, f"dtype = {dtype}: expected float16 or bfloat16"))
        if not 0 < elements <= 1 << 30 or chunks not in (-1, 0, 1, 3, 5, 7):
            raise Error(line(fn, f"elements = {elements}, chunks = {chunks}: out of range"))
        self._kind, self._elements, self._team = kind, elements, team
        shape = c.shmemx_wire_shape_t(type=ELEMENTS[kind], elements=elements, chunks=chunks,
                                      format=_chosen(FORMATS, format, fn, "format"))
        self._wire = ctypes.c_void_p()
        if lib.shmemx_wire_create(at, ctypes.byref(shape), ctypes.byref(self._wire)):
            raise Error(line(fn, "no room on the symmetric heap (device, SHMEM_DEVICE_SIZE)"))

    def _run(self, fn: str, routine: Any, dest: Any, source: Any, stream: Any, dest_times: int = 1,
             source_times: int = 1) -> Any:
        fn = "Wire." + fn
        if not self._wire:
            raise Error(line(fn, "has been destroyed, or this PE has none"))
        d = array(dest, fn, "dest")
        s = d if source is None else array(source, fn, "source")
        if d.type != self._kind or s.type != self._kind or d.on_gpu != s.on_gpu:
            raise Error(line(fn, f"dest, source: expected elements of {self._kind}, in one place"))
        if d.count * source_times != s.count * dest_times or s.count > self._elements:
            raise Error(line(fn, f"dest: {d.count} elements, source: {s.count}, of at most "
                             f"{self._elements}"))
        on = stream_of(stream, d.on_gpu)
        routine(self._wire, d.address, s.address, min(d.count, s.count), on or 0)
        _done(on)
        return dest

    def all_reduce(self, dest: Any, source: Any = None, stream: Any = None) -> Any:
        """As shmem.all_reduce of a sum; source None: in place."""
        return self._run("all_reduce", lib.shmemx_wire_sum_reduce_on_stream, dest, source, stream)

    def reduce_scatter(self, dest: Any, source: Any, stream: Any = None) -> Any:
        """As shmem.reduce_scatter of a sum: source has a block for each member."""
        return self._run("reduce_scatter", lib.shmemx_wire_sum_reduce_scatter_on_stream, dest,
                         source, stream, 1, size(self._team)) # type: ignore[arg-type]

    def all_gather(self, dest: Any, source: Any, stream: Any = None) -> Any:
        """As shmem.all_gather."""
        return self._run("all_gather", lib.shmemx_wire_fcollect_on_stream, dest, source, stream,
                         size(self._team)) # type: ignore[arg-type]

    def round(self, dest: Any, source: Any = None, stream: Any = None) -> Any:
        """The elements as one way over the links leaves them, without another PE."""
        return self._run("round", lib.shmemx_wire_round_on_stream, dest, source, stream)

    def destroy(self) -> None:
        """All PEs of the job call, while no other call is running."""
        if self._wire:
            lib.shmemx_wire_destroy(self._wire)
        self._wire = ctypes.c_void_p()
