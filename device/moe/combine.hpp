// SPDX-License-Identifier: MIT
// Combine loads the rows of the other members. It stores nothing at them meanwhile: links carry
// less where requests for reads go beside writes.
#pragma once
#include "members.hpp"

#include "../element.hpp"

namespace shmem::moe {

using device::Lanes, device::Pack;

struct CombineShared {
  uintptr_t delta[max_members]; // from an object here to that of member i
  uintptr_t rows[max_members];  // from `rows` here to those of member i
  RowLists lists;
  uintptr_t from[most_rows]; // [token][max_top_k]: the rows that there are, in the order of k
  float weight[most_rows];
  unsigned seen; // of is_last
};

// Stores the sums of `tokens` tokens, of `packs` packs each. A step adds a pack of each of up to n
// rows, and before loads the packs of the next step: nvcc 13 put each of several loads of one step
// behind the sum before, and so waited for each (2026-11-27). Where there are fewer rows, a pack of
// this PE's own is loaded.
template <class T, int n>
SHMEM_D_ void add_rows(const CombineShared &b, const char *rows, char *out, unsigned tokens,
                       unsigned packs) {
  struct Step {
    unsigned i, t, row; // the pack of all, its token, and the first row
    Pack v[n];
  };
  const unsigned rank = Workgroup{}.rank(), size = Workgroup{}.size(), all = tokens * packs;
  const auto begin = [&](Step &s) {
    s.t = s.i / packs;
    SHMEM_UNROLL_
    for (unsigned q = 0; q < unsigned(n); q++) {
      const uintptr_t from = s.row + q < b.lists.count[s.t] ? b.from[s.t * max_top_k + s.row + q]
                                                            : reinterpret_cast<uintptr_t>(rows);
      s.v[q] = arch::load_global(reinterpret_cast<const Pack *>(from) + (s.i - s.t * packs));
    }
  };
  Step s = {rank, 0, 0, {}}, next = s;
  if (rank < all) begin(s);
  Lanes<T> sum = {};
  for (bool more = rank < all; more; s = next) {
    const bool ends = s.row + unsigned(n) >= b.lists.count[s.t];
    next.i = s.i + (ends ? size : 0), next.row = ends ? 0 : s.row + unsigned(n);
    more = next.i < all;
    if (more) begin(next);
    SHMEM_UNROLL_
    for (unsigned q = 0; q < unsigned(n); q++) {
      if (s.row + q >= b.lists.count[s.t]) continue;
      const float weight = b.weight[s.t * max_top_k + s.row + q];
      const Lanes<T> pack = device::unpack<T>(s.v[q]);
      SHMEM_UNROLL_
      for (int i = 0; i < Lanes<T>::n; i++) sum.v[i] = __builtin_fmaf(weight, pack.v[i], sum.v[i]);
    }
    if (!ends) continue;
    arch::store_global(reinterpret_cast<Pack *>(out) + s.i, device::pack<T>(sum));
    sum = {};
  }
}

// The sums that a call makes, of `batch` tokens at a time.
struct RowSums {
  const char *rows;
  char *out;
  unsigned n, batch;
  bool weighted, meets; // meets: the workgroups wait for the other members
};
// row_delta(): from `rows` here to those of this thread's member; fence: orders the rows before the
// flag.
template <class T, class RowDelta, class Blocks, class Fence>
SHMEM_D_ void sum_rows(const MoeCall &c, CombineShared &b, const RowSums &sums, RowDelta row_delta,
                       Blocks grid, Fence fence) {
  const Moe &moe = c.moe;
  const Workgroup scope;
  const unsigned rank = scope.rank(), k = unsigned(moe.top_k), packs = unsigned(moe.row_bytes / 16),
                 n = sums.n, batch = sums.batch;
  const bool meets = sums.meets;
  if (!meets) arch::polled(); // the others' rows, before the flags that enter has seen
  bool begins = true;
  unsigned first = grid.index() * batch;
  do { // once if there are no tokens
    const unsigned count = n - first < batch ? n - first : batch;
    const bool mine = rank < count * k;
    const size_t at = size_t(first) * k + rank;
    const int e = mine ? arch::load_global(moe.id + at) : -1,
              place = mine ? arch::load_global(moe.place + at) : -1, member = e / moe.local;
    const float weight = mine && sums.weighted ? arch::load_global(moe.weight + at) : 1.0f;
    if (begins && meets && grid.index() == 0) c.tell(&MoeSignals::entered, fence);
    if (begins && int(rank) < moe.n) {
      b.delta[rank] = c.delta;
      b.rows[rank] = row_delta();
    }
    scope.sync(); // the deltas are there, and the threads are done with the last batch
    bool has = e >= 0 && place >= 0 && c.is_in(member);
    int row = moe.me * int(moe.staged) + place;
    if (has && moe.layout != SHMEMX_MOE_BY_PE) {
      row = arch::load_global(moe.base + e) + place;
      has = row < arch::load_global(moe.bound + e);
    }
    const unsigned to = place_of(b.lists, k, mine, has);
    if (has) {
      b.from[to] = reinterpret_cast<uintptr_t>(sums.rows) + b.rows[member] +
                   size_t(unsigned(row)) * moe.row_bytes;
      b.weight[to] = weight;
    }
    if (begins && meets)
      c.wait(&MoeSignals::entered);
    else
      scope.sync();
    begins = false;
    unsigned most = 0;
    for (unsigned t = 0; t < count; t++) most = most < b.lists.count[t] ? b.lists.count[t] : most;
    char *const out = sums.out + size_t(first) * moe.row_bytes;
    if (most > 2)
      add_rows<T, 4>(b, sums.rows, out, count, packs);
    else
      add_rows<T, 2>(b, sums.rows, out, count, packs);
    first += grid.count() * batch;
  } while (first < n);
  if (!meets || !c.is_last(b.seen, grid)) return;
  c.tell_last(b.delta);
  c.end([] {});
}

} // namespace shmem::moe
