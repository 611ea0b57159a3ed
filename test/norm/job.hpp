// SPDX-License-Identifier: MIT
// A norm that is tried, and its expected results. Every PE knows the numbers of all, by their
// formula.
#ifndef TEST_NORM_JOB_HPP
#define TEST_NORM_JOB_HPP

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <hip/hip_runtime.h>

#include "../../device/number.hpp"
#include "../objects.hpp"
#include "../stream.hpp"

namespace {

using shmem::Bfloat16, shmem::Half, shmem::Float8, shmem::Float8Fnuz;
using shmem::from_float, shmem::to_float;
using std::string;

// The way and grid of all norms until the next call. By results several workgroups share a row.
void choose(const char *way, unsigned blocks) {
  char row[128];
  if (string(way) == "results") blocks *= 16; // a row takes up to 2 for each PE
  snprintf(row, sizeof row, "norm * 512 %zu %s %u 64", SIZE_MAX, way, blocks);
  CHECK(shmemx_tune(row) == 0, "%s", row);
}
constexpr const char *ways[] = {"lines", "direct", "phases", "results"};

size_t unit_of(shmemx_type_t t) {
  return t == SHMEMX_F32 ? 4 : t == SHMEMX_F8 || t == SHMEMX_F8_FNUZ ? 1 : 2;
}
void put(shmemx_type_t t, char *p, size_t i, float v) {
  if (t == SHMEMX_F32) reinterpret_cast<float *>(p)[i] = v;
  if (t == SHMEMX_F16) reinterpret_cast<Half *>(p)[i] = from_float<Half>(v);
  if (t == SHMEMX_BF16) reinterpret_cast<Bfloat16 *>(p)[i] = from_float<Bfloat16>(v);
}
float get(shmemx_type_t t, const char *p, size_t i) {
  return t == SHMEMX_F32    ? reinterpret_cast<const float *>(p)[i]
         : t == SHMEMX_F16  ? to_float(reinterpret_cast<const Half *>(p)[i])
         : t == SHMEMX_BF16 ? to_float(reinterpret_cast<const Bfloat16 *>(p)[i])
         : t == SHMEMX_F8   ? to_float(reinterpret_cast<const Float8 *>(p)[i])
                            : to_float(reinterpret_cast<const Float8Fnuz *>(p)[i]);
}
float rounded(shmemx_type_t t, float v) {
  char one[4];
  put(t, one, 0, v);
  return get(t, one, 0);
}
// Element `column` of PE `pe`'s summand to the row whose content has this number, in [-4, 4); of PE
// -1 the residual, and of PE -2 the weight.
float value(shmemx_type_t t, int pe, size_t content, size_t column) {
  uint32_t x = uint32_t(content * 2654435761u + column * 40503u) + uint32_t(pe * 977 + 5);
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return rounded(t, float(int32_t(x ^ x >> 16)) * 0x1p-29f);
}

// The parameters of a call.
struct Case {
  shmemx_type_t type = SHMEMX_BF16, small = SHMEMX_F8;
  size_t rows = 1, columns = 64, group = 0, gap = 0; // gap: elements between rows
  bool residual = true, weight = true, sum = true, out = true, quantized = false, in_place = false,
       scattered = false;
  float offset = 0;
  size_t first = 0; // the content of row 0
};

struct Place { // a matrix, in memory that was filled with a byte
  char *at = nullptr;
  size_t pitch = 0, row_bytes = 0, bytes = 0;
};
constexpr int filler = 0x5a;

struct Job {
  Case k;
  struct pe_team team;
  shmemx_norm_t call = SHMEMX_NORM_INITIALIZER;
  Place input, residual, sum, out, small, scales;
  char *weight = nullptr;

  Place place(size_t columns, size_t unit, size_t gap) {
    Place p;
    p.row_bytes = columns * unit, p.pitch = (columns + gap) * unit;
    p.bytes = std::max(k.rows, size_t(1)) * p.pitch;
    p.at = static_cast<char *>(object_alloc(p.bytes));
    CHECK(p.at, "no %zu bytes", p.bytes);
    HIP(hipMemsetAsync(p.at, filler, p.bytes, stream));
    return p;
  }
  bool owns(size_t row) const {
    size_t first, rows;
    shmemx_matmul_shard(k.rows, team.n, team.me, &first, &rows);
    return row - first < rows;
  }
  // All PEs make a job, also PEs in no team: all of them allocate a symmetric object at once.
  Job(const Case &what, const struct pe_team &t) : k(what), team(t) {
    const size_t unit = unit_of(k.type),
                 scales_n = k.group ? (k.columns + k.group - 1) / k.group : 1;
    input = place(k.columns, unit, k.gap);
    residual = place(k.columns, unit, k.gap);
    sum = k.in_place ? residual : place(k.columns, unit, 2 * k.gap);
    out = place(k.columns, unit, k.gap);
    small = place(k.columns, 1, 2 * k.gap);
    scales = place(scales_n, sizeof(float), 0);
    HIP(hipMalloc(&weight, std::max(k.columns * unit, size_t(16))));
    std::vector<char> w(k.columns * unit);
    for (size_t c = 0; c < k.columns; c++) put(k.type, w.data(), c, value(k.type, -2, 0, c));
    if (!w.empty()) to_device(weight, w.data(), w.size());
    call.type = k.type, call.quantized_type = k.small, call.group = k.group;
    call.rows = k.rows, call.columns = k.columns;
    call.input = input.at;
    call.residual = k.residual ? residual.at : nullptr;
    call.residual_out = k.sum ? sum.at : nullptr;
    call.weight = k.weight ? weight : nullptr;
    call.out = k.out ? out.at : nullptr;
    call.quantized = k.quantized ? small.at : nullptr;
    call.scales = k.quantized ? reinterpret_cast<float *>(scales.at) : nullptr;
    if (k.gap) {
      call.input_stride = call.residual_stride = call.out_stride = k.columns + k.gap;
      call.residual_out_stride = k.columns + (k.in_place ? 1 : 2) * k.gap;
      call.quantized_stride = k.columns + 2 * k.gap;
    }
    call.weight_offset = k.offset, call.eps = 1e-5f;
    call.residual_scattered = k.scattered;
    fill(k.first);
  }
  ~Job() {
    HIP(hipFree(weight));
    object_free(scales.at);
    object_free(small.at);
    object_free(out.at);
    if (!k.in_place) object_free(sum.at);
    object_free(residual.at);
    object_free(input.at);
  }
  Job(const Job &) = delete;

  std::vector<char> matrix(const Place &p, int pe, size_t first) const {
    std::vector<char> host(p.bytes, char(filler));
    for (size_t r = 0; r < k.rows; r++)
      for (size_t c = 0; c < k.columns; c++)
        put(k.type, host.data() + r * p.pitch, c, value(k.type, pe, first + r, c));
    return host;
  }
  // The next inputs, in the stream's order.
  void fill(size_t first) {
    k.first = first;
    const auto in = matrix(input, me, first), more = matrix(residual, -1, first);
    to_device(input.at, in.data(), in.size());
    to_device(residual.at, more.data(), more.size());
    for (size_t r = 0; k.scattered && r < k.rows; r++) // others' rows are not read here
      if (team.me >= 0 && !owns(r))
        HIP(hipMemsetAsync(residual.at + r * residual.pitch, filler, residual.row_bytes, stream));
    HIP(hipStreamSynchronize(stream));
  }
  void start() const {
    if (team.me >= 0) shmemx_all_reduce_norm_on_stream(team.team, &call, on_stream());
  }

  float sum_of(size_t row, size_t c) const {
    float sum = value(k.type, team.pe[0], k.first + row, c);
    for (int i = 1; i < team.n; i++) sum = sum + value(k.type, team.pe[i], k.first + row, c);
    if (k.residual) sum = sum + value(k.type, -1, k.first + row, c);
    return rounded(k.type, sum);
  }
  // The bytes beside the rows of p, and in rows that no PE writes.
  void check_filler(const char *what, const Place &p, const std::vector<char> &host, bool written,
                    bool own_only = false) const {
    for (size_t r = 0; r < k.rows; r++)
      for (size_t i = written && (!own_only || owns(r)) ? p.row_bytes : 0; i < p.pitch; i++)
        CHECK(host[r * p.pitch + i] == char(filler), "%s: byte %zu of row %zu was written", what, i,
              r);
  }
  void check(const char *what) const {
    if (team.me < 0) return;
    std::vector<char> h(sum.bytes), y(out.bytes), q(small.bytes), s(scales.bytes);
    to_host(h.data(), sum.at, h.size());
    to_host(y.data(), out.at, y.size());
    to_host(q.data(), small.at, q.size());
    to_host(s.data(), scales.at, s.size());
    if (!k.in_place) check_filler("residual_out", sum, h, k.sum, k.scattered);
    check_filler("out", out, y, k.out);
    check_filler("quantized", small, q, k.quantized);
    check_filler("scales", scales, s, k.quantized && k.rows);
    const double unit = k.type == SHMEMX_F32 ? 0x1p-24 : k.type == SHMEMX_F16 ? 0x1p-11 : 0x1p-8;
    const double rough = 1e-6 + double(k.columns) * 0x1p-24;
    for (size_t r = 0; r < k.rows; r++) {
      std::vector<double> want(k.columns);
      double squares = 0;
      for (size_t c = 0; c < k.columns; c++) {
        const float v = sum_of(r, c);
        want[c] = double(v), squares += want[c] * want[c];
        char bits[4];
        put(k.type, bits, 0, v);
        if (k.sum && (!k.scattered || owns(r)))
          CHECK(!memcmp(bits, h.data() + r * sum.pitch + c * unit_of(k.type), unit_of(k.type)),
                "%s, team %s: sum of row %zu, column %zu: %g, want %g", what, team.name, r, c,
                double(get(k.type, h.data() + r * sum.pitch, c)), double(v));
      }
      const double factor = 1 / std::sqrt(squares / double(k.columns) + double(call.eps));
      const size_t each = k.group ? k.group : k.columns;
      for (size_t from = 0; from < k.columns; from += each) {
        double largest = 0;
        const size_t to = std::min(k.columns, from + each);
        for (size_t c = from; c < to; c++) {
          want[c] *= factor * (double(k.offset) + (k.weight ? double(value(k.type, -2, 0, c)) : 1));
          largest = std::max(largest, std::fabs(want[c]));
          const double got = double(get(k.type, y.data() + r * out.pitch, c));
          if (k.out)
            CHECK(std::fabs(got - want[c]) <= (unit + rough) * std::fabs(want[c]) + 0x1p-25,
                  "%s, team %s: norm of row %zu, column %zu: %g, want %g", what, team.name, r, c,
                  got, want[c]);
        }
        if (!k.quantized) continue;
        const double best = k.small == SHMEMX_F8 ? 448 : 240;
        const double scale =
            double(reinterpret_cast<const float *>(s.data() + r * scales.pitch)[from / each]);
        CHECK(std::fabs(scale - largest / best) <= 2 * rough * largest / best,
              "%s, team %s: scale of row %zu, column %zu: %g, want %g", what, team.name, r, from,
              scale, largest / best);
        bool full = false;
        for (size_t c = from; c < to; c++) {
          const double got = double(get(k.small, q.data() + r * small.pitch, c));
          const double low = k.small == SHMEMX_F8 ? 0x1p-10 : 0x1p-11; // half of the least
          full |= std::fabs(got) == best;
          CHECK(std::fabs(got * scale - want[c]) <=
                    (0x1p-4 + rough) * std::fabs(want[c]) + low * scale,
                "%s, team %s: quantized row %zu, column %zu: %g of scale %g, want %g", what,
                team.name, r, c, got, scale, want[c]);
        }
        CHECK(full, "%s, team %s: nothing in row %zu is as large as can be", what, team.name, r);
      }
    }
  }
  // All that row r of the results has.
  string row(size_t r) const {
    string all;
    for (const Place *p : {&sum, &out, &small, &scales}) {
      std::vector<char> host(p->bytes);
      to_host(host.data(), p->at, host.size());
      all.append(host.data() + r * p->pitch, p->row_bytes);
    }
    return all;
  }
};

} // namespace

#endif
