// SPDX-License-Identifier: MIT
// Dispatch stores this PE's tokens at the other members. Of few tokens one step does all. Of more
// it is four: find_routes finds which tokens go where, enter_dispatch counts them and waits until
// the others have come, send_tokens stores them, and finish waits until all have been stored.
// expand_rows then copies the rows that have come to the experts' rows, where the layout has such.
#pragma once
#include "members.hpp"

#include "../element.hpp"

namespace shmem::moe {

using device::Pack;

struct RowTotals {
  int all[max_experts], before[max_experts]; // rows of an expert; those of members before this one
  unsigned padded[max_experts];              // rows of an expert, to where the next one begins
  int had_expert[max_experts];               // rows of an expert here in the last dispatch
  int had[max_members], has[max_members];    // rows of a member in the last dispatch and in this
  int last;                                  // see Moe::last
  unsigned dropped;                          // rows, in this dispatch
  uint64_t dropped_before;
};
// A workgroup's knowledge of a batch of tokens.
struct TokenBatch {
  int id[chunk * max_top_k]; // [token][k] of a chunk, or of all tokens if they are few
  float weight[chunk * max_top_k];
  int place[most_rows]; // [token][k]: see Moe::place
  RowLists lists;
  int row[most_rows];         // [token][max_top_k], of rows that there are: at the member
  uintptr_t delta[most_rows]; // from here to the member
  int member[most_rows];
};
constexpr unsigned most_parts = 4096;
struct DispatchShared {
  uintptr_t delta[max_members]; // from an object here to that of member i
  unsigned seen;                // of is_last
  union {
    struct {
      TokenBatch batch;
      uint32_t has[most_words]; // see Moe::has
    };
    RowTotals totals;
    struct {
      int part[most_parts];
      int total[max_members + max_experts]; // of a column
    };
  };
};

// Reads of `n` tokens, from token `first` on, the experts, without those of members that take no
// part, and the weights, and clears has. A barrier comes behind. `keeps`: for the calls behind.
SHMEM_D_ void read_ids(const MoeCall &c, const int *ids, const float *weights, unsigned first,
                       unsigned n, bool keeps, TokenBatch &b, uint32_t *has) {
  const Moe &moe = c.moe;
  const unsigned rank = Workgroup{}.rank(), size = Workgroup{}.size(), k = unsigned(moe.top_k),
                 chunks = (n + chunk - 1) / chunk;
  for (unsigned i = rank; i < moe.columns * chunks; i += size) has[i] = 0;
  constexpr unsigned deep = 2; // loads in flight
  for (unsigned from = rank; from < n * k; from += deep * size) {
    int e[deep];
    float weight[deep];
    SHMEM_UNROLL_
    for (unsigned j = 0; j < deep; j++) {
      const unsigned i = from + j * size, at = first * k + (i < n * k ? i : from);
      e[j] = arch::load_global(ids + at);
      weight[j] = weights ? arch::load_global(weights + at) : 1.0f;
    }
    SHMEM_UNROLL_
    for (unsigned j = 0; j < deep; j++) {
      const unsigned i = from + j * size;
      if (i >= n * k) continue;
      if (e[j] < -1 || e[j] >= moe.experts)
        device::fail(device::Report::bad_index, c.fn, "expert_ids", ids + first * k + i,
                     sizeof *ids, alignof(int), arch::load_global(&moe.signals->pe[moe.me]), 0,
                     uint64_t(moe.experts), uint64_t(int64_t(e[j])));
      b.id[i] = e[j] >= 0 && c.is_in(e[j] / moe.local) ? e[j] : -1;
      b.weight[i] = weight[j];
      if (!keeps) continue;
      arch::store_global(moe.id + first * k + i, b.id[i]);
      arch::store_global(moe.weight + first * k + i, weight[j]);
    }
  }
}
// Finds which tokens of a chunk go to each column: a thread for each number, because one for each
// column looked at up to 256 numbers. Atomics set the bits, and their order changes nothing.
SHMEM_D_ void find_columns(const Moe &moe, const int *id, unsigned n, uint32_t *has) {
  const unsigned k = unsigned(moe.top_k), chunks = (n + chunk - 1) / chunk;
  for (unsigned i = Workgroup{}.rank(); i < n * k; i += Workgroup{}.size()) {
    if (id[i] < 0) continue;
    const unsigned t = i / k, c = t / chunk;
    atomicOr(has + unsigned(id[i] / moe.local) * chunks + c, 1u << t % chunk);
    atomicOr(has + unsigned(moe.n + id[i]) * chunks + c, 1u << t % chunk);
  }
  Workgroup{}.sync();
}

// Adds up the tokens that were found for a part of a column, from chunk `at` on. If `stores`,
// stores before each chunk the sum of the chunks before it. The loads of a part are in flight at
// once.
constexpr unsigned part_length = 32; // the least
SHMEM_D_ int count_chunks(const Moe &moe, size_t column, unsigned at, unsigned end, int sum,
                          bool stores) {
  constexpr unsigned deep = part_length / 4;
  for (; at < end; at += part_length) {
    Pack v[deep];
    SHMEM_UNROLL_
    for (unsigned j = 0; j < deep; j++)
      v[j] = arch::load_global(
          reinterpret_cast<const Pack *>(moe.has + column + (at + 4 * j < end ? at + 4 * j : at)));
    SHMEM_UNROLL_
    for (unsigned j = 0; j < deep; j++) {
      uint32_t has[4];
      int before[4];
      __builtin_memcpy(has, &v[j], sizeof v[j]);
      SHMEM_UNROLL_
      for (unsigned i = 0; i < 4; i++) {
        before[i] = sum;
        sum += at + 4 * j + i < end ? __popc(has[i]) : 0;
      }
      Pack p;
      __builtin_memcpy(&p, before, sizeof p);
      if (stores && at + 4 * j < end)
        arch::store_global(reinterpret_cast<Pack *>(moe.before + column + at + 4 * j), p);
    }
  }
  return sum;
}

// A workgroup finds for its chunk of tokens which of them go to each column.
SHMEM_D_ void find_routes(const MoeCall &c, DispatchShared &shared, const int *ids,
                          const float *weights, unsigned n, unsigned index) {
  const Moe &moe = c.moe;
  const Workgroup scope;
  const unsigned first = index * chunk, count = n - first < chunk ? n - first : chunk;
  read_ids(c, ids, weights, first, count, true, shared.batch, shared.has);
  if (index == 0) c.tell(&MoeSignals::entered, [] {});
  scope.sync();
  find_columns(moe, shared.batch.id, count, shared.has);
  for (unsigned x = scope.rank(); x < moe.columns; x += scope.size())
    arch::store_global(moe.has + size_t(x) * moe.chunks + index, shared.has[x]);
}
// Counts the tokens of each column, in parts, because 128 chunks one after the other are 32 round
// trips to the L2.
SHMEM_D_ void count_tokens(const Moe &moe, int *part, int *total, unsigned chunks) {
  const Workgroup scope;
  const unsigned rank = scope.rank(), size = scope.size(), columns = moe.columns,
                 most = most_parts / columns, wanted = (chunks + part_length - 1) / part_length,
                 parts = wanted < most ? wanted : most,
                 length = ((chunks + parts - 1) / parts + 3) / 4 * 4;
  for (int pass = 0; pass < 2; pass++) {
    const bool stores = pass == 1;
    for (unsigned i = rank; i < columns * parts; i += size) {
      const unsigned x = i / parts, at = i % parts * length,
                     end = at + length < chunks ? at + length : chunks;
      const int sum =
          count_chunks(moe, size_t(x) * moe.chunks, at, end, stores ? part[i] : 0, stores);
      if (!stores) part[i] = sum;
    }
    scope.sync();
    for (unsigned x = rank; x < columns && !stores; x += size) {
      int sum = 0;
      for (unsigned i = x * parts; i < (x + 1) * parts; i++) {
        const int own = part[i];
        part[i] = sum;
        sum += own;
      }
      arch::store_global(moe.counts + size_t(moe.me) * columns + x, sum);
      total[x] = sum;
    }
    scope.sync();
  }
}

// Stores count(column) of each column at the other members.
template <class Count>
SHMEM_D_ void send_counts(const MoeCall &c, const uintptr_t *delta, unsigned index, unsigned blocks,
                          Count count) {
  const Moe &moe = c.moe;
  const unsigned columns = moe.columns, size = Workgroup{}.size();
  for (unsigned i = index * size + Workgroup{}.rank(); i < unsigned(moe.n) * columns;
       i += blocks * size) {
    const int member = int(i / columns);
    const unsigned x = i % columns;
    if (member == moe.me || !c.is_in(member)) continue;
    int *const here = moe.counts + size_t(moe.me) * columns + x;
    arch::store_remote(
        reinterpret_cast<uint32_t *>(reinterpret_cast<uintptr_t>(here) + delta[member]),
        uint32_t(count(x)));
  }
}

// After it, send may store at the other members. chunks: of a new routing, or 0.
SHMEM_D_ void enter_dispatch(const MoeCall &c, DispatchShared &shared, unsigned chunks) {
  const Moe &moe = c.moe;
  const unsigned rank = Workgroup{}.rank();
  if (chunks) {
    count_tokens(moe, shared.part, shared.total, chunks);
  } else {
    c.tell(&MoeSignals::entered, [] {}); // route has not
    for (unsigned x = rank; x < moe.columns; x += Workgroup{}.size())
      shared.total[x] = arch::load_global(moe.counts + size_t(moe.me) * moe.columns + x);
  }
  if (int(rank) < moe.n) shared.delta[rank] = c.delta;
  c.wait(&MoeSignals::entered); // its barrier is also that of total and delta
  send_counts(c, shared.delta, 0, 1, [&](unsigned x) { return shared.total[x]; });
}

// The place of token t among those of this PE that go to a column.
SHMEM_D_ int place_in(const Moe &moe, int column, unsigned t) {
  const size_t at = size_t(column) * moe.chunks + t / chunk;
  return arch::load_global(moe.before + at) +
         __popc(arch::load_global(moe.has + at) & ((1u << t % chunk) - 1));
}

// Copies words of `count` rows that lie one after the other, each to its rows of the batch. A word
// is loaded once for all of them. All threads call before() once the first loads are on their way.
template <bool remote, class W, class Before>
SHMEM_D_ void spread(const TokenBatch &b, const char *from, char *to, size_t bytes, unsigned count,
                     Before before) {
  constexpr unsigned deep = 4;
  const unsigned words = unsigned(bytes / sizeof(W)), all = words * count,
                 size = Workgroup{}.size();
  const W *const source = reinterpret_cast<const W *>(from);
  unsigned i = Workgroup{}.rank();
  do {
    W v[deep] = {};
    if (all) {
      SHMEM_UNROLL_
      for (unsigned j = 0; j < deep; j++)
        v[j] = arch::load_global(source + (i + j * size < all ? i + j * size : all - 1));
    }
    before();
    arch::arrive(v);
    SHMEM_UNROLL_
    for (unsigned j = 0; j < deep; j++) {
      const unsigned at = i + j * size, t = at / words, in = at - t * words;
      if (at >= all) continue;
      SHMEM_NO_UNROLL_
      for (unsigned r = t * max_top_k, end = r + b.lists.count[t]; r < end; r++) {
        W *const p =
            reinterpret_cast<W *>(reinterpret_cast<uintptr_t>(to) + (remote ? b.delta[r] : 0) +
                                  size_t(unsigned(b.row[r])) * bytes) +
            in;
        if constexpr (remote)
          arch::store_remote(p, v[j]);
        else
          arch::store_global(p, v[j]);
      }
    }
    i += deep * size;
  } while (i < all);
}

// Calls f(member, count) for the counts of a column, in the order of the members and with 0 behind
// them. The loads of eight are in flight at once.
template <class F> SHMEM_D_ void each_count(const MoeCall &c, int column, F f) {
  constexpr int deep = 8;
  for (int from = 0; from < c.moe.n; from += deep) {
    int v[deep];
    SHMEM_UNROLL_
    for (int j = 0; j < deep; j++) {
      const int s = from + j < c.moe.n ? from + j : from;
      v[j] = arch::load_global(c.moe.counts + size_t(s) * c.moe.columns + column);
    }
    SHMEM_UNROLL_
    for (int j = 0; j < deep; j++) f(from + j, from + j < c.moe.n && c.is_in(from + j) ? v[j] : 0);
  }
}
SHMEM_D_ void no_row(const Moe &moe, size_t row) {
  arch::store_global(moe.row_pe + row, -1);
  arch::store_global(moe.row_token + row, -1);
  const size_t k = moe.layout == SHMEMX_MOE_BY_PE ? unsigned(moe.top_k) : 1;
  SHMEM_NO_UNROLL_
  for (size_t i = row * k; i < (row + 1) * k; i++) {
    arch::store_global(moe.row_expert + i, -1);
    arch::store_global(moe.row_weight + i, 0.0f);
  }
}

SHMEM_D_ void drop(RowTotals &t, int rows) {
  if (rows) atomicAdd(&t.dropped, unsigned(rows));
}

// Where the rows of each expert lie, here and at the other members, in a layout of rows by expert.
SHMEM_D_ void place_experts(const MoeCall &c, RowTotals &t, int size) {
  const Moe &moe = c.moe;
  const int rank = c.rank;
  const bool packed = moe.layout == SHMEMX_MOE_PACKED;
  for (int e = rank; e < moe.experts; e += size) {
    const int le = e % moe.local, all = t.all[e], capacity = int(moe.capacity);
    unsigned behind = 0; // those of this member's experts before
    for (int i = e - le; packed && i < e; i++) behind += t.padded[i];
    const int first = packed ? int(behind) : le * capacity,
              bound = packed ? capacity : first + capacity,
              room = first < bound ? bound - first : 0, has = all < room ? all : room;
    arch::store_global(moe.base + e, first + t.before[e]);
    arch::store_global(moe.bound + e, bound);
    if (e / moe.local != moe.me) continue;
    int next = first < bound ? first : bound;
    arch::store_global(moe.expert_count + le, has);
    arch::store_global(moe.expert_first + le, next);
    drop(t, all - has);
    // Expert by expert, the gap is rows of the last dispatch; packed, it is the rows that fill up,
    // and behind all experts the rows of the last dispatch.
    int gap = first + (t.had_expert[le] > has ? t.had_expert[le] : has);
    if (packed) {
      const int end = int(behind + t.padded[e]);
      gap = end < capacity ? end : capacity;
      if (le == moe.local - 1) {
        arch::store_global(moe.last, gap);
        gap = t.last > gap ? t.last : gap;
      }
    }
    arch::store_global(moe.gap + le, gap);
    each_count(c, moe.n + e, [&](int s, int count) {
      if (s < moe.n) arch::store_global(moe.start + s * moe.local + le, next);
      next += count;
    });
  }
}

// Ends a dispatch. Then the counts of all members are here, and say where rows begin, here and at
// the other members. size: the workgroup's threads. A kernel of the library knows the number, and
// would wait for the host's memory if it asked (gfx942, clang 19).
SHMEM_D_ void finish(const MoeCall &c, RowTotals &t, int size) {
  const Moe &moe = c.moe;
  const Workgroup scope;
  const int rank = c.rank;
  const bool by_pe = moe.layout == SHMEMX_MOE_BY_PE;
  uint64_t *const dropped = moe.signals->dropped;
  c.end([&] {
    if (rank < moe.n) t.had[rank] = arch::load_global(moe.pe_count + rank);
    SHMEM_NO_UNROLL_
    for (int le = rank; le < moe.local; le += size)
      t.had_expert[le] = arch::load_global(moe.expert_count + le);
    if (rank > 0) return;
    t.last = arch::load_global(moe.last);
    t.dropped_before = arch::load_global(dropped + 1);
    t.dropped = 0;
  });
  // Only this member's own experts if rows are by PE. The last threads do the members.
  const int own = moe.me * moe.local;
  const unsigned unit = moe.alignment;
  for (int e = (by_pe ? own : 0) + rank; e < (by_pe ? own + moe.local : moe.experts); e += size) {
    int sum = 0, mine = 0;
    each_count(c, moe.n + e, [&](int s, int count) {
      mine = s == moe.me ? sum : mine;
      sum += count;
    });
    if (by_pe) {
      arch::store_global(moe.expert_count + (e - own), sum);
    } else {
      t.all[e] = sum, t.before[e] = mine;
      t.padded[e] = (unsigned(sum) + unit - 1) / unit * unit;
    }
  }
  if (const int s = size - 1 - rank; s < moe.n) {
    const int count = arch::load_global(moe.counts + size_t(s) * moe.columns + moe.me),
              all = c.is_in(s) ? count : 0, has = all < int(moe.staged) ? all : int(moe.staged);
    drop(t, all - has);
    t.has[s] = has;
    arch::store_global(moe.pe_count + s, has);
  }
  scope.sync();
  if (!by_pe) place_experts(c, t, size);
  for (int s = 0; by_pe && s < moe.n; s++) {
    SHMEM_NO_UNROLL_
    for (int i = t.has[s] + rank; i < t.had[s]; i += size)
      no_row(moe, size_t(unsigned(s)) * moe.staged + unsigned(i));
  }
  if (!by_pe) scope.sync();
  if (rank == 0) {
    arch::store_global(dropped, uint64_t(t.dropped));
    arch::store_global(dropped + 1, t.dropped_before + t.dropped);
  }
}

// Lists the rows of `count` tokens, from token `first` on, whose experts are `id`. place is
// place_in for this step.
template <class Place>
SHMEM_D_ void list_rows(const MoeCall &c, const Moe &moe, TokenBatch &b, const uintptr_t *delta,
                        const int *id, unsigned first, unsigned count, Place place) {
  const unsigned rank = Workgroup{}.rank(), k = unsigned(moe.top_k), t = rank / k;
  const bool mine = rank < count * k, by_pe = moe.layout == SHMEMX_MOE_BY_PE;
  const int e = mine ? id[rank] : -1, member = e / moe.local;
  const bool goes = e >= 0 && c.is_in(member); // a replay may have fewer members
  bool sent = !goes;                           // or for an earlier k
  for (unsigned j = t * k; goes && j < rank; j++)
    sent |= unsigned(id[j] - member * moe.local) < unsigned(moe.local);
  const int slot = sent ? -1 : place(moe, member, first + t);
  const bool has = slot >= 0 && slot < int(moe.staged);
  if (mine) {
    b.place[rank] = !goes ? -1 : !by_pe ? place(moe, moe.n + e, first + t) : has ? slot : -1;
    arch::store_global(moe.place + size_t(first) * k + rank, b.place[rank]);
  }
  const unsigned r = place_of(b.lists, k, mine, has);
  if (has) {
    b.row[r] = moe.me * int(moe.staged) + slot;
    b.delta[r] = delta[member];
    b.member[r] = member;
  }
}
// Stores the experts of each row of each token at the row's member.
SHMEM_D_ void send_experts(const Moe &moe, const TokenBatch &b, const int *id, const float *weight,
                           unsigned first, unsigned count) {
  const bool by_pe = moe.layout == SHMEMX_MOE_BY_PE;
  const unsigned rank = Workgroup{}.rank(), size = Workgroup{}.size(), k = unsigned(moe.top_k),
                 most = k < unsigned(moe.n) ? k : unsigned(moe.n);
  for (unsigned i = rank; i < count * most * k; i += size) {
    const unsigned u = i / (most * k), nth = i / k % most, in = i % k, q = u * max_top_k + nth;
    if (nth >= b.lists.count[u]) continue;
    const int row = b.row[q], expert = id[u * k + in] - b.member[q] * moe.local;
    const bool there = unsigned(expert) < unsigned(moe.local);
    const size_t to = size_t(unsigned(row)) * k + in;
    const auto put = [&](auto *p, size_t at, auto v) {
      arch::store_remote(
          reinterpret_cast<uint32_t *>(reinterpret_cast<uintptr_t>(p + at) + b.delta[q]),
          arch::to_bits(v));
    };
    put(moe.stage_expert, to, there ? expert : -1);
    put(moe.stage_weight, to, there ? weight[u * k + in] : 0.0f);
    if (!by_pe) put(moe.stage_place, to, there ? b.place[u * k + in] : -1);
    if (in == 0) {
      put(moe.stage_pe, size_t(unsigned(row)), moe.me);
      put(moe.stage_token, size_t(unsigned(row)), int(first + u));
    }
  }
}

// The tokens that a call sends, `batch` at a time.
struct Tokens {
  const char *tokens, *scales;
  const int *ids;
  const float *weights;
  unsigned n, batch;
  bool keeps; // see read_ids
};
// Where the tokens are few, each workgroup finds their routing, and waits for the other members.
template <bool routes, class Blocks>
SHMEM_D_ void send_tokens(const char *fn, const Moe &moe, DispatchShared &shared,
                          const Tokens &tokens, Blocks grid) {
  TokenBatch &b = shared.batch;
  const Workgroup scope;
  const unsigned rank = scope.rank(), size = scope.size(), index = grid.index(),
                 blocks = grid.count(), n = tokens.n, batch = tokens.batch,
                 chunks = (n + chunk - 1) / chunk;
  const MoeCall c = open(fn, moe);
  const auto count_in = [&](unsigned x, unsigned end) { // in the chunks before `end`
    int sum = 0;
    SHMEM_UNROLL_
    for (unsigned i = 0; i < few_chunks; i++)
      sum += i < end ? __popc(shared.has[x * chunks + i]) : 0;
    return sum;
  };
  const auto place = [&](const Moe &m, int column, unsigned t) {
    if constexpr (routes)
      return count_in(unsigned(column), t / chunk) +
             __popc(shared.has[unsigned(column) * chunks + t / chunk] & ((1u << t % chunk) - 1));
    else
      return place_in(m, column, t);
  };
  if constexpr (routes) {
    read_ids(c, tokens.ids, tokens.weights, 0, n, tokens.keeps && index == 0, b, shared.has);
    if (index == 0) c.tell(&MoeSignals::entered, [] {});
    if (int(rank) < moe.n) shared.delta[rank] = c.delta;
    scope.sync();
    find_columns(moe, b.id, n, shared.has);
    for (unsigned x = rank; x < moe.columns && index == 0; x += size)
      arch::store_global(moe.counts + size_t(moe.me) * moe.columns + x, count_in(x, chunks));
  }
  bool waits = routes;
  const auto wait = [&] { // before the first store at another member
    if (!waits) return;
    c.wait(&MoeSignals::entered);
    send_counts(c, shared.delta, index, blocks, [&](unsigned x) { return count_in(x, chunks); });
    waits = false;
  };
  unsigned first = index * batch;
  do { // once if there are no tokens
    const Moe &m = grid.anew(moe);
    const unsigned count = n - first < batch ? n - first : batch, k = unsigned(m.top_k);
    const unsigned own = routes ? first * k : 0; // of the ids that the workgroup has
    if (!routes) {
      const bool mine = rank < count * k;
      if (mine) b.id[rank] = arch::load_global(m.id + size_t(first) * k + rank);
      if (mine) b.weight[rank] = arch::load_global(m.weight + size_t(first) * k + rank);
      if (int(rank) < m.n) shared.delta[rank] = c.delta;
      scope.sync();
    }
    const int *const id = b.id + own;
    list_rows(c, m, b, shared.delta, id, first, count, place);
    scope.sync();
    spread<true, Pack>(b, tokens.tokens + size_t(first) * m.token_bytes, m.stage, m.token_bytes,
                       count, wait);
    if (m.scale_bytes)
      spread<true, uint32_t>(b, tokens.scales + size_t(first) * m.scale_bytes, m.stage_scales,
                             m.scale_bytes, count, [] {});
    send_experts(grid.anew(moe), b, id, b.weight + own, first, count);
    scope.sync(); // the threads are done with the batch
    first += blocks * batch;
  } while (first < n);
  if (!routes || !c.is_last(shared.seen, grid)) return;
  c.tell_last(shared.delta);
  finish(c, shared.totals, int(size));
}

// To the rows of experts here.
template <class Blocks>
SHMEM_D_ void expand_rows(const Moe &moe, TokenBatch &b, unsigned batch, Blocks grid) {
  const Workgroup scope;
  const unsigned rank = scope.rank(), size = scope.size(), k = unsigned(moe.top_k);
  for (unsigned q = grid.index();; q += grid.count()) {
    unsigned left = q;
    int s = 0;
    for (; s < moe.n; s++) {
      const unsigned batches = (unsigned(arch::load_global(moe.pe_count + s)) + batch - 1) / batch;
      if (left < batches) break;
      left -= batches;
    }
    if (s == moe.n) break;
    const unsigned has = unsigned(arch::load_global(moe.pe_count + s)), first = left * batch,
                   count = has - first < batch ? has - first : batch;
    const size_t from = size_t(unsigned(s)) * moe.staged + first;
    const bool mine = rank < count * k;
    const size_t at = from * k + (mine ? rank : 0);
    const int expert = arch::load_global(moe.stage_expert + at), e = mine ? expert : -1,
              place = arch::load_global(moe.stage_place + at),
              token = arch::load_global(moe.stage_token + from + (mine ? rank / k : 0));
    const float weight = arch::load_global(moe.stage_weight + at);
    scope.sync(); // the threads are done with the last batch
    if (mine) b.id[rank] = e;
    scope.sync();
    int row = -1;
    if (e >= 0) {
      row = arch::load_global(moe.start + s * moe.local + e) + place;
      if (row >= arch::load_global(moe.bound + moe.me * moe.local + e)) row = -1;
      for (unsigned j = rank / k * k; j < rank; j++) row = b.id[j] == e ? -1 : row;
    }
    const unsigned r = place_of(b.lists, k, mine, row >= 0);
    if (row >= 0) {
      b.row[r] = row;
      arch::store_global(moe.row_pe + row, s);
      arch::store_global(moe.row_token + row, token);
      arch::store_global(moe.row_expert + row, e);
      arch::store_global(moe.row_weight + row, weight);
    }
    scope.sync();
    spread<false, Pack>(b, moe.stage + from * moe.token_bytes, moe.rows, moe.token_bytes, count,
                        [] {});
    if (moe.scale_bytes)
      spread<false, uint32_t>(b, moe.stage_scales + from * moe.scale_bytes, moe.scales,
                              moe.scale_bytes, count, [] {});
  }
  for (int le = 0; le < moe.local; le++) {
    const int end = arch::load_global(moe.gap + le);
    for (int row = arch::load_global(moe.expert_first + le) +
                   arch::load_global(moe.expert_count + le) + int(grid.index() * size + rank);
         row < end; row += int(grid.count() * size))
      no_row(moe, size_t(row));
  }
}

} // namespace shmem::moe
