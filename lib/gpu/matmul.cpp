// SPDX-License-Identifier: MIT
// Matrix products on a stream: what the API says, checked and handed to the tile engine.
#include "../log.hpp"
#include "../memory/buffer.hpp"
#include "../stream.hpp"
#include "choice.hpp"
#include "copy.hpp"
#include "heap.hpp"
#include "hip.hpp"
#include "object.hpp"
#include "publish.hpp"
#include "topology.hpp"

#include "../../device/gemm/matmul.hpp"
#include <algorithm>
#include <shmemx.h>

using namespace shmem;

struct shmemx_matmul_workspace : gemm::Workspace {
  shmemx_matmul_t shape;
  void *block; // on the symmetric heap, as large on all PEs of the world: signals, then the memory
};

namespace {

using stream::check_range;

constexpr const char *operations[] = {"reduce_scatter", "all_reduce", "all_gather",
                                      "all_gather_matmul"};

void check_rows(const char *fn, const char *arg, size_t ld, size_t row) {
  if (ld < row) fatal("%s: %s = %zu: a row has %zu elements", fn, arg, ld, row);
}

// a_rows: of the A that this PE has.
gemm::Matmul checked(const char *fn, const shmemx_matmul_t &c, size_t a_rows) {
  check_range(fn, "type", c.type, SHMEMX_F32, SHMEMX_F8);
  check_range(fn, "out", c.out, SHMEMX_F32, SHMEMX_F8);
  check_range(fn, "activation", c.activation, SHMEMX_ACTIVATION_NONE, SHMEMX_ACTIVATION_SILU);
  check_range(fn, "algorithm", c.algorithm, SHMEMX_MATMUL_BEST, SHMEMX_MATMUL_BULK);
  check_rows(fn, "lda", c.lda, c.trans_a ? a_rows : c.k);
  check_rows(fn, "ldb", c.ldb, c.trans_b ? c.k : c.n);
  check_rows(fn, "ldc", c.ldc, c.n);
  return {.type = gemm::Type(c.type),
          .out = gemm::Type(c.out),
          .m = c.m,
          .n = c.n,
          .k = c.k,
          .a = c.a,
          .b = c.b,
          .c = c.c,
          .bias = c.bias,
          .lda = c.lda,
          .ldb = c.ldb,
          .ldc = c.ldc,
          .trans_a = c.trans_a != 0,
          .trans_b = c.trans_b != 0,
          .act = gemm::Activation(c.activation),
          .algorithm = gemm::Algorithm(c.algorithm)};
}

// Of a product of several PEs.
gemm::Matmul checked(const char *fn, gemm::Fused op, const shmemx_matmul_workspace *w,
                     const shmemx_matmul_t &c) {
  check_ready(fn);
  if (!w || !w->members.n)
    fatal("%s: workspace = %p: this PE has no part in it", fn, static_cast<const void *>(w));
  if (w->op != op)
    fatal("%s: workspace = %p: it was made for %s", fn, static_cast<const void *>(w),
          operations[int(w->op)]);
  const shmemx_matmul_t &s = w->shape;
  if (c.type != s.type || c.out != s.out || c.m != s.m || c.n != s.n || c.k != s.k)
    fatal("%s: m = %zu, n = %zu, k = %zu of types %d, %d: the workspace was made for %zu, %zu, %zu "
          "of %d, %d",
          fn, c.m, c.n, c.k, c.type, c.out, s.m, s.n, s.k, s.type, s.out);
  const bool shard = op == gemm::Fused::all_gather || op == gemm::Fused::gather_matmul;
  size_t first, a_rows = c.m;
  if (shard) shmemx_matmul_shard(c.m, w->members.n, w->members.me, &first, &a_rows);
  gemm::Matmul call = checked(fn, c, a_rows);
  if (op == gemm::Fused::gather_matmul && c.trans_a)
    fatal("%s: trans_a = %d: A goes by rows", fn, c.trans_a);
  const size_t bytes =
      c.m && c.n ? ((c.m - 1) * c.ldc + c.n) * gemm::bytes_of(gemm::Type(c.out)) : 0;
  if ((op == gemm::Fused::all_reduce || op == gemm::Fused::all_gather) && bytes) {
    const Region *r = gpu::region(c.c);
    if (!r || !r->has(c.c, bytes))
      fatal("%s: c = %p: %zu bytes from there are not on the symmetric heap in device memory, nor "
            "in a buffer there",
            fn, c.c, bytes);
    if (r != &self.device) {
      for (int i = 0; i < w->members.n; i++) buffer::check_at(fn, "c", c.c, *r, w->copies.pe[i]);
      call.c_row = gpu::row_of(*r);
      call.c_delta = r->row;
    }
  }
  return call;
}

// From this PE's GPU to those of all other members together.
gemm::Links links(const Team &t) {
  double slowest = 0;
  for (int i = 0; i < t.n; i++) {
    if (i == t.me) continue;
    const double rate = gpu::rate_to(t.pe(i));
    if (rate == 0) return {}; // an H200's: it was not measured on another with a switch
    slowest = slowest == 0 ? rate : std::min(slowest, rate);
  }
  // Each of the others gets as much. Of a link kernels and copy engines use what they used of an
  // H200's, which has 450 GB/s.
  gemm::Links all;
  if (slowest > 0) {
    all.kernels *= (t.n - 1) * slowest / 450e3;
    all.engines *= (t.n - 1) * slowest / 450e3;
  }
  return all;
}

} // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT void shmemx_matmul_launch(const char *fn, size_t shared_bytes, gemm::Fused op,
                                 shmemx_matmul_workspace_t workspace, const shmemx_matmul_t *call,
                                 shmemx_stream_t stream, gemm::Launch launch, const void *finish) {
  stream::check_shared(fn, shared_bytes, gemm::shared_bytes);
  gemm::Matmul matmul =
      op == gemm::Fused::none ? checked(fn, *call, call->m) : checked(fn, op, workspace, *call);
  if (workspace) matmul.links = workspace->links;
  const hipError_t error = launch(workspace, matmul, reinterpret_cast<hipStream_t>(stream), finish);
  if (error != hipSuccess)
    fatal("%s: m = %zu, n = %zu, k = %zu: %s", fn, call->m, call->n, call->k,
          hipGetErrorString(error));
}

static void launch(const char *fn, gemm::Fused op, shmemx_matmul_workspace_t workspace,
                   const shmemx_matmul_t *call, shmemx_stream_t stream) {
  shmemx_matmul_launch(fn, gemm::shared_bytes, op, workspace, call, stream, gemm::matmul, nullptr);
}

EXPORT void shmemx_matmul_on_stream(const shmemx_matmul_t *call, shmemx_stream_t stream) {
  launch("shmemx_matmul_on_stream", gemm::Fused::none, nullptr, call, stream);
}

EXPORT shmemx_matmul_workspace_t shmemx_matmul_workspace_create(shmem_team_t team,
                                                                shmemx_matmul_op_t op,
                                                                const shmemx_matmul_t *shape) {
  const char *const fn = "shmemx_matmul_workspace_create";
  const auto bytes = [&](shmemx_matmul_workspace &made, const Team &t) {
    check_range(fn, "op", op, SHMEMX_MATMUL_REDUCE_SCATTER, SHMEMX_ALL_GATHER_MATMUL);
    check_range(fn, "type", shape->type, SHMEMX_F32, SHMEMX_F8);
    check_range(fn, "out", shape->out, SHMEMX_F32, SHMEMX_F8);
    if (t.n > gemm::max_members)
      fatal("%s: team: %d members, and at most %d can share a product", fn, t.n, gemm::max_members);
    if (!self.device.size)
      fatal("%s: there is no symmetric heap in device memory: %s", fn, gpu::missing());
    made.op = gemm::Fused(op);
    made.shape = *shape;
    gemm::Matmul size{};
    size.type = gemm::Type(shape->type), size.out = gemm::Type(shape->out);
    size.m = shape->m, size.n = shape->n, size.k = shape->k;
    return sizeof(gemm::Signals) + gemm::workspace_bytes(made.op, size, t.n);
  };
  const auto [w, t, flags] = gpu::make_object<shmemx_matmul_workspace>(fn, team, bytes);
  if (t) {
    w->links = links(*t);
    w->memory = flags + sizeof(gemm::Signals);
    w->members = {t->me, t->n, reinterpret_cast<gemm::Signals *>(flags)};
    gemm::Signals signals{};
    for (int i = 0; i < t->n; i++) {
      const int local = local_of(t->pe(i));
      signals.pe[i] = w->copies.pe[i] = t->pe(i);
      if (local < 0)
        w->copies.remote |= 1u << i;
      else
        signals.delta[i] = w->copies.delta[i] = self.device.delta[local];
    }
    {
      gpu::OnDevice on;
      w->copies.stream = gpu::make_stream();
      for (hipEvent_t *event : {&w->copies.begin, &w->copies.end})
        MUST(hipEventCreateWithFlags(event, hipEventDisableTiming), "hipEventCreateWithFlags");
    }
    gpu::copy(flags, &signals, sizeof signals); // there before a peer's kernel sets a flag
  }
  sync(*self.world);
  return w;
}

EXPORT void shmemx_matmul_workspace_destroy(shmemx_matmul_workspace_t workspace) {
  if (!workspace) return;
  if (workspace->copies.stream) {
    gpu::OnDevice on;
    for (hipEvent_t event : {workspace->copies.begin, workspace->copies.end})
      MUST(hipEventDestroy(event), "hipEventDestroy");
    MUST(hipStreamDestroy(workspace->copies.stream), "hipStreamDestroy");
  }
  api::free("shmemx_matmul_workspace_destroy", workspace->block);
  delete workspace;
}

#define PRODUCT(name, op)                                                                          \
  EXPORT void name(shmemx_matmul_workspace_t workspace, const shmemx_matmul_t *call,               \
                   shmemx_stream_t stream) {                                                       \
    launch(#name, gemm::Fused::op, workspace, call, stream);                                       \
  }
PRODUCT(shmemx_matmul_reduce_scatter_on_stream, reduce_scatter)
PRODUCT(shmemx_matmul_all_reduce_on_stream, all_reduce)
PRODUCT(shmemx_matmul_all_gather_on_stream, all_gather)
PRODUCT(shmemx_all_gather_matmul_on_stream, gather_matmul)
#undef PRODUCT
