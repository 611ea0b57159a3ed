// SPDX-License-Identifier: MIT
// Barrier, broadcast, collect, alltoall. An algorithm is a pattern and a copy; the choice between
// two is by size, below.
//
// The specification decides the shape. dest is ready on every PE before any PE calls, so pushing
// into a peer that has not entered is fine. source is ready only where its PE has entered, so
// pulling needs an arrival first, and a departure after it.
#pragma once
#include "../../device/pattern.hpp"
#include "../gpu/stream.hpp"
#include "../order.hpp"
#include "../rma.hpp"
#include "../stream.hpp"
#include "nodes.hpp"

namespace shmem {

namespace coll {

// Up to these sizes the root of a broadcast pushes: in a team of two, to each of more, to all of
// them together. Above, all pull at once, each on its own core. ns, pushed / pulled, 2026-11: 2 PEs
// of an EPYC 1 KiB 430, 530; 4 KiB 500, 780; 8 KiB 600, 750. On 16 cores of a Xeon 128 B by 3 PEs
// 350, 460, by 8 600, 750, by 16 1000, 1000; 512 B by 4 800, 580, by 16 2100, 1070. Where PEs share
// cores a barrier costs more than two copies: 8 PEs on 2 cores, 1 KiB pushed 1.8 us, by way of the
// outbox 2.5; 2 KiB 2.7, pulled 5 to 6.
inline constexpr size_t push_two = 8192, push_each = 128, push_all = 2048, push_shared = 8192;
// Blocks below this size of several PEs would lie on one line of dest, which its writers would take
// from each other. So they are shown on the stages, and each PE fetches them.
inline constexpr size_t staged_block = 64;

// Shows the bytes, at most a stage full, to all members. Returns when all members show theirs, as
// many, with the number of the round.
uint64_t show(Team &t, const void *source, size_t bytes);
// The bytes that a member shows.
inline std::byte *shown(Stage &s, size_t bytes) {
  return bytes <= sizeof s.few ? s.few : s.data;
}
// Shows n elements to all members, and calls take(i, what member i shows).
template <class T, class F> inline void exchange_data(Team &t, const T *source, size_t n, F take) {
  const uint64_t round = show(t, source, n * sizeof(T));
  for (int i = 0; i < t.n; i++)
    take(i, reinterpret_cast<const T *>(shown(stage(t, i, round), n * sizeof(T))));
}

// A collective of the host on arrays in device memory is done on a stream, and waited for. Returns
// the stream, one of the team's own, or null where the host has to copy. The members meet here: on
// the host a PE that never comes is found, and a late PE costs no GPU anything. They also agree
// here, because a member that collects nothing (n = 0) may pass any source.
[[gnu::cold]] stream::Stream team_stream(Team &t, const void *dest, const void *source, size_t n);

// Returns when all stores into the members' objects are complete.
inline void arrive(Team &t) {
  if (t.on_nodes()) net::quiet();
  sync(t);
}

// Stores the bytes at source(i) into dest of member i, for each i. They are there when all members
// have arrived.
template <class Source>
inline void push_to_members(const char *fn, const Team &t, void *dest, size_t bytes,
                            Source source) {
  for (int k = 0; k < t.n; k++) {
    const int i = pattern::peer(t.me, k, t.n);
    const void *const from = source(i);
    access(fn, "dest", World{}, static_cast<std::byte *>(dest), bytes, t.pe(i), no_other,
           [=](auto d) { d.push(static_cast<const std::byte *>(from), bytes); });
  }
}
inline void push_to_members(const char *fn, const Team &t, void *dest, const void *source,
                            size_t step, size_t bytes) {
  push_to_members(fn, t, dest, bytes,
                  [=](int i) { return static_cast<const std::byte *>(source) + size_t(i) * step; });
}

void broadcast(const char *fn, Team &t, void *dest, const void *source, size_t bytes, int root,
               bool root_too);
// Among members that share memory.
void broadcast_here(const char *fn, Team &t, void *dest, const void *source, size_t bytes, int root,
                    bool root_too);
void collect(const char *fn, Team &t, void *dest, const void *source,
             size_t bytes); // bytes may differ between members
void fcollect(const char *fn, Team &t, void *dest, const void *source, size_t bytes);
void alltoall(const char *fn, Team &t, void *dest, const void *source, size_t bytes);

void alltoallv(const char *fn, Team &t, void *dest, const void *source, const Uneven &u,
               size_t align);

template <class T>
inline void alltoalls(const char *fn, Team &t, T *dest, const T *source, ptrdiff_t dst,
                      ptrdiff_t sst, size_t n) {
  if (self.check) {
    check_strided(fn, "source", source, dst, sst, 1, n);
    check_arrays(fn, dest, extent(t.n * n, dst) * sizeof(T), source,
                 extent(t.n * n, sst) * sizeof(T), alignof(T), false);
  }
  if (self.device_only && n) [[unlikely]]
    if (const stream::Stream own = team_stream(t, dest, source, n)) {
      stream::alltoalls(fn, handle_of(t), dest, source, dst, sst, n, sizeof(T), alignof(T), own);
      return gpu::wait(own);
    }
  for (int k = 0; k < t.n; k++) {
    const int i = pattern::peer(t.me, k, t.n);
    const T *s = source + ptrdiff_t(i * n) * sst;
    access(fn, "dest", World{}, dest + ptrdiff_t(t.me * n) * dst, extent(n, dst), t.pe(i), no_other,
           [=](auto d) { d.put_blocks(s, dst, sst, 1, n); });
  }
  arrive(t);
}

template <class T>
inline void alltoall2d(const char *fn, Team &t, T *dest, const T *source, ptrdiff_t dest_block,
                       ptrdiff_t dest_row, ptrdiff_t source_block, ptrdiff_t source_row,
                       size_t nelems, size_t nrows) {
  if (self.check) {
    const auto bytes = [](ptrdiff_t n) { return n * ptrdiff_t(sizeof(T)); };
    const Block2d b{nelems * sizeof(T),  nrows,
                    bytes(dest_block),   bytes(dest_row),
                    bytes(source_block), bytes(source_row)};
    check_block(fn, b, sizeof(T));
    const auto n = size_t(t.n);
    check_arrays(fn, dest, extent(n, b.dest_block, b.dest_row, b), source,
                 extent(n, b.source_block, b.source_row, b), alignof(T), false);
  }
  if (self.device_only && nelems && nrows) [[unlikely]]
    if (const stream::Stream own = team_stream(t, dest, source, nelems)) {
      on_stream::alltoall2d(fn, handle_of(t), dest, source, dest_block, dest_row, source_block,
                            source_row, nelems, nrows, own);
      return gpu::wait(own);
    }
  for (int k = 0; k < t.n && nelems; k++) {
    const int i = pattern::peer(t.me, k, t.n);
    const T *s = source + i * source_block;
    access(fn, "dest", World{}, dest + t.me * dest_block, extent(nrows, dest_row, nelems), t.pe(i),
           no_other, [=](auto d) { d.put_blocks(s, dest_row, source_row, nelems, nrows); });
  }
  arrive(t);
}

} // namespace coll

namespace api {

inline void barrier_all(const char *fn) {
  check_ready(fn);
  // The quiet and the barrier: what was stored before is visible once a member has arrived.
  release_fence();
  if (self.careful) [[unlikely]]
    finish();
  shmem::sync(*self.world);
}
inline int team_sync(const char *fn, shmem_team_t team) {
  shmem::sync(need_team(fn, "team", team));
  return 0;
}

template <class T>
inline int broadcast(const char *fn, shmem_team_t team, T *dest, const T *source, size_t nelems,
                     int root) {
  coll::broadcast(fn, need_team(fn, "team", team), dest, source, nelems * sizeof(T), root, true);
  return 0;
}
template <class T>
inline int alltoalls(const char *fn, shmem_team_t team, T *dest, const T *source, ptrdiff_t dst,
                     ptrdiff_t sst, size_t nelems) {
  coll::alltoalls(fn, need_team(fn, "team", team), dest, source, dst, sst, nelems);
  return 0;
}

template <class T>
inline int alltoall2d(const char *fn, shmem_team_t team, T *dest, const T *source,
                      ptrdiff_t dest_block, ptrdiff_t dest_row, ptrdiff_t source_block,
                      ptrdiff_t source_row, size_t nelems, size_t nrows) {
  coll::alltoall2d(fn, need_team(fn, "team", team), dest, source, dest_block, dest_row,
                   source_block, source_row, nelems, nrows);
  return 0;
}
template <class T>
inline int alltoallv(const char *fn, shmem_team_t team, T *dest, size_t *recv_counts,
                     size_t *recv_offsets, size_t capacity, const T *source, const size_t *counts,
                     const size_t *offsets) {
  coll::alltoallv(fn, need_team(fn, "team", team), dest, source,
                  {counts, offsets, recv_counts, recv_offsets, capacity, sizeof(T)}, alignof(T));
  return 0;
}
inline int alltoallv(const char *fn, shmem_team_t team, unsigned char *dest, size_t *recv_counts,
                     size_t *recv_offsets, size_t capacity, const unsigned char *source,
                     const size_t *counts, const size_t *offsets, size_t unit_bytes) {
  coll::alltoallv(fn, need_team(fn, "team", team), dest, source,
                  {counts, offsets, recv_counts, recv_offsets, capacity, unit_bytes}, 1);
  return 0;
}

// The active-set forms. pSync is not needed, and is left as it was, which is the value that it must
// have.
inline void barrier(const char *fn, int start, int log_stride, int size, long *psync) {
  Team *t = active_set(fn, start, log_stride, size, psync);
  if (t && self.careful) finish();
  if (t) shmem::sync(*t);
}
inline void sync(const char *fn, int start, int log_stride, int size, long *psync) {
  if (Team *t = active_set(fn, start, log_stride, size, psync)) shmem::sync(*t);
}
template <class T>
inline void broadcast(const char *fn, T *dest, const T *source, size_t nelems, int root, int start,
                      int log_stride, int size, long *psync) {
  if (Team *t = active_set(fn, start, log_stride, size, psync))
    coll::broadcast(fn, *t, dest, source, nelems * sizeof(T), root, false);
}
#define COLLECTIVE(name)                                                                           \
  template <class T>                                                                               \
  inline int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t nelems) {    \
    coll::name(fn, need_team(fn, "team", team), dest, source, nelems * sizeof(T));                 \
    return 0;                                                                                      \
  }                                                                                                \
  template <class T>                                                                               \
  inline void name(const char *fn, T *dest, const T *source, size_t nelems, int start,             \
                   int log_stride, int size, long *psync) {                                        \
    if (Team *t = active_set(fn, start, log_stride, size, psync))                                  \
      coll::name(fn, *t, dest, source, nelems * sizeof(T));                                        \
  }
COLLECTIVE(collect)
COLLECTIVE(fcollect)
COLLECTIVE(alltoall)
#undef COLLECTIVE
template <class T>
inline void alltoalls(const char *fn, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                      size_t nelems, int start, int log_stride, int size, long *psync) {
  if (Team *t = active_set(fn, start, log_stride, size, psync))
    coll::alltoalls(fn, *t, dest, source, dst, sst, nelems);
}

} // namespace api
} // namespace shmem
