// SPDX-License-Identifier: MIT
// A model that puts every row of every PE where the layout says it belongs, and checks of a call
// against it. Every PE knows the routings, tokens and rows of all, by their formulas.
#pragma once
#include <algorithm>
#include <cmath>
#include <unistd.h>
#include <vector>

#include <hip/hip_runtime.h>

#include "../../device/moe/moe.hpp"
#include "../../device/number.hpp"
#include "../objects.hpp"
#include "../stream.hpp"
#include "workgroups.hpp"

namespace {

using shmem::Bfloat16, shmem::Half, shmem::from_float, shmem::to_float;

template <class T> std::vector<T> from_device(const T *from, size_t n) {
  std::vector<T> host(n);
  to_host(host.data(), from, n * sizeof(T));
  return host;
}

uint32_t hash(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  uint32_t x = a * 2654435761u + b * 40503u + c * 977u + d * 131u + 12345u;
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}
float value(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return float(int32_t(hash(a, b, c, d))) * 0x1p-31f;
}

enum Kind { usual, one_expert, one_without };

struct Job {
  shmem_team_t team;
  int me, n;
  shmemx_moe_shape_t shape;
  Kind kind;
  shmemx_moe_t moe;
  shmemx_moe_view_t view;
  char *tokens, *scales, *rows, *out;
  int *id;
  float *weight;
  uint64_t members; // that take part
  int local() const { return shape.experts / n; }
  bool by_pe() const { return shape.layout == SHMEMX_MOE_BY_PE; }
  size_t element() const { return shape.type == SHMEMX_F32 ? 4 : 2; }
  size_t row_bytes() const { return shape.hidden * element(); }
  bool in(int i) const { return members >> i & 1; }
};

struct Routing {
  int n; // tokens
  std::vector<int> id;
  std::vector<float> weight;
};
Routing routing(const Job &j, int i, int call) {
  Routing r;
  r.n = j.shape.max_tokens - int(hash(1, uint32_t(i), uint32_t(call), 0) % 3);
  if (r.n < 0 || (j.kind == one_without && i == call % j.n)) r.n = 0;
  for (int t = 0; t < r.n; t++) {
    std::vector<int> all(size_t(j.shape.experts));
    for (size_t e = 0; e < all.size(); e++) all[e] = int(e);
    for (int k = 0; k < j.shape.top_k; k++) {
      const uint32_t x = hash(uint32_t(i * 1000 + t), uint32_t(k), uint32_t(call), 7);
      int e = -1;
      if (j.kind == one_expert) {
        if (k == call % j.shape.top_k) e = call % j.shape.experts;
      } else if (size_t(k) < all.size()) {
        std::swap(all[size_t(k)], all[size_t(k) + x % (all.size() - size_t(k))]);
        if (x >> 16 & 7) e = all[size_t(k)];
      }
      r.id.push_back(e);
      r.weight.push_back(value(uint32_t(t), uint32_t(k), uint32_t(call), uint32_t(i)));
    }
  }
  return r;
}

// A member's rows after a dispatch.
struct Row {
  int pe = -1, token = -1;
  std::vector<int> expert;
  std::vector<float> weight;
};
struct Member {
  std::vector<Row> rows;
  std::vector<int> expert_count, expert_first, pe_count;
  uint64_t dropped = 0;
};
struct Model {
  std::vector<Routing> of;
  std::vector<Member> member;
  std::vector<std::vector<int>> place; // [source][token * top_k + k]: the row at its member, or -1
};
Model model(const Job &j, int call) {
  Model m;
  const int k = j.shape.top_k, local = j.local();
  for (int i = 0; i < j.n; i++) {
    m.of.push_back(routing(j, i, call));
    if (!j.in(i) || !j.in(j.me)) m.of.back().n = 0; // a member that is not in hears from none
    m.place.emplace_back(m.of.back().id.size(), -1);
  }
  for (int d = 0; d < j.n; d++) {
    Member &x = m.member.emplace_back();
    x.rows.resize(j.view.n_rows);
    x.expert_count.resize(size_t(local));
    x.expert_first.resize(size_t(local));
    x.pe_count.resize(size_t(j.n));
    const auto here = [&](int e) { return e >= 0 && e / local == d && j.in(d); };
    for (int s = 0; s < j.n; s++)
      for (int t = 0; t < m.of[size_t(s)].n; t++) {
        const Routing &r = m.of[size_t(s)];
        int first = -1;
        for (int i = 0; i < k; i++)
          if (here(r.id[size_t(t * k + i)])) {
            if (first < 0) first = i;
            x.expert_count[size_t(r.id[size_t(t * k + i)] - d * local)]++;
          }
        if (first < 0) continue;
        int &count = x.pe_count[size_t(s)];
        if (j.by_pe() && size_t(count) == j.view.capacity) {
          x.dropped++;
          continue;
        }
        if (j.by_pe()) {
          const size_t at = size_t(s) * j.view.capacity + size_t(count);
          Row &row = x.rows[at];
          row.pe = s, row.token = t;
          for (int i = 0; i < k; i++) {
            const int e = r.id[size_t(t * k + i)];
            row.expert.push_back(here(e) ? e - d * local : -1);
            row.weight.push_back(here(e) ? r.weight[size_t(t * k + i)] : 0);
          }
          m.place[size_t(s)][size_t(t * k + first)] = int(at);
        }
        count++;
      }
    if (j.by_pe()) continue;
    size_t next = 0;
    for (int le = 0; le < local; le++) {
      const bool packed = j.shape.layout == SHMEMX_MOE_PACKED;
      const size_t first = packed ? next : size_t(le) * j.view.capacity,
                   bound = packed ? j.view.capacity : first + j.view.capacity;
      size_t at = first;
      int has = 0;
      for (int s = 0; s < j.n; s++)
        for (int t = 0; t < m.of[size_t(s)].n; t++)
          for (int i = 0; i < k; i++) {
            const Routing &r = m.of[size_t(s)];
            if (!here(r.id[size_t(t * k + i)]) || r.id[size_t(t * k + i)] != d * local + le)
              continue;
            if (at >= bound) {
              x.dropped++;
            } else {
              Row &row = x.rows[at];
              row.pe = s, row.token = t;
              row.expert = {le};
              row.weight = {r.weight[size_t(t * k + i)]};
              m.place[size_t(s)][size_t(t * k + i)] = int(at);
              has++;
            }
            at++;
          }
      x.expert_count[size_t(le)] = has;
      x.expert_first[size_t(le)] = int(std::min(first, bound));
      const size_t unit = size_t(j.shape.alignment);
      next = (at + unit - 1) / unit * unit;
    }
  }
  return m;
}

Job make(shmem_team_t team, shmemx_moe_layout_t layout, Kind kind, shmemx_type_t type,
         size_t token_bytes, size_t scale_bytes, size_t hidden, int local, int top_k,
         int max_tokens, size_t capacity = 0, size_t rows_bytes = 0) {
  if (!stream) stream = make_stream();
  Job j{};
  j.team = team;
  j.me = shmem_team_my_pe(team), j.n = shmem_team_n_pes(team);
  j.kind = kind;
  j.shape = SHMEMX_MOE_SHAPE_INITIALIZER;
  j.shape.token_bytes = token_bytes, j.shape.scale_bytes = scale_bytes;
  j.shape.hidden = hidden, j.shape.type = type;
  j.shape.experts = local * j.n, j.shape.top_k = top_k, j.shape.max_tokens = max_tokens;
  j.shape.layout = layout, j.shape.alignment = layout == SHMEMX_MOE_PACKED ? 4 : 1;
  j.shape.capacity = capacity;
  // The heap then hands out memory that is not zero.
  void *const waste = shmem_malloc_with_hints(1 << 20, SHMEMX_MALLOC_DEVICE);
  HIP(hipMemsetAsync(waste, 0x5a, 1 << 20, stream));
  HIP(hipStreamSynchronize(stream));
  shmem_free(waste);
  CHECK(shmemx_moe_create(team, &j.shape, &j.moe) == 0, "not made");
  j.view.size = sizeof j.view;
  shmemx_moe_view(j.moe, &j.view);
  j.members = (uint64_t(1) << j.n) - 1;
  const size_t tokens = size_t(max_tokens) + 1;
  HIP(hipMalloc(&j.tokens, tokens * token_bytes));
  HIP(hipMalloc(&j.scales, tokens * scale_bytes + 4));
  HIP(hipMalloc(&j.out, tokens * j.row_bytes()));
  HIP(hipMalloc(&j.id, tokens * size_t(top_k) * sizeof(int)));
  HIP(hipMalloc(&j.weight, tokens * size_t(top_k) * sizeof(float)));
  const size_t needed = j.view.n_rows * j.row_bytes(); // as much on all PEs of the world
  j.rows = static_cast<char *>(object_alloc(rows_bytes ? rows_bytes : needed));
  CHECK(rows_bytes == 0 || needed <= rows_bytes, "%zu bytes", needed);
  CHECK(j.rows, "no memory");
  return j;
}
void destroy(Job &j) {
  for (void *p :
       {static_cast<void *>(j.tokens), static_cast<void *>(j.scales), static_cast<void *>(j.out),
        static_cast<void *>(j.id), static_cast<void *>(j.weight)})
    HIP(hipFree(p));
  object_free(j.rows);
  shmemx_moe_destroy(j.moe);
}

uint8_t token_byte(int member, int call, int t, size_t i, int what) {
  return uint8_t(hash(uint32_t(member), uint32_t(call * 4 + what), uint32_t(t), uint32_t(i)));
}
float round_to(shmemx_type_t type, float v) {
  return type == SHMEMX_F32    ? v
         : type == SHMEMX_BF16 ? to_float(from_float<Bfloat16>(v))
                               : to_float(from_float<Half>(v));
}
float row_value(const Job &j, int member, int row, size_t c, int call) {
  return round_to(j.shape.type,
                  value(uint32_t(member), uint32_t(row), uint32_t(c), uint32_t(call)));
}
void store(shmemx_type_t type, char *p, size_t i, float v) {
  if (type == SHMEMX_F32) reinterpret_cast<float *>(p)[i] = v;
  if (type == SHMEMX_BF16) reinterpret_cast<Bfloat16 *>(p)[i] = from_float<Bfloat16>(v);
  if (type == SHMEMX_F16) reinterpret_cast<Half *>(p)[i] = from_float<Half>(v);
}
float load(shmemx_type_t type, const char *p, size_t i) {
  return type == SHMEMX_F32    ? reinterpret_cast<const float *>(p)[i]
         : type == SHMEMX_BF16 ? to_float(reinterpret_cast<const Bfloat16 *>(p)[i])
                               : to_float(reinterpret_cast<const Half *>(p)[i]);
}

void fill_tokens(const Job &j, int n, int call) {
  std::vector<uint8_t> host(size_t(n) * j.shape.token_bytes),
      scales(size_t(n) * j.shape.scale_bytes);
  for (size_t i = 0; i < host.size(); i++)
    host[i] = token_byte(j.me, call, int(i / j.shape.token_bytes), i % j.shape.token_bytes, 0);
  for (size_t i = 0; i < scales.size(); i++)
    scales[i] = token_byte(j.me, call, int(i / j.shape.scale_bytes), i % j.shape.scale_bytes, 1);
  to_device(j.tokens, host.data(), host.size());
  to_device(j.scales, scales.data(), scales.size());
}
void fill_routing(const Job &j, const Routing &r) {
  to_device(j.id, r.id.data(), r.id.size() * sizeof(int));
  to_device(j.weight, r.weight.data(), r.weight.size() * sizeof(float));
}
void fill_rows(const Job &j, int call) {
  std::vector<char> host(j.view.n_rows * j.row_bytes());
  for (size_t i = 0; i < j.view.n_rows * j.shape.hidden; i++)
    store(j.shape.type, host.data(), i,
          row_value(j, j.me, int(i / j.shape.hidden), i % j.shape.hidden, call));
  to_device(j.rows, host.data(), host.size());
}
// The calls, on the stream; or by workgroups of a kernel of the test, on every n-th PE if
// TEST_MOE_WG is n.
bool calls_by_workgroups() {
  const char *const text = getenv("TEST_MOE_WG");
  const int kinds = text ? atoi(text) : 0;
  return kinds && me % kinds == kinds - 1;
}
int dispatched; // tokens of the last dispatch
void dispatch(const Job &j, int n, bool weights = true) {
  dispatched = n;
  const float *const w = weights ? j.weight : nullptr;
  if (calls_by_workgroups())
    dispatch_by_workgroups(j.moe, j.tokens, j.scales, j.id, w, n, stream);
  else
    shmemx_moe_dispatch_on_stream(j.moe, j.tokens, j.scales, j.id, w, n, on_stream());
}
void replay(const Job &j) {
  if (calls_by_workgroups())
    dispatch_by_workgroups(j.moe, j.tokens, j.scales, nullptr, nullptr, dispatched, stream);
  else
    shmemx_moe_replay_on_stream(j.moe, j.tokens, j.scales, on_stream());
}
void combine(const Job &j, void *out, bool weighted = true) {
  if (calls_by_workgroups())
    combine_by_workgroups(j.moe, j.rows, out, dispatched, weighted, stream);
  else if (weighted)
    shmemx_moe_combine_on_stream(j.moe, j.rows, out, on_stream());
  else
    shmemx_moe_sum_on_stream(j.moe, j.rows, out, on_stream());
}

// bytes: the call whose tokens have come.
void check_rows(const Job &j, const Model &m, int call, int bytes) {
  const Member &x = m.member[size_t(j.me)];
  const shmemx_moe_view_t &v = j.view;
  const auto local = size_t(j.local()), k = size_t(v.top_k);
  const auto rows =
                 from_device(static_cast<const uint8_t *>(v.rows), v.n_rows * j.shape.token_bytes),
             scales = from_device(static_cast<const uint8_t *>(v.scales),
                                  v.n_rows * j.shape.scale_bytes);
  const auto pe_count = from_device(v.pe_count, size_t(j.n)),
             expert_count = from_device(v.expert_count, local),
             expert_first = from_device(v.expert_first, local),
             pe = from_device(v.source_pe, v.n_rows), token = from_device(v.source_token, v.n_rows),
             expert = from_device(v.expert, v.n_rows * k);
  const auto weight = from_device(v.weight, v.n_rows * k);
  for (size_t i = 0; i < size_t(j.n); i++)
    CHECK(pe_count[i] == x.pe_count[i], "call %d: %d tokens from member %zu, not %d", call,
          pe_count[i], i, x.pe_count[i]);
  for (size_t i = 0; i < local; i++) {
    CHECK(expert_count[i] == x.expert_count[i], "call %d: expert %zu has %d rows, not %d", call, i,
          expert_count[i], x.expert_count[i]);
    CHECK(j.by_pe() || expert_first[i] == x.expert_first[i],
          "call %d: expert %zu begins at row %d, not %d", call, i, expert_first[i],
          x.expert_first[i]);
  }
  for (size_t r = 0; r < v.n_rows; r++) {
    const Row &row = x.rows[r];
    CHECK(pe[r] == row.pe && token[r] == row.token,
          "layout %d call %d row %zu: token %d of member %d, not %d of %d", j.shape.layout, call, r,
          token[r], pe[r], row.token, row.pe);
    for (size_t i = 0; i < k; i++) {
      CHECK(expert[r * k + i] == (row.pe < 0 ? -1 : row.expert[i]), "call %d row %zu expert %zu",
            call, r, i);
      CHECK(row.pe < 0 || weight[r * k + i] == row.weight[i], "call %d row %zu weight %zu", call, r,
            i);
    }
    if (row.pe < 0) continue;
    for (size_t i = 0; i < j.shape.token_bytes; i++)
      CHECK(rows[r * j.shape.token_bytes + i] == token_byte(row.pe, bytes, row.token, i, 0),
            "layout %d call %d row %zu byte %zu", j.shape.layout, call, r, i);
    for (size_t i = 0; i < j.shape.scale_bytes; i++)
      CHECK(scales[r * j.shape.scale_bytes + i] == token_byte(row.pe, bytes, row.token, i, 1),
            "layout %d call %d row %zu byte %zu of the scales", j.shape.layout, call, r, i);
  }
  const auto dropped = from_device(v.dropped, 2);
  CHECK(dropped[0] == x.dropped, "call %d: %zu rows dropped, not %zu", call, size_t(dropped[0]),
        size_t(x.dropped));
  CHECK(shmemx_moe_dropped(j.moe) == dropped[1], "the host sees another number of dropped rows");
}
// The same bits as a loop in the order of k, which is near the sum in double.
void check_out(const Job &j, const Model &m, int call, bool weighted) {
  const Routing &r = m.of[size_t(j.me)];
  const int k = j.shape.top_k;
  const auto out = from_device(static_cast<const char *>(j.out), size_t(r.n) * j.row_bytes());
  for (int t = 0; t < r.n; t++)
    for (size_t c = 0; c < j.shape.hidden; c++) {
      float sum = 0;
      double exact = 0, size = 0;
      for (int i = 0; i < k; i++) {
        const int row = m.place[size_t(j.me)][size_t(t * k + i)];
        if (row < 0) continue;
        const int member = r.id[size_t(t * k + i)] / j.local();
        const float w = weighted && !j.by_pe() ? r.weight[size_t(t * k + i)] : 1,
                    v = row_value(j, member, row, c, call);
        sum = std::fma(w, v, sum);
        exact += double(w) * double(v), size += std::fabs(double(w) * double(v));
      }
      const float got = load(j.shape.type, out.data(), size_t(t) * j.shape.hidden + c),
                  want = round_to(j.shape.type, sum);
      CHECK(memcmp(&got, &want, sizeof got) == 0,
            "layout %d type %d call %d: token %d element %zu is %.9g, not %.9g", j.shape.layout,
            j.shape.type, call, t, c, double(got), double(want));
      const double unit = j.shape.type == SHMEMX_F32   ? 0x1p-24
                          : j.shape.type == SHMEMX_F16 ? 0x1p-11
                                                       : 0x1p-8;
      CHECK(std::fabs(double(got) - exact) <=
                unit * std::fabs(exact) * 1.01 + size * double(k) * 0x1p-24 + 0x1p-25,
            "call %d: token %d element %zu is %.9g, not %.9g", call, t, c, double(got), exact);
    }
}

} // namespace
