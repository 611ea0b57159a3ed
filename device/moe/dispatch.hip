// SPDX-License-Identifier: MIT
// Dispatch is three kernels: route finds the places of this PE's tokens, send stores them at the
// other members, and expand copies what has come to the experts' rows, where the layout has such.
// Only send waits for other PEs, and has few workgroups.
#include "members.hpp"

#include "../element.hpp"

namespace shmem::moe {

namespace {

using device::Pack;

constexpr const char *fn = "shmemx_moe_dispatch_on_stream";
constexpr unsigned route_threads = 256;

struct RowTotals {
  int all[max_experts], before[max_experts]; // rows of an expert; those of members before this one
  int had[max_members], has[max_members];    // rows of a member in the last dispatch and in this
};
struct DispatchShared {
  union {
    TokenBatch batch;
    RowTotals totals;
  };
  unsigned seen; // of is_last
};

// A workgroup finds for its chunk of tokens which of them go to each column; the last one counts
// them.
__global__ void __launch_bounds__(route_threads)
    route(Moe argument, const int *ids, const float *weights, unsigned n) {
  const Moe &moe = arch::argument<>(argument);
  DispatchShared &shared = arch::workgroup_object<DispatchShared>();
  int *const id = shared.batch.id;
  const Workgroup scope;
  const unsigned c = arch::block().x, rank = scope.rank(), size = scope.size(), first = c * chunk,
                 end = first + chunk < n ? first + chunk : n, k = unsigned(moe.top_k),
                 count = first < end ? end - first : 0;
  const uint64_t members = members_of(moe);
  if (c == 0) tell(moe, &MoeSignals::entered, epoch_of(moe), members);
  for (unsigned i = rank; i < count * k; i += size) {
    const unsigned at = first * k + i;
    int e = arch::load_global(ids + at);
    if (e < -1 || e >= moe.experts)
      device::fail(device::Report::bad_index, fn, "expert_ids", ids + at, sizeof e, alignof(int),
                   arch::load_global(&moe.signals->pe[moe.me]), 0, uint64_t(moe.experts),
                   uint64_t(int64_t(e)));
    if (e >= 0 && !is_in(members, e / moe.local)) e = -1;
    id[i] = e;
    arch::store_global(moe.id + at, e);
    arch::store_global(moe.weight + at, weights ? arch::load_global(weights + at) : 1.0f);
  }
  scope.sync();
  for (unsigned x = rank; x < moe.columns; x += size) {
    // Expert numbers of a column are from..to - 1.
    const int from = x < unsigned(moe.n) ? int(x) * moe.local : int(x) - moe.n,
              width = x < unsigned(moe.n) ? moe.local : 1;
    uint32_t has = 0;
    for (unsigned t = 0; t < count; t++)
      for (unsigned i = 0; i < k; i++)
        has |= uint32_t(unsigned(id[t * k + i] - from) < unsigned(width)) << t;
    arch::store_global(moe.has + size_t(x) * moe.chunks + c, has);
  }
  if (!is_last(moe, shared.seen)) return;
  const unsigned chunks = arch::blocks().x;
  for (unsigned x = rank; x < moe.columns; x += size) {
    const size_t column = size_t(x) * moe.chunks;
    int sum = 0;
    for (unsigned at = 0; at < chunks; at += 4) {
      uint32_t has[4];
      int before[4];
      const Pack v = arch::load_global(reinterpret_cast<const Pack *>(moe.has + column + at));
      __builtin_memcpy(has, &v, sizeof v);
      SHMEM_UNROLL_
      for (unsigned i = 0; i < 4; i++) {
        before[i] = sum;
        sum += at + i < chunks ? __popc(has[i]) : 0;
      }
      Pack p;
      __builtin_memcpy(&p, before, sizeof p);
      arch::store_global(reinterpret_cast<Pack *>(moe.before + column + at), p);
    }
    arch::store_global(moe.counts + size_t(moe.me) * moe.columns + x, sum);
  }
}

// The place of token t among those of this PE that go to a column.
SHMEM_D_ int place_of(const Moe &moe, int column, unsigned t) {
  const size_t at = size_t(column) * moe.chunks + t / chunk;
  return arch::load_global(moe.before + at) +
         __popc(arch::load_global(moe.has + at) & ((1u << t % chunk) - 1));
}

// Copies words of `count` rows that lie one after the other, each to its rows of the batch. A word
// is loaded once for all of them.
template <bool remote, class W>
SHMEM_D_ void spread(const TokenBatch &b, unsigned k, const char *from, char *to, size_t bytes,
                     unsigned count) {
  constexpr unsigned deep = 4;
  const unsigned words = unsigned(bytes / sizeof(W)), all = words * count,
                 size = Workgroup{}.size();
  const W *const source = reinterpret_cast<const W *>(from);
  for (unsigned i = Workgroup{}.rank(); i < all; i += deep * size) {
    W v[deep] = {};
    SHMEM_UNROLL_
    for (unsigned j = 0; j < deep; j++)
      if (i + j * size < all) v[j] = arch::load_global(source + i + j * size);
    arch::arrive(v);
    SHMEM_UNROLL_
    for (unsigned j = 0; j < deep; j++) {
      const unsigned at = i + j * size, t = at / words, in = at % words;
      if (at >= all) break;
      for (unsigned e = t * k; e < t * k + k; e++) {
        if (b.row[e] < 0) continue;
        W *const p = reinterpret_cast<W *>(reinterpret_cast<uintptr_t>(to) + b.delta[e] +
                                           size_t(unsigned(b.row[e])) * bytes) +
                     in;
        if constexpr (remote)
          arch::store_remote(p, v[j]);
        else
          arch::store_global(p, v[j]);
      }
    }
  }
}

SHMEM_D_ int count_of(const Moe &moe, uint64_t members, int member, int column) {
  return is_in(members, member)
             ? arch::load_global(moe.counts + size_t(member) * moe.columns + column)
             : 0;
}
SHMEM_D_ void no_row(const Moe &moe, size_t row) {
  arch::store_global(moe.row_pe + row, -1);
  arch::store_global(moe.row_token + row, -1);
  const size_t k = moe.layout == SHMEMX_MOE_BY_PE ? unsigned(moe.top_k) : 1;
  for (size_t i = row * k; i < (row + 1) * k; i++) {
    arch::store_global(moe.row_expert + i, -1);
    arch::store_global(moe.row_weight + i, 0.0f);
  }
}

// From the counts of all members: where rows begin, here and at the other members.
SHMEM_D_ void settle_rows(const Moe &moe, RowTotals &t, uint64_t members) {
  const Workgroup scope;
  const unsigned rank = scope.rank(), size = scope.size();
  const bool by_pe = moe.layout == SHMEMX_MOE_BY_PE;
  uint64_t *const dropped = moe.signals->dropped;
  const auto drop = [&](int rows) {
    if (rows) arch::fetch_add<Order::relaxed, Range::device>(dropped, uint64_t(unsigned(rows)));
  };
  for (int e = int(rank); e < moe.experts; e += int(size)) {
    int sum = 0, mine = 0;
    for (int s = 0; s < moe.n; s++) {
      if (s == moe.me) mine = sum;
      sum += count_of(moe, members, s, moe.n + e);
    }
    t.all[e] = sum;
    t.before[e] = mine;
  }
  if (rank == 0) arch::store(dropped, uint64_t(0));
  arch::wait_stores(); // before the atomics of other waves
  scope.sync();
  for (int d = int(rank); d < moe.n; d += int(size)) {
    int64_t next = 0; // packed
    for (int le = 0; le < moe.local; le++) {
      const int e = d * moe.local + le, all = t.all[e];
      const int64_t first = by_pe                                ? int64_t(moe.me) * moe.staged
                            : moe.layout == SHMEMX_MOE_BY_EXPERT ? int64_t(le) * moe.capacity
                                                                 : next,
                    bound = by_pe                                ? first + moe.staged
                            : moe.layout == SHMEMX_MOE_BY_EXPERT ? first + moe.capacity
                                                                 : int64_t(moe.capacity),
                    room = first < bound ? bound - first : 0;
      next = (first + all + moe.alignment - 1) / moe.alignment * moe.alignment;
      arch::store_global(moe.base + e, int(first) + (by_pe ? 0 : t.before[e]));
      arch::store_global(moe.bound + e, int(bound));
      if (d != moe.me) continue;
      const int had = arch::load_global(moe.expert_count + le);
      const int has = by_pe || all < room ? all : int(room);
      arch::store_global(moe.expert_count + le, has);
      arch::store_global(moe.expert_first + le, by_pe ? 0 : int(first < bound ? first : bound));
      drop(all - has);
      // Of expert by expert, rows of the last dispatch; of packed ones, those that fill up.
      if (moe.layout == SHMEMX_MOE_BY_EXPERT)
        arch::store_global(moe.gap + le, int(first) + (had > has ? had : has));
      if (moe.layout == SHMEMX_MOE_PACKED)
        arch::store_global(moe.gap + le, int(next < bound ? next : bound));
    }
    if (d == moe.me && moe.layout == SHMEMX_MOE_PACKED) {
      const int end = int(next < moe.capacity ? next : moe.capacity),
                had = arch::load_global(moe.last);
      arch::store_global(moe.last, end);
      if (had > end) arch::store_global(moe.gap + moe.local - 1, had);
    }
  }
  for (int s = int(rank); s < moe.n; s += int(size)) {
    const int all = count_of(moe, members, s, moe.me),
              has = all < int(moe.staged) ? all : int(moe.staged);
    drop(all - has);
    t.had[s] = arch::load_global(moe.pe_count + s);
    t.has[s] = has;
    arch::store_global(moe.pe_count + s, has);
  }
  arch::wait_stores();
  scope.sync();
  for (int s = 0; by_pe && s < moe.n; s++)
    for (int i = t.has[s] + int(rank); i < t.had[s]; i += int(size))
      no_row(moe, size_t(unsigned(s)) * moe.staged + unsigned(i));
  for (int i = int(rank); i < moe.n * moe.local; i += int(size)) {
    const int s = i / moe.local, le = i % moe.local;
    int first = arch::load(moe.expert_first + le);
    for (int j = 0; j < s; j++) first += count_of(moe, members, j, moe.n + moe.me * moe.local + le);
    arch::store_global(moe.start + i, first);
  }
  if (rank == 0)
    arch::store_global(dropped + 1, arch::load_global(dropped + 1) + arch::load(dropped));
}

// `batch` tokens at a time.
__global__ void __launch_bounds__(device::max_threads)
    send(Moe argument, const char *tokens, const char *scales, unsigned n, unsigned batch,
         bool replay) {
  const Moe &moe = arch::argument<>(argument);
  DispatchShared &shared = arch::workgroup_object<DispatchShared>();
  TokenBatch &b = shared.batch;
  const Workgroup scope;
  const unsigned rank = scope.rank(), size = scope.size(), k = unsigned(moe.top_k),
                 index = arch::block().x, blocks = arch::blocks().x;
  const uint64_t members = members_of(moe), epoch = epoch_of(moe);
  const bool by_pe = moe.layout == SHMEMX_MOE_BY_PE;
  if (replay && index == 0) tell(moe, &MoeSignals::entered, epoch, members);
  wait_all(fn, moe, &MoeSignals::entered, epoch, members);
  for (int i = int(index); i < moe.n; i += int(blocks)) {
    if (i == moe.me || !is_in(members, i)) continue;
    int *const mine = moe.counts + size_t(moe.me) * moe.columns, *const there = at(moe, mine, i);
    for (unsigned x = rank; x < moe.columns; x += size)
      arch::store_remote(reinterpret_cast<uint32_t *>(there + x),
                         uint32_t(arch::load_global(mine + x)));
  }
  for (unsigned first = index * batch; first < n; first += blocks * batch) {
    const unsigned count = n - first < batch ? n - first : batch;
    scope.sync(); // the threads are done with the last batch
    for (unsigned i = rank; i < count * k; i += size)
      b.id[i] = arch::load_global(moe.id + size_t(first) * k + i);
    scope.sync();
    for (unsigned i = rank; i < count * k; i += size) {
      const unsigned t = i / k;
      const int e = b.id[i], member = e < 0 ? -1 : e / moe.local;
      int row = -1, place = -1;
      if (e >= 0 && is_in(members, member)) { // a replay may have fewer of them
        bool sent = false;                    // for an earlier k
        for (unsigned j = t * k; j < i; j++) sent |= b.id[j] >= 0 && b.id[j] / moe.local == member;
        const int slot = sent ? -1 : place_of(moe, member, first + t);
        if (!sent && slot < int(moe.staged)) row = moe.me * int(moe.staged) + slot;
        place = by_pe ? (row < 0 ? -1 : slot) : place_of(moe, moe.n + e, first + t);
        b.delta[i] = arch::load_global(&moe.signals->delta[member]);
      }
      b.row[i] = row;
      arch::store_global(moe.place + size_t(first) * k + i, place);
    }
    scope.sync();
    spread<true, Pack>(b, k, tokens + size_t(first) * moe.token_bytes, moe.stage, moe.token_bytes,
                       count);
    if (moe.scale_bytes)
      spread<true, uint32_t>(b, k, scales + size_t(first) * moe.scale_bytes, moe.stage_scales,
                             moe.scale_bytes, count);
    // What the row's experts are, for each row of each token.
    for (unsigned i = rank; i < count * k * k; i += size) {
      const unsigned j = i / k, in = i % k, t = j / k;
      const int row = b.row[j];
      if (row < 0) continue;
      const int e = b.id[t * k + in], member = b.id[j] / moe.local;
      const bool there = e >= 0 && e / moe.local == member;
      const size_t to = size_t(unsigned(row)) * k + in;
      const auto put = [&](auto *p, size_t i, auto v) {
        arch::store_remote(
            reinterpret_cast<uint32_t *>(reinterpret_cast<uintptr_t>(p + i) + b.delta[j]),
            arch::to_bits(v));
      };
      put(moe.stage_expert, to, there ? e - member * moe.local : -1);
      put(moe.stage_weight, to,
          there ? arch::load_global(moe.weight + size_t(first + t) * k + in) : 0.0f);
      if (!by_pe) put(moe.stage_place, to, there ? place_of(moe, moe.n + e, first + t) : -1);
      if (in == 0) {
        put(moe.stage_pe, size_t(unsigned(row)), moe.me);
        put(moe.stage_token, size_t(unsigned(row)), int(first + t));
      }
    }
  }
  if (!is_last(moe, shared.seen)) return;
  meet(fn, moe, epoch, members);
  settle_rows(moe, shared.totals, members);
}

// To the rows of experts here.
__global__ void __launch_bounds__(device::max_threads) expand(Moe argument, unsigned batch) {
  const Moe &moe = arch::argument<>(argument);
  DispatchShared &shared = arch::workgroup_object<DispatchShared>();
  TokenBatch &b = shared.batch;
  const Workgroup scope;
  const unsigned rank = scope.rank(), size = scope.size(), k = unsigned(moe.top_k);
  for (unsigned q = arch::block().x;; q += arch::blocks().x) {
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
    scope.sync();
    for (unsigned i = rank; i < count * k; i += size)
      b.id[i] = arch::load_global(moe.stage_expert + from * k + i);
    scope.sync();
    for (unsigned i = rank; i < count * k; i += size) {
      const int e = b.id[i];
      int row = -1;
      if (e >= 0) {
        row = arch::load_global(moe.start + s * moe.local + e) +
              arch::load_global(moe.stage_place + from * k + i);
        if (row >= arch::load_global(moe.bound + moe.me * moe.local + e)) row = -1;
        for (unsigned j = i / k * k; j < i; j++) row = b.id[j] == e ? -1 : row;
      }
      b.row[i] = row;
      b.delta[i] = 0;
      if (row < 0) continue;
      arch::store_global(moe.row_pe + row, s);
      arch::store_global(moe.row_token + row, arch::load_global(moe.stage_token + from + i / k));
      arch::store_global(moe.row_expert + row, e);
      arch::store_global(moe.row_weight + row, arch::load_global(moe.stage_weight + from * k + i));
    }
    scope.sync();
    spread<false, Pack>(b, k, moe.stage + from * moe.token_bytes, moe.rows, moe.token_bytes, count);
    if (moe.scale_bytes)
      spread<false, uint32_t>(b, k, moe.stage_scales + from * moe.scale_bytes, moe.scales,
                              moe.scale_bytes, count);
  }
  for (int le = 0; le < moe.local; le++) {
    const int end = arch::load_global(moe.gap + le);
    for (int row = arch::load_global(moe.expert_first + le) +
                   arch::load_global(moe.expert_count + le) + int(arch::block().x * size + rank);
         row < end; row += int(arch::blocks().x * size))
      no_row(moe, size_t(row));
  }
}

constexpr size_t shared_bytes = arch::launch_bytes<DispatchShared>;

} // namespace

hipError_t dispatch(const Moe &moe, const void *tokens, const void *scales, const int *ids,
                    const float *weights, unsigned n, Grids grids, hipStream_t stream) {
  const unsigned batch = batch_of(n, grids.waiting);
  hipError_t error = hipSuccess;
  if (ids)
    error = shmem::launch(route, dim3(n ? (n + chunk - 1) / chunk : 1), dim3(route_threads),
                          shared_bytes, stream, moe, ids, weights, n);
  if (!error)
    error =
        shmem::launch(send, dim3(blocks_for(n, batch, grids.waiting)), dim3(device::max_threads),
                      shared_bytes, stream, moe, static_cast<const char *>(tokens),
                      static_cast<const char *>(scales), n, batch, ids == nullptr);
  if (!error && moe.layout != SHMEMX_MOE_BY_PE)
    error = shmem::launch(expand, dim3(blocks_for(unsigned(moe.n) * moe.tokens, 1, grids.others)),
                          dim3(device::max_threads), shared_bytes, stream, moe, most_tokens / 2);
  return error;
}

hipError_t residents_of_dispatch(int *blocks) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, arch::launchable(send),
                                                      int(device::max_threads), shared_bytes);
}

} // namespace shmem::moe
