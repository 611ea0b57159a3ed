// SPDX-License-Identifier: MIT
// An all-reduce of whole rows, whose sums go through a finish before they are stored, on a stream.
// There are three ways:
//   lines   each member sends all rows, and finishes all
//   direct  each member loads all rows of all members, and finishes all
//   phases  each member loads a part of the rows of all members and finishes these. Then it stores
//           the results at the others; or, where all get the sums too, the sums alone, which the
//           others finish themselves: memory here is faster than any link.
// A row is added up in the order of the members and finished in the same way by all, so its bits
// are the same.
#pragma once
#include <hip/hip_runtime.h>

#include "channel.hpp"
#include "copy.hpp"
#include "launch.hpp"
#include "norm.hpp"

namespace shmem::rows {

using device::Channel, device::Lanes, device::Pack, device::Stored, pattern::Extent, pattern::part;

template <int K> struct Exchange {
  float one[K][device::max_threads];
  alignas(16) float two[32];
};

// A row as a finish has it: an object of
//   template <class Row> void operator()(size_t row, Row &r) const
// which all threads of a workgroup call. Each of them has up to K times `lanes` elements.
template <class T, int K> struct SummedRow {
  static constexpr int lanes = Lanes<T>::n;
  using Element = T;
  float v[K][lanes];
  unsigned columns; // of the row

  SHMEM_D_ unsigned column(int k) const {
    return (Workgroup{}.rank() + unsigned(k) * Workgroup{}.size()) * unsigned(lanes);
  }
  // Calls f(k, column, v[k]) for each of this thread's elements.
  template <class F> SHMEM_D_ void each(F f) {
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++)
      if (column(k) < columns) f(k, column(k), v[k]);
  }
  // The sum over the row of what f(sum, v, column) adds to sum, with the same bits in all threads
  // and whatever the way and the number of rows.
  template <class F> SHMEM_D_ float sum(F f) const {
    float mine = 0;
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++)
      if (column(k) < columns) {
        SHMEM_UNROLL_
        for (int e = 0; e < lanes; e++) mine = f(mine, v[k][e], column(k) + unsigned(e));
      }
    return across(mine, [](float a, float b) { return a + b; });
  }
  // The largest f(v, column).
  template <class F> SHMEM_D_ float max(F f) const {
    float mine = number::bits_float(0xff800000); // -infinity
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++)
      if (column(k) < columns) {
        SHMEM_UNROLL_
        for (int e = 0; e < lanes; e++) mine = larger(mine, f(v[k][e], column(k) + unsigned(e)));
      }
    return across(mine, larger);
  }

  static SHMEM_D_ float larger(float a, float b) { return a < b ? b : a; }
  // Combines the values of all threads: first of threads whose numbers are equal modulo 32, then
  // the 32.
  template <class F> static SHMEM_D_ float across(float mine, F f) {
    const Workgroup scope;
    auto &x = arch::workgroup_object<Exchange<K>>();
    x.one[0][scope.rank()] = mine;
    scope.sync();
    if (scope.rank() < 32) {
      float all = x.one[0][scope.rank()];
      for (unsigned i = 32 + scope.rank(); i < scope.size(); i += 32) all = f(all, x.one[0][i]);
      x.two[scope.rank()] = all;
    }
    scope.sync();
    float w[32];
    SHMEM_UNROLL_
    for (int i = 0; i < 32; i++) w[i] = x.two[i];
    SHMEM_UNROLL_
    for (int half = 16; half; half /= 2) SHMEM_UNROLL_
    for (int i = 0; i < 16; i++)
      if (i < half) w[i] = f(w[i], w[i + half]);
    return w[0];
  }
};

// The part of the i-th of n workgroups, which have as many rows each, or one more.
SHMEM_D_ Extent even_part(Extent of, unsigned i, unsigned n) {
  const size_t all = of.to - of.from, each = all / n, more = all % n;
  const size_t from = of.from + i * each + (i < more ? i : more);
  return {from, from + each + (i < more)};
}

// A workgroup's part of a call. Each way is a kernel: one for all of them took 40 scalars more than
// a gfx942 has, and on an H100 128 registers and a stack (2026-11-27).
template <CollectiveAlgorithm way, class T, int K, class Finish> struct Reducer {
  static constexpr bool lines = way == CollectiveAlgorithm::lines,
                        split = way == CollectiveAlgorithm::phases;
  static constexpr unsigned lanes = unsigned(Lanes<T>::n);
  const RowsCall &call;
  const Finish &finish;
  Channel &c;
  Workgroup scope;

  // Beyond the row's end a thread loads the last pack once more.
  SHMEM_D_ unsigned pack_of(int k) const {
    const unsigned p = scope.rank() + unsigned(k) * scope.size(), n = call.columns / lanes;
    return p < n ? p : n - 1;
  }
  SHMEM_D_ bool has(int k) const {
    return (scope.rank() + unsigned(k) * scope.size()) * lanes < call.columns;
  }
  static SHMEM_D_ const Pack *row_at(const Matrix &m, size_t row) {
    return reinterpret_cast<const Pack *>(m.at + row * m.pitch);
  }
  // The residual, if there is one; its load is on the way while other loads are waited for. Not
  // beyond the row's end: in place, another thread stores the sum there.
  SHMEM_D_ Pack residual_of(size_t row, int k) const {
    return call.residual.at && has(k) ? arch::load_global(row_at(call.residual, row) + pack_of(k))
                                      : Pack{};
  }
  SHMEM_D_ Pack rounded(Lanes<T> &sum, Pack residual) const {
    if (call.residual.at) device::combine(sum, device::unpack<T>(residual), device::Fixed<Sum>{});
    return device::pack<T>(sum);
  }
  static SHMEM_D_ void add(Lanes<T> &sum, Pack v, int member) {
    const Lanes<T> in = device::unpack<T>(v);
    if (member)
      device::combine(sum, in, device::Fixed<Sum>{});
    else
      sum = in;
  }

  // A thread loads `packs` packs of each of `members` members at once: 8 packs, as in a reduction.
  SHMEM_D_ void load(size_t row, Pack (&h)[K]) const {
    constexpr int packs = K < 4 ? K : 4, members = 8 / packs;
    const Pack *const here = row_at(call.input, row);
    SHMEM_UNROLL_
    for (int k0 = 0; k0 < K; k0 += packs) {
      Lanes<T> acc[packs] = {};
      Pack more[packs];
      SHMEM_UNROLL_
      for (int k = 0; k < packs; k++) more[k] = residual_of(row, k0 + k);
      SHMEM_NO_UNROLL_
      for (int first = 0; first < c.t.n; first += members) {
        Pack v[members][packs] = {};
        SHMEM_UNROLL_
        for (int m = 0; m < members; m++)
          if (first + m < c.t.n) {
            const int pe = c.pe(first + m);
            SHMEM_UNROLL_
            for (int k = 0; k < packs; k++)
              v[m][k] = arch::load_global(device::source_at(c, here, pe) + pack_of(k0 + k));
          }
        SHMEM_UNROLL_
        for (int m = 0; m < members; m++)
          if (first + m < c.t.n) {
            SHMEM_UNROLL_
            for (int k = 0; k < packs; k++) add(acc[k], v[m][k], first + m);
          }
      }
      SHMEM_UNROLL_
      for (int k = 0; k < packs; k++) h[k0 + k] = rounded(acc[k], more[k]);
    }
  }
  // The same of a row by lines: a round for each piece of it.
  SHMEM_D_ void receive(size_t row, Pack (&h)[K]) const {
    const unsigned all = call.columns / lanes, room = c.room / 16;
    Pack more[K];
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++) more[k] = residual_of(row, k);
    for (unsigned from = 0; from < all; from += room) {
      const unsigned to = all - from < room ? all : from + room;
      device::begin_round(c, scope);
      SHMEM_UNROLL_
      for (int k = 0; k < K; k++) {
        const unsigned p = pack_of(k);
        if (!has(k) || p < from || p >= to) continue;
        const Pack v = arch::load_global(row_at(call.input, row) + p);
        for (int i = 1; i <= c.t.n; i++) device::send(c, c.peer(i), p - from, v);
      }
      SHMEM_UNROLL_
      for (int k = 0; k < K; k++) {
        const unsigned p = pack_of(k);
        if (!has(k) || p < from || p >= to) continue;
        Lanes<T> acc{};
        device::receive_all(c, p - from, [&](int i, Pack v) { add(acc, v, i); });
        h[k] = rounded(acc, more[k]);
      }
    }
  }

  SHMEM_D_ void store_small(size_t row, const SummedRow<T, K> &r, const float (&scale)[K]) const {
    struct alignas(lanes) Small {
      uint8_t at[lanes];
    };
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++) {
      if (!has(k)) continue;
      const float factor = 1 / scale[k];
      uint32_t w[lanes / 4];
      SHMEM_UNROLL_
      for (unsigned e = 0; e < lanes; e++) {
        const uint32_t bits = number::float_to_e4m3(r.v[k][e] * factor, call.fnuz);
        w[e / 4] = (e % 4 ? w[e / 4] : 0) | bits << e % 4 * 8;
      }
      Small small;
      __builtin_memcpy(&small, w, sizeof small);
      arch::store_global(
          reinterpret_cast<Small *>(call.quantized.at + row * call.quantized.pitch + r.column(k)),
          small);
    }
  }
  // A scale is never so small that dividing by it overflows.
  SHMEM_D_ float scale_of(float largest) const {
    const float scale = largest / (call.fnuz ? 240.f : 448.f);
    return scale < 0x1p-100f ? 0x1p-100f : scale;
  }
  SHMEM_D_ void quantize(size_t row, const SummedRow<T, K> &r) const {
    const auto size_of = [](float v, unsigned) { return v < 0 ? -v : v; };
    float scale[K];
    auto *const scales = reinterpret_cast<float *>(call.scales.at + row * call.scales.pitch);
    if (!call.group) {
      scale[0] = scale_of(r.max(size_of));
      SHMEM_UNROLL_
      for (int k = 1; k < K; k++) scale[k] = scale[0];
      if (scope.rank() == 0) arch::store_global(scales, scale[0]);
    } else {
      // A group's elements are in threads next to each other, whose number divides that of a wave.
      const unsigned each = call.group / lanes, first = scope.rank() / each * each;
      auto &x = arch::workgroup_object<Exchange<K>>();
      scope.sync(); // what this memory had before has been read
      SHMEM_UNROLL_
      for (int k = 0; k < K; k++) {
        float mine = 0;
        if (has(k)) {
          SHMEM_UNROLL_
          for (unsigned e = 0; e < lanes; e++)
            mine = SummedRow<T, K>::larger(mine, size_of(r.v[k][e], 0));
        }
        x.one[k][scope.rank()] = mine;
      }
      scope.sync();
      SHMEM_UNROLL_
      for (int k = 0; k < K; k++) {
        float all = 0;
        for (unsigned i = 0; i < each; i++) all = SummedRow<T, K>::larger(all, x.one[k][first + i]);
        scale[k] = scale_of(all);
        if (has(k) && scope.rank() == first)
          arch::store_global(scales + r.column(k) / call.group, scale[k]);
      }
      scope.sync();
    }
    store_small(row, r, scale);
  }
  SHMEM_D_ void store(const Matrix &to, size_t row, const Pack (&v)[K]) const {
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++)
      if (has(k)) arch::store_global(const_cast<Pack *>(row_at(to, row)) + pack_of(k), v[k]);
  }
  SHMEM_D_ void end(size_t row, const Pack (&h)[K]) const {
    SummedRow<T, K> r;
    r.columns = call.columns;
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++) {
      const Lanes<T> wide = device::unpack<T>(h[k]);
      SHMEM_UNROLL_
      for (unsigned e = 0; e < lanes; e++) r.v[k][e] = wide.v[e];
    }
    finish(row, r);
    if (call.out.at) {
      Pack v[K];
      SHMEM_UNROLL_
      for (int k = 0; k < K; k++) {
        Lanes<T> wide;
        SHMEM_UNROLL_
        for (unsigned e = 0; e < lanes; e++) wide.v[e] = r.v[k][e];
        v[k] = device::pack<T>(wide);
      }
      store(call.out, row, v);
    }
    if (call.quantized.at) quantize(row, r);
  }

  // Stores the rows of m, of `bytes` bytes, at the other members.
  SHMEM_D_ void share(Matrix m, size_t bytes, Extent e) const {
    if (!m.at || e.from >= e.to) return;
    const unsigned deltas = device::row_of(m.at);
    const bool whole = bytes == m.pitch;
    for (size_t row = e.from; row < e.to; row = whole ? e.to : row + 1) {
      const size_t from = row * m.pitch, to = whole ? e.to * m.pitch : from + bytes;
      device::spread(m.at, m.at, Extent{from, to}, c.t.n, scope, [&](int k) {
        const int i = c.peer(k);
        return i == c.t.me ? nullptr : device::at_peer(deltas, m.at, c.pe(i));
      });
    }
  }
  SHMEM_D_ void share_all(Extent e, bool sums) const {
    const unsigned bytes = call.columns * unsigned(sizeof(T)),
                   scales = call.group ? (call.columns + call.group - 1) / call.group : 1;
    SHMEM_NO_UNROLL_
    for (int i = 0; i < 4; i++) {
      if (sums != (i == 3)) continue;
      Matrix m = call.sum;
      unsigned row = bytes;
      if (i == 0) m = call.out;
      if (i == 1) m = call.quantized, row = call.columns;
      if (i == 2) m = call.scales, row = scales * unsigned(sizeof(float));
      share(m, row, e);
    }
  }

  // The first turn is of the rows that this member sums; the others are of rows of which it gets
  // the sums.
  SHMEM_D_ void run() const {
    const bool meets = call.meets, sums = call.gathers();
    if (!lines && meets) device::enter<Stored::by_stream>(c, scope);
    for (int turn = call.from; turn < call.to; turn++) {
      const Extent mine = split ? part(call.rows, 1, unsigned(c.peer(turn)), unsigned(c.t.n))
                                : Extent{0, call.rows};
      const Extent e = even_part(mine, arch::block().x, arch::blocks().x);
      for (size_t row = e.from; row < e.to; row++) {
        Pack h[K] = {};
        if (turn) {
          SHMEM_UNROLL_
          for (int k = 0; k < K; k++) h[k] = arch::load_global(row_at(call.sum, row) + pack_of(k));
        } else if constexpr (lines) {
          receive(row, h);
        } else {
          load(row, h);
        }
        arch::arrive(h);
        if (!turn && call.sum.at) store(call.sum, row, h);
        end(row, h);
      }
      if constexpr (split) {
        if (turn) continue;
        scope.sync(); // the other threads' rows are there
        share_all(e, sums);
        if (!meets) continue;
        device::leave<Stored::by_scope>(c, scope);
        scope.sync(); // the other members' rows are there
      }
    }
    if (!lines && !split && meets) device::leave<Stored::nothing>(c, scope);
  }
};

// Two workgroups on a multiprocessor, so that one has rows on the way while the other finishes its
// own: with one of two rows at once, 256 rows of 7168 took 25 us between 2 H100s (2026-11-27).
template <CollectiveAlgorithm way, int K>
inline constexpr unsigned bound =
    way == CollectiveAlgorithm::lines || K > 2 ? arch::one_resident : arch::two_resident;

template <CollectiveAlgorithm way, class T, int K, class Finish>
__global__ void __launch_bounds__(device::max_threads, (bound<way, K>))
    all_reduce(RowsCall call, Finish finish) {
  const Workgroup scope;
  // Loaded where it is used: kept in registers from the beginning it took more than there are.
  const RowsCall &a = arch::argument(call);
  Channel c = device::open("an all-reduce by rows", a.id, a.team, a.meets ? arch::block().x : 0,
                           a.input.at, a.input.at, scope);
  Reducer<way, T, K, Finish>{a, finish, c, scope}.run();
  if (a.meets) device::close(c, arch::load_anew(a.team.base), scope);
}

template <int K, class T, class Finish>
hipError_t launch_deep(const RowsCall &call, hipStream_t stream, const Finish &finish) {
  using Way = CollectiveAlgorithm;
  auto *kernel = call.algorithm == Way::phases ? all_reduce<Way::phases, T, K, Finish>
                                               : all_reduce<Way::direct, T, K, Finish>;
  if constexpr (K <= int(most_deep_lines))
    if (call.algorithm == Way::lines) kernel = all_reduce<Way::lines, T, K, Finish>;
  return shmem::launch(kernel, dim3(call.blocks),
                       dim3(threads(call.columns / unsigned(Lanes<T>::n))),
                       arch::launch_bytes<Exchange<K>>, stream, call, finish);
}
template <class T, class Finish>
hipError_t launch(const RowsCall &call, hipStream_t stream, const Finish &finish) {
  switch (deep(call.columns / unsigned(Lanes<T>::n))) {
  case 1:
    return launch_deep<1, T>(call, stream, finish);
  case 2:
    return launch_deep<2, T>(call, stream, finish);
  case 4:
    return launch_deep<4, T>(call, stream, finish);
  default:
    return launch_deep<8, T>(call, stream, finish);
  }
}

// With a finish of the caller's own in place of RMSNorm: the call's weight, its offset and eps
// belong to that. T: float, Half or Bfloat16, which the call's type need not repeat.
template <class T, class Finish>
void all_reduce_on_stream(shmem_team_t team, shmemx_norm_t call, const Finish &finish,
                          hipStream_t stream) {
  constexpr bool good =
      std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;
  static_assert(good, "rows of shmem::rows are of float, Half or Bfloat16");
  if constexpr (good) { // otherwise there would be errors from inside, too
    call.type = std::is_same_v<T, float>  ? SHMEMX_F32
                : std::is_same_v<T, Half> ? SHMEMX_F16
                                          : SHMEMX_BF16;
    call.weight = nullptr;
    const Launch start = [](const RowsCall &c, hipStream_t s, const void *f) {
      return launch<T>(c, s, *static_cast<const Finish *>(f));
    };
    shmemx_all_reduce_rows_launch("shmem::rows::all_reduce_on_stream", shared_bytes, team, &call,
                                  reinterpret_cast<shmemx_stream_t>(stream), start, &finish);
  }
}

} // namespace shmem::rows
