// SPDX-License-Identifier: MIT
#include "../../device/moe/moe.hpp"
#include "../../device/kernels.hpp"
#include "../memory/buffer.hpp"
#include "../stream.hpp"
#include "copy.hpp"
#include "heap.hpp"
#include "hip.hpp"
#include "object.hpp"
#include "publish.hpp"
#include <algorithm>

using namespace shmem;

struct shmemx_moe {
  moe::Moe device;
  moe::Grids grids;
  void *block;  // on the symmetric heap, as large on all PEs of the world
  size_t rows;  // for which there is room
  int n_tokens; // of the last dispatch
  uint64_t all; // the members
  int pe[moe::max_members];
};

namespace {

using moe::Moe;

// Lays objects out one after the other, each from a line on.
class Arrangement {
  char *at;

public:
  explicit Arrangement(char *from) : at(from) {}
  template <class T> void take(T *&p, size_t n) {
    p = reinterpret_cast<T *>(at);
    at += round_up(n * sizeof(T), device::cache_line);
  }
  char *end() const { return at; }
};

size_t element_bytes(shmemx_type_t type) {
  return type == SHMEMX_F32 ? 4 : 2;
}

// Sets the pointers of all arrays from `from` on, which is NULL for their size alone. The end of
// those that begin as zero, of those that begin as -1, and of all.
struct ArrayEnds {
  char *zero, *none, *all;
};
ArrayEnds lay_out(Moe &m, size_t rows, char *from) {
  Arrangement places(from);
  const auto n = size_t(m.n), local = size_t(m.local), experts = size_t(m.experts),
             k = size_t(m.top_k), tokens = size_t(m.tokens), chunks = size_t(m.chunks),
             columns = size_t(m.columns), staged = n * m.staged;
  const bool by_pe = m.layout == SHMEMX_MOE_BY_PE;
  ArrayEnds ends;
  places.take(m.signals, 1);
  places.take(m.has, columns * chunks);
  places.take(m.before, columns * chunks);
  places.take(m.weight, tokens * k);
  places.take(m.base, experts);
  places.take(m.bound, experts);
  places.take(m.counts, n * columns);
  places.take(m.start, n * local);
  places.take(m.gap, local);
  places.take(m.last, 1);
  places.take(m.pe_count, n);
  places.take(m.expert_count, local);
  places.take(m.expert_first, local);
  places.take(m.stage_weight, staged * k);
  m.row_weight = m.stage_weight;
  if (!by_pe) places.take(m.row_weight, rows);
  ends.zero = places.end();
  places.take(m.id, tokens * k);
  places.take(m.place, tokens * k);
  places.take(m.stage_pe, staged);
  places.take(m.stage_token, staged);
  places.take(m.stage_expert, staged * k);
  places.take(m.stage_place, by_pe ? 0 : staged * k);
  m.row_pe = m.stage_pe, m.row_token = m.stage_token, m.row_expert = m.stage_expert;
  if (!by_pe) {
    places.take(m.row_pe, rows);
    places.take(m.row_token, rows);
    places.take(m.row_expert, rows);
  }
  ends.none = places.end();
  places.take(m.stage, staged * m.token_bytes);
  places.take(m.stage_scales, staged * m.scale_bytes);
  m.rows = m.stage, m.scales = m.stage_scales;
  if (!by_pe) {
    places.take(m.rows, rows * m.token_bytes);
    places.take(m.scales, rows * m.scale_bytes);
  }
  ends.all = places.end();
  return ends;
}

void check_multiple(const char *fn, const char *arg, size_t value, size_t of, size_t least) {
  if (value % of || value < least)
    fatal("%s: %s = %zu: not a multiple of %zu%s", fn, arg, value, of, least ? " above 0" : "");
}
using shmem::stream::check_range;

// The shape of a member, as far as there is no place for its arrays yet.
Moe checked(const char *fn, const Team &t, const shmemx_moe_shape_t &s, size_t *rows) {
  if (s.size != sizeof s)
    fatal("%s: size = %zu: the shape has %zu bytes: begin with SHMEMX_MOE_SHAPE_INITIALIZER", fn,
          s.size, sizeof s);
  check_range(fn, "members of the team", t.n, 1, moe::max_members);
  check_multiple(fn, "token_bytes", s.token_bytes, 16, 16);
  check_multiple(fn, "scale_bytes", s.scale_bytes, 4, 0);
  check_range(fn, "type", s.type, SHMEMX_F32, SHMEMX_BF16);
  check_multiple(fn, "hidden", s.hidden, 16 / element_bytes(s.type), 1);
  check_range(fn, "experts", s.experts, 1, moe::max_experts);
  check_multiple(fn, "experts", size_t(s.experts), size_t(t.n), 1);
  check_range(fn, "top_k", s.top_k, 1, moe::max_top_k);
  check_range(fn, "max_tokens", s.max_tokens, 1, 1 << 24);
  check_range(fn, "layout", s.layout, SHMEMX_MOE_BY_PE, SHMEMX_MOE_PACKED);
  check_range(fn, "alignment", s.alignment, 1, 1 << 16);
  Moe m{};
  m.me = t.me, m.n = t.n;
  m.experts = s.experts, m.local = s.experts / t.n, m.top_k = s.top_k;
  m.layout = s.layout, m.type = s.type;
  m.alignment = unsigned(s.alignment);
  m.tokens = unsigned(s.max_tokens);
  m.chunks = unsigned(round_up((m.tokens + moe::chunk - 1) / moe::chunk, 4)); // a pack of them
  m.columns = unsigned(m.n + m.experts);
  const size_t all = size_t(m.n) * m.tokens, most = s.layout == SHMEMX_MOE_BY_PE ? m.tokens
                                                    : s.layout == SHMEMX_MOE_BY_EXPERT
                                                        ? all
                                                        : all * size_t(std::min(m.top_k, m.local)) +
                                                              size_t(m.local) * (m.alignment - 1);
  const size_t capacity = s.capacity ? std::min(s.capacity, most) : most;
  *rows = s.layout == SHMEMX_MOE_BY_PE       ? size_t(m.n) * capacity
          : s.layout == SHMEMX_MOE_BY_EXPERT ? size_t(m.local) * capacity
                                             : capacity;
  if (std::max(*rows, all * size_t(m.top_k)) >= size_t(1) << 31)
    fatal("%s: max_tokens = %d: %zu rows, and at most 2147483647 can be numbered", fn, s.max_tokens,
          std::max(*rows, all * size_t(m.top_k)));
  m.capacity = unsigned(capacity);
  m.staged = s.layout == SHMEMX_MOE_BY_PE ? m.capacity : m.tokens;
  m.token_bytes = s.token_bytes, m.scale_bytes = s.scale_bytes;
  m.row_bytes = s.hidden * element_bytes(s.type);
  return m;
}

uint64_t digest(const Moe &m) {
  const uint64_t words[] = {uint64_t(m.experts), uint64_t(m.top_k), uint64_t(m.layout),
                            uint64_t(m.type),    m.alignment,       m.tokens,
                            m.capacity,          m.token_bytes,     m.scale_bytes,
                            m.row_bytes};
  uint64_t sum = 0;
  for (uint64_t w : words) sum = (sum ^ w) * 0x9e3779b97f4a7c15u, sum ^= sum >> 29;
  return sum;
}

void begin(const char *fn, shmemx_moe &m, Team &t, char *from) {
  Moe &d = m.device;
  const ArrayEnds ends = lay_out(d, m.rows, from);
  moe::MoeSignals signals{};
  for (int i = 0; i < t.n; i++) {
    const int pe = m.pe[i] = signals.pe[i] = t.pe(i), local = local_of(pe);
    if (local < 0) fatal("%s: team: PE %d is not mapped: experts are on PEs of one node", fn, pe);
    signals.delta[i] = self.device.delta[local];
  }
  m.all = signals.members = t.n == 64 ? ~uint64_t(0) : (uint64_t(1) << t.n) - 1;
  gpu::OnDevice on;
  hipStream_t stream = gpu::stream();
  MUST(hipMemsetAsync(from, 0, size_t(ends.zero - from), stream), "%s", fn);
  MUST(hipMemsetAsync(ends.zero, 0xff, size_t(ends.none - ends.zero), stream), "%s", fn);
  MUST(hipStreamSynchronize(stream), "%s", fn);
  gpu::copy(d.signals, &signals, sizeof signals); // there before a peer's kernel sets a flag
  int units;
  unsigned blocks;
  MUST(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, gpu::chosen), "%s", fn);
  MUST(moe::residents(gpu::chosen, &blocks), "%s", fn);
  // As many as a collective has, see open_tuning in heap.cpp.
  m.grids = {std::clamp(blocks / 4, 1u, device::max_channels), 4 * unsigned(units)};
}

hipStream_t hip(shmemx_stream_t stream) {
  return reinterpret_cast<hipStream_t>(stream);
}
shmemx_moe &need(const char *fn, shmemx_moe_t moe) {
  check_ready(fn);
  if (!moe || !moe->device.n)
    fatal("%s: moe = %p: this PE has no part in it", fn, static_cast<void *>(moe));
  return *moe;
}
void check_aligned(const char *fn, const char *arg, const void *p, size_t align, size_t bytes) {
  if (bytes && !p) fatal("%s: %s = NULL", fn, arg);
  if (bytes && uintptr_t(p) % align)
    fatal("%s: %s = %p: not aligned to %zu bytes", fn, arg, p, align);
}
void check_payload(const char *fn, const Moe &d, const void *tokens, const void *scales, int n) {
  check_aligned(fn, "tokens", tokens, 16, size_t(n));
  check_aligned(fn, "scales", scales, 4, size_t(n) * d.scale_bytes);
}

void gather(const char *fn, shmemx_moe_t moe, const void *rows, void *out, bool weighted,
            shmemx_stream_t stream) {
  shmemx_moe &m = need(fn, moe);
  const size_t bytes = m.rows * m.device.row_bytes;
  const Region *r = gpu::region(rows);
  if (!r || !r->has(rows, bytes))
    fatal("%s: rows = %p: %zu bytes from there are not on the symmetric heap in device memory, nor "
          "in a buffer there",
          fn, rows, bytes);
  check_aligned(fn, "rows", rows, 16, bytes);
  check_aligned(fn, "out", out, 16, size_t(m.n_tokens));
  const uintptr_t *row = nullptr;
  if (r != &self.device) {
    for (int i = 0; i < m.device.n; i++) buffer::check_at(fn, "rows", rows, *r, m.pe[i]);
    row = gpu::row_of(*r);
  }
  gpu::OnDevice on;
  MUST(moe::combine(m.device, rows, row, out, unsigned(m.n_tokens), weighted, m.grids, hip(stream)),
       "%s", fn);
}

} // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT int shmemx_moe_create(shmem_team_t team, const shmemx_moe_shape_t *shape,
                             shmemx_moe_t *moe) {
  const char *const fn = "shmemx_moe_create";
  const auto bytes = [&](shmemx_moe &made, Team &t) {
    made.device = checked(fn, t, *shape, &made.rows);
    gpu::check_shapes(fn, t, digest(made.device));
    Moe sizes = made.device;
    return uintptr_t(lay_out(sizes, made.rows, nullptr).all);
  };
  const auto [m, t, memory] = gpu::make_object<shmemx_moe>(fn, team, bytes);
  gpu::let_report(); // of a number of an expert that is none
  if (t) begin(fn, *m, *t, memory);
  sync(*self.world);
  *moe = m;
  return 0;
}

EXPORT void shmemx_moe_destroy(shmemx_moe_t moe) {
  if (!moe) return;
  api::free("shmemx_moe_destroy", moe->block);
  delete moe;
}

EXPORT void shmemx_moe_dispatch_on_stream(shmemx_moe_t moe, const void *tokens, const void *scales,
                                          const int *expert_ids, const float *weights, int n_tokens,
                                          shmemx_stream_t stream) {
  const char *const fn = "shmemx_moe_dispatch_on_stream";
  shmemx_moe &m = need(fn, moe);
  check_range(fn, "n_tokens", n_tokens, 0, int(m.device.tokens));
  check_payload(fn, m.device, tokens, scales, n_tokens);
  check_aligned(fn, "expert_ids", expert_ids, alignof(int), size_t(n_tokens));
  m.n_tokens = n_tokens;
  static const int none = -1; // that ids of no tokens are, so that they are not a replay's
  gpu::OnDevice on;
  MUST(moe::dispatch(m.device, tokens, scales, n_tokens ? expert_ids : &none, weights,
                     unsigned(n_tokens), m.grids, hip(stream)),
       "%s: %d tokens", fn, n_tokens);
}

EXPORT void shmemx_moe_replay_on_stream(shmemx_moe_t moe, const void *tokens, const void *scales,
                                        shmemx_stream_t stream) {
  const char *const fn = "shmemx_moe_replay_on_stream";
  shmemx_moe &m = need(fn, moe);
  check_payload(fn, m.device, tokens, scales, m.n_tokens);
  gpu::OnDevice on;
  MUST(moe::dispatch(m.device, tokens, scales, nullptr, nullptr, unsigned(m.n_tokens), m.grids,
                     hip(stream)),
       "%s: %d tokens", fn, m.n_tokens);
}

EXPORT void shmemx_moe_combine_on_stream(shmemx_moe_t moe, const void *rows, void *out,
                                         shmemx_stream_t stream) {
  gather("shmemx_moe_combine_on_stream", moe, rows, out, true, stream);
}
EXPORT void shmemx_moe_sum_on_stream(shmemx_moe_t moe, const void *rows, void *out,
                                     shmemx_stream_t stream) {
  gather("shmemx_moe_sum_on_stream", moe, rows, out, false, stream);
}

EXPORT void shmemx_moe_members_on_stream(shmemx_moe_t moe, uint64_t members,
                                         shmemx_stream_t stream) {
  const char *const fn = "shmemx_moe_members_on_stream";
  shmemx_moe &m = need(fn, moe);
  if (members & ~m.all)
    fatal("%s: members = 0x%llx: the team has %d", fn, (unsigned long long)members, m.device.n);
  gpu::OnDevice on;
  MUST(kernels::store_on_stream(&m.device.signals->members, members, sizeof members, hip(stream)),
       "%s", fn);
}

EXPORT void shmemx_moe_kernel_object(shmemx_moe_t moe, size_t bytes, void *object) {
  const char *const fn = "shmem::moe::kernel_object";
  const shmemx_moe &m = need(fn, moe);
  shmem::stream::check_shared(fn, bytes, sizeof m.device);
  memcpy(object, &m.device, bytes);
}

EXPORT void shmemx_moe_view(shmemx_moe_t moe, shmemx_moe_view_t *view) {
  const char *const fn = "shmemx_moe_view";
  const shmemx_moe &m = need(fn, moe);
  const Moe &d = m.device;
  if (view->size != sizeof *view)
    fatal("%s: size = %zu: the view has %zu bytes", fn, view->size, sizeof *view);
  *view = {.size = sizeof *view,
           .members = d.n,
           .experts = d.local,
           .top_k = d.layout == SHMEMX_MOE_BY_PE ? d.top_k : 1,
           .capacity = d.capacity,
           .n_rows = m.rows,
           .rows = d.rows,
           .scales = d.scale_bytes ? d.scales : nullptr,
           .pe_count = d.pe_count,
           .expert_count = d.expert_count,
           .expert_first = d.expert_first,
           .source_pe = d.row_pe,
           .source_token = d.row_token,
           .expert = d.row_expert,
           .weight = d.row_weight,
           .dropped = d.signals->dropped};
}

EXPORT uint64_t shmemx_moe_dropped(shmemx_moe_t moe) {
  const char *const fn = "shmemx_moe_dropped";
  const shmemx_moe &m = need(fn, moe);
  uint64_t dropped;
  gpu::copy(&dropped, &m.device.signals->dropped[1], sizeof dropped);
  return dropped;
}
