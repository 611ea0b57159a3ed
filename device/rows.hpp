// SPDX-License-Identifier: MIT
// An all-reduce of whole rows, whose sums go through a finish before they are stored, on a stream.
// There are four ways:
//   lines   each member sends all rows, and finishes all; several workgroups share a row
//   direct  each member loads all rows of all members, and finishes all
//   phases  each member loads a part of the rows of all members and finishes these. Then it stores
//           the results at the others; or, where all get the sums too, the sums alone, which the
//           others finish themselves: memory here is faster than any link
//   results as phases, but several workgroups share a row, and threads store both sums and results
//           at all members as soon as they have them: for few rows, of which by phases a few
//           workgroups would finish one after the other
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

// A row is added up by pieces: first the packs of a piece whose numbers are equal modulo 32, then
// these 32, at last the pieces. In the memory of a workgroup: the numbers of all three steps.
// A thread reads 32 of them in a row; with four words between, threads read other banks.
template <int K> struct Exchange {
  static constexpr unsigned packs = K * device::max_threads, pieces = packs / piece_packs;
  float one[packs];
  alignas(16) float two[pieces][32 + 4];
  alignas(16) float three[most_pieces];
};

// Of a row that several workgroups share, a workgroup has one piece. Each tells the others its
// number of a sum in a word of theirs, beside the epoch. No workgroup is two sums ahead of another,
// so there are two words for each, and the epoch's highest bit changes with every second sum.
struct RowPiece {
  unsigned index = 0, count = 1;
  uint64_t *words = nullptr;
  uint32_t epoch = 0;
  mutable unsigned sums = 0; // of all rows until now

  SHMEM_D_ void tell(float mine) const {
    arch::store<Order::relaxed, Range::device>(words + (sums & 1) * count + index,
                                               uint64_t(tag()) << 32 | number::float_bits(mine));
  }
  SHMEM_D_ float hear(unsigned other) const {
    const uint64_t *const word = words + (sums & 1) * count + other;
    uint64_t seen;
    device::poll_until(
        [&] {
          seen = arch::load<Order::relaxed, Range::device>(word);
          return uint32_t(seen >> 32) == tag();
        },
        [&] {
          device::fail(device::Report::wait_limit, rows_name, "team", word, sizeof *word,
                       alignof(uint64_t), device::state.me, SHMEM_CMP_EQ, tag(), seen >> 32);
        });
    return number::bits_float(uint32_t(seen));
  }

private:
  SHMEM_D_ uint32_t tag() const { return epoch ^ (sums & 2) << 30; }
};

// A row as a finish has it: an object of
//   template <class Row> void operator()(size_t row, Row &r) const
// which all threads of a workgroup call. Each of them has up to K times `lanes` elements.
template <class T, int K> struct SummedRow {
  static constexpr int lanes = Lanes<T>::n;
  using Element = T;
  float v[K][lanes];
  unsigned columns; // of the row
  RowPiece piece;

  SHMEM_D_ unsigned column(int k) const {
    return (piece.index * piece_packs + Workgroup{}.rank() + unsigned(k) * Workgroup{}.size()) *
           unsigned(lanes);
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
    return across(
        0, [](float a, float b) { return a + b; }, f);
  }
  // The largest f(v, column).
  template <class F> SHMEM_D_ float max(F f) const {
    return across(number::bits_float(0xff800000), larger, // -infinity
                  [&](float most, float v, unsigned column) { return larger(most, f(v, column)); });
  }

  static SHMEM_D_ float larger(float a, float b) { return a < b ? b : a; }
  // Combines the numbers of all packs, which are of(none, ...) over the elements of each.
  template <class F, class Of> SHMEM_D_ float across(float none, F f, Of of) const {
    const Workgroup scope;
    auto &x = arch::workgroup_object<Exchange<K>>();
    const bool shared = piece.count > 1;
    const unsigned left = columns / unsigned(lanes) - piece.index * piece_packs,
                   packs = shared && left > piece_packs ? piece_packs : left, own = pieces(packs);
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++)
      if (column(k) < columns) {
        float mine = none;
        SHMEM_UNROLL_
        for (int e = 0; e < lanes; e++) mine = of(mine, v[k][e], column(k) + unsigned(e));
        x.one[scope.rank() + unsigned(k) * scope.size()] = mine;
      }
    // Numbers that are not there are `none`, so that all loads of a step are on their way at once.
    scope.sync();
    SHMEM_NO_UNROLL_
    for (unsigned i = scope.rank(); i < 32 * own; i += scope.size()) {
      const unsigned first = i / 32 * piece_packs + i % 32;
      float w[piece_packs / 32];
      SHMEM_UNROLL_
      for (unsigned j = 0; j < piece_packs / 32; j++)
        w[j] = first + 32 * j < packs ? x.one[first + 32 * j] : none;
      x.two[i / 32][i % 32] = f(f(w[0], w[1]), f(w[2], w[3]));
    }
    scope.sync();
    SHMEM_NO_UNROLL_
    for (unsigned i = scope.rank(); i < own; i += scope.size()) {
      float w[32];
      SHMEM_UNROLL_
      for (unsigned j = 0; j < 32; j++) w[j] = x.two[i][j];
      SHMEM_UNROLL_
      for (int half = 16; half; half /= 2) SHMEM_UNROLL_
      for (int j = 0; j < 16; j++)
        if (j < half) w[j] = f(w[j], w[j + half]);
      x.three[piece.index + i] = w[0];
      if (shared) piece.tell(w[0]);
    }
    if (shared) {
      const unsigned other = scope.rank();
      if (other < piece.count && other != piece.index) x.three[other] = piece.hear(other);
      piece.sums++;
    }
    scope.sync();
    const unsigned count = shared ? piece.count : own;
    float all = none;
    SHMEM_NO_UNROLL_
    for (unsigned i = 0; i < count; i += 4) {
      float w[4];
      SHMEM_UNROLL_
      for (unsigned j = 0; j < 4; j++) w[j] = i + j < count ? x.three[i + j] : none;
      all = f(all, f(f(w[0], w[1]), f(w[2], w[3])));
    }
    return all;
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
template <class Finish> struct Arguments {
  RowsCall call;
  Finish finish;
};
template <CollectiveAlgorithm way, class T, int K, class Finish> struct Reducer {
  static constexpr bool results = way == CollectiveAlgorithm::results, shared = shares(way),
                        split = splits(way);
  static constexpr unsigned lanes = unsigned(Lanes<T>::n);
  const Arguments<Finish> &arguments;
  Channel c;
  Workgroup scope;
  RowPiece piece;
  const RowsCall &call = arguments.call;

  // Compilers would keep what a row makes of the arguments for the rows to come.
  SHMEM_D_ Reducer anew() const {
    Reducer r{arch::load_anew(arguments), c, scope, piece};
    r.c.t = device::mapped(r.arguments.call.team);
    return r;
  }

  SHMEM_D_ unsigned number_of(int k) const {
    return piece.index * piece_packs + scope.rank() + unsigned(k) * scope.size();
  }
  // Beyond the row's end a thread loads the last pack once more.
  SHMEM_D_ unsigned pack_of(int k) const {
    const unsigned p = number_of(k), n = call.columns / lanes;
    return p < n ? p : n - 1;
  }
  SHMEM_D_ bool has(int k) const { return number_of(k) * lanes < call.columns; }
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
  // The same by lines, of a piece of a row.
  SHMEM_D_ void receive(size_t row, Pack (&h)[K]) {
    const Pack more = residual_of(row, 0),
               v = arch::load_global(row_at(call.input, row) + pack_of(0));
    device::begin_round(c, scope);
    if (has(0))
      for (int i = 1; i <= c.t.n; i++) device::send_mapped(c, c.peer(i), scope.rank(), v);
    if (piece.count > 1 && !piece.words) find_words();
    if (!has(0)) return;
    Lanes<T> acc{};
    device::receive_all(c, scope.rank(), [&](int i, Pack in) { add(acc, in, i); });
    h[0] = rounded(acc, more);
  }
  // They are in the channel of the row's first workgroup. By lines they are in those from this
  // member to itself, behind those of a piece; by results, which send no lines, in those of the
  // head. The next epoch of that workgroup is that of all. It stores a later one in the head at the
  // kernel's end, when it has heard all others.
  SHMEM_D_ void find_words() {
    Channel first = c;
    first.head -= piece.index * arch::load_anew(device::state.channels.head_bytes);
    first.epoch =
        arch::load_anew(call.team.base) + 1 +
        arch::load<Order::relaxed, Range::device>(reinterpret_cast<uint64_t *>(first.head));
    if constexpr (results) {
      device::use_head(first);
      piece.words = device::lines_of(first, 0);
    } else {
      first.lines -= size_t(piece.index) * 4 * unsigned(device::state.n) * c.room;
      piece.words = device::lines_of(first, c.t.me) + 4 * piece_packs;
    }
    piece.epoch = uint32_t(first.epoch);
  }

  // Stores v at p, a place in m: here, or at all members.
  template <class V> SHMEM_D_ void put(const Matrix &m, V *p, V v, bool here = !results) const {
    if (here) return arch::store_global(p, v);
    const unsigned deltas = device::row_of(m.at);
    Channel to = c;
    to.t = device::mapped(arch::load_anew(call).team); // which would take scalars all the while
    SHMEM_NO_UNROLL_
    for (int k = 1; k <= to.t.n; k++)
      arch::store_remote(device::at_peer(deltas, p, to.pe(to.peer(k))), v);
  }
  SHMEM_D_ void store_small(size_t row, const SummedRow<T, K> &r, const float (&scale)[K]) const {
    using Small = std::conditional_t<lanes == 8, uint64_t, uint32_t>;
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
      put(call.quantized,
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
    auto *const scales = reinterpret_cast<uint32_t *>(call.scales.at + row * call.scales.pitch);
    if (!call.group) {
      scale[0] = scale_of(r.max(size_of));
      SHMEM_UNROLL_
      for (int k = 1; k < K; k++) scale[k] = scale[0];
      if (scope.rank() + piece.index == 0) put(call.scales, scales, number::float_bits(scale[0]));
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
        x.one[scope.rank() + unsigned(k) * scope.size()] = mine;
      }
      scope.sync();
      SHMEM_UNROLL_
      for (int k = 0; k < K; k++) {
        float all = 0;
        for (unsigned i = 0; i < each; i++)
          all = SummedRow<T, K>::larger(all, x.one[first + unsigned(k) * scope.size() + i]);
        scale[k] = scale_of(all);
        if (has(k) && scope.rank() == first)
          put(call.scales, scales + r.column(k) / call.group, number::float_bits(scale[k]));
      }
      scope.sync();
    }
    store_small(row, r, scale);
  }
  SHMEM_D_ void store(const Matrix &to, size_t row, const Pack (&v)[K],
                      bool here = !results) const {
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++)
      if (has(k)) put(to, const_cast<Pack *>(row_at(to, row)) + pack_of(k), v[k], here);
  }
  SHMEM_D_ void end(size_t row, const Pack (&h)[K]) const {
    SummedRow<T, K> r;
    r.columns = call.columns;
    if constexpr (shared) r.piece = piece;
    SHMEM_UNROLL_
    for (int k = 0; k < K; k++) {
      const Lanes<T> wide = device::unpack<T>(h[k]);
      SHMEM_UNROLL_
      for (unsigned e = 0; e < lanes; e++) r.v[k][e] = wide.v[e];
    }
    arguments.finish(row, r);
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
    if constexpr (shared) piece.sums = r.piece.sums;
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
  SHMEM_D_ void share_all(Extent e) const {
    const unsigned bytes = call.columns * unsigned(sizeof(T)),
                   scales = call.group ? (call.columns + call.group - 1) / call.group : 1;
    SHMEM_NO_UNROLL_
    for (int i = 0; i < 4; i++) {
      const RowsCall &a = arch::load_anew(call);
      if (a.gathers() != (i == 3)) continue;
      const Matrix &m = i == 0 ? a.out : i == 1 ? a.quantized : i == 2 ? a.scales : a.sum;
      share(m, i == 1 ? a.columns : i == 2 ? scales * unsigned(sizeof(float)) : bytes, e);
    }
  }

  // last: of this workgroup, and each has a row. The peers' rows are not needed any more when it is
  // here.
  SHMEM_D_ void do_row(int turn, size_t row, bool last) const {
    Pack h[K] = {};
    if (turn) {
      SHMEM_UNROLL_
      for (int k = 0; k < K; k++) h[k] = arch::load_global(row_at(call.sum, row) + pack_of(k));
    } else {
      load(row, h);
    }
    arch::arrive(h);
    if (!turn && call.sum.at) store(call.sum, row, h, !results || call.scattered);
    if (!split && last && call.meets) {
      arch::sync_arrived(h);
      device::tell_done<Stored::nothing>(c, scope);
    }
    end(row, h);
  }

  // Returns this workgroup's part of these rows. Where workgroups share rows, sets its piece.
  SHMEM_D_ Extent take_part(Extent rows) {
    if constexpr (!shared) return even_part(rows, arch::block().x, arch::blocks().x);
    piece.count = pieces(call.columns / lanes);
    piece.index = arch::block().x % piece.count;
    return even_part(rows, arch::block().x / piece.count, arch::blocks().x / piece.count);
  }
  SHMEM_D_ void run_lines() {
    const Extent e = take_part({0, call.rows});
    for (size_t row = e.from; row < e.to; row++) {
      Pack h[K] = {};
      receive(row, h);
      arch::arrive(h);
      if (call.sum.at) store(call.sum, row, h);
      end(row, h);
    }
  }
  // The first turn is of the rows that this member sums; the others are of rows of which it gets
  // the sums.
  SHMEM_D_ void run() {
    if (call.meets) device::enter<Stored::by_stream>(c, scope);
    // By results there is one turn, which the compiler then knows.
    for (int turn = results ? 0 : call.from; turn < (results ? 1 : call.to); turn++) {
      c.t = device::mapped(arch::load_anew(call).team);
      const Extent mine = split ? part(call.rows, 1, unsigned(c.peer(turn)), unsigned(c.t.n))
                                : Extent{0, call.rows};
      const Extent e = take_part(mine);
      if constexpr (results)
        if (piece.count > 1) find_words();
      for (size_t row = e.from; row < e.to; row++) {
        const Reducer now = anew();
        now.do_row(turn, row, row + 1 == e.to);
        if constexpr (results) piece.sums = now.piece.sums;
      }
      if constexpr (split) {
        if (turn) continue;
        if constexpr (!results) {
          scope.sync(); // the other threads' rows are there
          anew().share_all(e);
        }
        if (!arch::load_anew(call).meets) continue;
        c.t = device::mapped(arch::load_anew(call).team);
        device::leave<Stored::by_scope>(c, scope);
        scope.sync(); // the other members' rows are there
      }
    }
    if (!split && arch::load_anew(call).meets) device::wait_done(c, scope);
  }
};

// Two workgroups on a multiprocessor, so that one has rows on the way while the other finishes its
// own: with one of two rows at once, 256 rows of 7168 took 25 us between 2 H100s (2026-11-27).
template <CollectiveAlgorithm way, int K>
inline constexpr unsigned bound =
    !shares(way) && K <= int(short_deep) ? arch::two_resident : arch::one_resident;

template <CollectiveAlgorithm way, class T, int K, class Finish>
__global__ void __launch_bounds__(device::max_threads, (bound<way, K>))
    all_reduce(Arguments<Finish> argument) {
  const Workgroup scope;
  const Arguments<Finish> &arguments = arch::argument(argument);
  const RowsCall &a = arguments.call;
  Channel c = device::open(rows_name, a.id, device::mapped(a.team), a.meets ? arch::block().x : 0,
                           a.input.at, a.input.at, scope);
  Reducer<way, T, K, Finish> reducer{arguments, c, scope, {}};
  if constexpr (way == CollectiveAlgorithm::lines)
    reducer.run_lines();
  else
    reducer.run();
  if (arch::load_anew(a).meets) device::close(reducer.c, arch::load_anew(a.team.base), scope);
}

template <int K, class T, class Finish>
hipError_t launch_deep(const RowsCall &call, hipStream_t stream, const Finish &finish) {
  using Way = CollectiveAlgorithm;
  auto *kernel = call.algorithm == Way::phases ? all_reduce<Way::phases, T, K, Finish>
                                               : all_reduce<Way::direct, T, K, Finish>;
  unsigned width = threads(call.columns / unsigned(Lanes<T>::n));
  if constexpr (K == 1)
    if (shares(call.algorithm)) {
      kernel = splits(call.algorithm) ? all_reduce<Way::results, T, 1, Finish>
                                      : all_reduce<Way::lines, T, 1, Finish>;
      width = piece_packs;
    }
  return shmem::launch(kernel, dim3(call.blocks), dim3(width), arch::launch_bytes<Exchange<K>>,
                       stream, Arguments<Finish>{call, finish});
}
template <class T, class Finish>
hipError_t launch(const RowsCall &call, hipStream_t stream, const Finish &finish) {
  if (shares(call.algorithm)) return launch_deep<1, T>(call, stream, finish);
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
