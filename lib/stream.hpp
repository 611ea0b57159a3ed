// SPDX-License-Identifier: MIT
// Operations on streams: RMA, signals, atomics, collectives, done by the GPU in the stream's order.
// A call launches and returns: it allocates nothing and waits for nothing. All state that changes
// from one run to the next is in device memory, so a graph may hold the call.
#pragma once
#include "../device/op.hpp"
#include "address.hpp"
#include <cstring>
#include <shmemx.h>

namespace shmem {

namespace stream {

using Stream = shmemx_stream_t;

// Ends the program before init, and where there is no device memory.
void check_ready(const char *fn);
// Ends the program unless least <= value <= most.
inline void check_range(const char *fn, const char *arg, int value, int least, int most) {
  if (value < least || value > most)
    fatal("%s: %s = %d: not one of %d to %d", fn, arg, value, least, most);
}
// A program's struct of `bytes` bytes must be the library's, which has `own`.
inline void check_shared(const char *fn, size_t bytes, size_t own) {
  if (bytes != own)
    fatal("%s: compiled against another version of this library: what they share has %zu bytes, "
          "the library's %zu",
          fn, bytes, own);
}
// A team that may have collectives on streams. To kernels SHMEM_TEAM_SHARED is the world, in a job
// of one node.
const Team &need_channels(const char *fn, shmem_team_t team);
// Ends the program unless all members of the team have the object, on the device heap or in a
// buffer.
void check_member(const char *fn, const Team &t, const char *arg, const void *p, size_t bytes,
                  size_t align);
// unit, align: of an element, for checks.
void transfer(const char *fn, Remote remote, void *dest, const void *source, const Blocks &b,
              size_t unit, size_t align, int pe, Stream stream);
void store(const char *fn, void *dest, uint64_t value, size_t bytes, int pe, Stream stream);
void put_signal(const char *fn, void *dest, const void *source, size_t bytes, size_t align,
                uint64_t *sig, uint64_t value, int op, int pe, Stream stream);
void atomic(const char *fn, Amo op, const void *p, size_t bytes, uint64_t value, uint64_t cond,
            void *fetch, int pe, Stream stream);
void wait_until(const char *fn, uint64_t *sig, int cmp, uint64_t value, Stream stream);
void quiet(const char *fn, Stream stream);
int sync(const char *fn, shmem_team_t team, Stream stream);

int move(const char *fn, Collective what, shmem_team_t team, void *dest, const void *source,
         size_t bytes, size_t align, int root, Stream stream);
int alltoalls(const char *fn, shmem_team_t team, void *dest, const void *source, ptrdiff_t dst,
              ptrdiff_t sst, size_t n, size_t unit, size_t align, Stream stream);
int alltoallv(const char *fn, shmem_team_t team, void *dest, const void *source, const Uneven &u,
              size_t align, Stream stream);
int alltoall2d(const char *fn, shmem_team_t team, void *dest, const void *source, const Block2d &b,
               size_t unit, size_t align, Stream stream);
int reduce(const char *fn, Operator op, ElementType type, Shape shape, shmem_team_t team,
           void *dest, const void *source, size_t n, size_t unit, size_t align, Stream stream);

template <class T> uint64_t bits(T v) {
  uint64_t word = 0;
  memcpy(&word, &v, sizeof v);
  return word;
}

} // namespace stream

namespace on_stream {

using stream::Stream;

#define TRANSFER(way, remote, remote_stride, local_stride)                                         \
  template <class T>                                                                               \
  inline void ib##way(const char *fn, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,      \
                      size_t bsize, size_t nblocks, int pe, Stream s) {                            \
    const Blocks b{bsize * sizeof(T), nblocks, uint64_t(remote_stride) * sizeof(T),                \
                   uint64_t(local_stride) * sizeof(T)};                                            \
    stream::transfer(fn, Remote::remote, dest, source, b, sizeof(T), alignof(T), pe, s);           \
  }                                                                                                \
  template <class T>                                                                               \
  inline void i##way(const char *fn, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                     size_t n, int pe, Stream s) {                                                 \
    ib##way(fn, dest, source, dst, sst, 1, n, pe, s);                                              \
  }                                                                                                \
  template <class T>                                                                               \
  inline void way(const char *fn, T *dest, const T *source, size_t n, int pe, Stream s) {          \
    ib##way(fn, dest, source, 1, 1, 1, n, pe, s);                                                  \
  }
TRANSFER(put, dest, dst, sst)
TRANSFER(get, source, sst, dst)
#undef TRANSFER
template <class T> inline void p(const char *fn, T *dest, T value, int pe, Stream s) {
  stream::store(fn, dest, stream::bits(value), sizeof(T), pe, s);
}
template <class T>
inline void put_signal(const char *fn, T *dest, const T *source, size_t n, uint64_t *sig,
                       uint64_t value, int op, int pe, Stream s) {
  stream::put_signal(fn, dest, source, n * sizeof(T), alignof(T), sig, value, op, pe, s);
}
inline void signal_add(const char *fn, uint64_t *sig, uint64_t value, int pe, Stream s) {
  stream::put_signal(fn, nullptr, nullptr, 0, 1, sig, value, SHMEM_SIGNAL_ADD, pe, s);
}
inline void signal_set(const char *fn, uint64_t *sig, uint64_t value, int pe, Stream s) {
  stream::put_signal(fn, nullptr, nullptr, 0, 1, sig, value, SHMEM_SIGNAL_SET, pe, s);
}
inline void signal_wait_until(const char *fn, uint64_t *sig, int cmp, uint64_t value, Stream s) {
  stream::wait_until(fn, sig, cmp, value, s);
}
inline void fence(const char *fn, Stream s) {
  stream::quiet(fn, s);
}
inline void quiet(const char *fn, Stream s) {
  stream::quiet(fn, s);
}

#define ATOMIC(name, op)                                                                           \
  template <class T>                                                                               \
  inline void atomic_fetch_##name(const char *fn, T *fetch, T *dest, T value, int pe, Stream s) {  \
    stream::atomic(fn, Amo::op, dest, sizeof(T), stream::bits(value), 0, fetch, pe, s);            \
  }                                                                                                \
  template <class T>                                                                               \
  inline void atomic_##name(const char *fn, T *dest, T value, int pe, Stream s) {                  \
    stream::atomic(fn, Amo::op, dest, sizeof(T), stream::bits(value), 0, nullptr, pe, s);          \
  }
ATOMIC(add, add)
ATOMIC(and, and_)
ATOMIC(or, or_)
ATOMIC(xor, xor_)
#undef ATOMIC
template <class T> inline void atomic_inc(const char *fn, T *dest, int pe, Stream s) {
  atomic_add(fn, dest, T(1), pe, s);
}
template <class T>
inline void atomic_fetch_inc(const char *fn, T *fetch, T *dest, int pe, Stream s) {
  atomic_fetch_add(fn, fetch, dest, T(1), pe, s);
}
template <class T> inline void atomic_set(const char *fn, T *dest, T value, int pe, Stream s) {
  stream::atomic(fn, Amo::set, dest, sizeof(T), stream::bits(value), 0, nullptr, pe, s);
}
template <class T>
inline void atomic_fetch(const char *fn, T *fetch, const T *source, int pe, Stream s) {
  stream::atomic(fn, Amo::fetch, source, sizeof(T), 0, 0, fetch, pe, s);
}
template <class T>
inline void atomic_swap(const char *fn, T *fetch, T *dest, T value, int pe, Stream s) {
  stream::atomic(fn, Amo::swap, dest, sizeof(T), stream::bits(value), 0, fetch, pe, s);
}
template <class T>
inline void atomic_compare_swap(const char *fn, T *fetch, T *dest, T cond, T value, int pe,
                                Stream s) {
  stream::atomic(fn, Amo::compare_swap, dest, sizeof(T), stream::bits(value), stream::bits(cond),
                 fetch, pe, s);
}

inline void barrier_all(const char *fn, Stream s) {
  stream::sync(fn, SHMEM_TEAM_WORLD, s);
}
inline int team_sync(const char *fn, shmem_team_t team, Stream s) {
  return stream::sync(fn, team, s);
}
template <class T>
inline int broadcast(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,
                     int root, Stream s) {
  return stream::move(fn, Collective::broadcast, team, dest, source, n * sizeof(T), alignof(T),
                      root, s);
}
#define MOVE(name)                                                                                 \
  template <class T>                                                                               \
  inline int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,           \
                  Stream s) {                                                                      \
    return stream::move(fn, Collective::name, team, dest, source, n * sizeof(T), alignof(T), 0,    \
                        s);                                                                        \
  }
MOVE(collect)
MOVE(fcollect)
MOVE(alltoall)
#undef MOVE
template <class T>
inline int alltoalls(const char *fn, shmem_team_t team, T *dest, const T *source, ptrdiff_t dst,
                     ptrdiff_t sst, size_t n, Stream s) {
  return stream::alltoalls(fn, team, dest, source, dst, sst, n, sizeof(T), alignof(T), s);
}

template <class T>
inline int alltoallv(const char *fn, shmem_team_t team, T *dest, size_t *recv_counts,
                     size_t *recv_offsets, size_t capacity, const T *source, const size_t *counts,
                     const size_t *offsets, Stream s) {
  return stream::alltoallv(fn, team, dest, source,
                           {counts, offsets, recv_counts, recv_offsets, capacity, sizeof(T)},
                           alignof(T), s);
}
inline int alltoallv(const char *fn, shmem_team_t team, unsigned char *dest, size_t *recv_counts,
                     size_t *recv_offsets, size_t capacity, const unsigned char *source,
                     const size_t *counts, const size_t *offsets, size_t unit_bytes, Stream s) {
  return stream::alltoallv(fn, team, dest, source,
                           {counts, offsets, recv_counts, recv_offsets, capacity, unit_bytes}, 1,
                           s);
}

template <class T>
inline int alltoall2d(const char *fn, shmem_team_t team, T *dest, const T *source,
                      ptrdiff_t dest_block, ptrdiff_t dest_row, ptrdiff_t source_block,
                      ptrdiff_t source_row, size_t nelems, size_t nrows, Stream s) {
  const auto bytes = [](ptrdiff_t n) { return n * ptrdiff_t(sizeof(T)); };
  return stream::alltoall2d(fn, team, dest, source,
                            {nelems * sizeof(T), nrows, bytes(dest_block), bytes(dest_row),
                             bytes(source_block), bytes(source_row)},
                            sizeof(T), alignof(T), s);
}

#define REDUCTION(name, Op, shape)                                                                 \
  template <class T>                                                                               \
  inline int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,           \
                  Stream s) {                                                                      \
    return stream::reduce(fn, Op::which, type_of<Element<Op, T>>, Shape::shape, team, dest,        \
                          source, n, sizeof(T), alignof(T), s);                                    \
  }
#define REDUCTIONS(name, Op)                                                                       \
  REDUCTION(name##_reduce, Op, all)                                                                \
  REDUCTION(name##_reduce_scatter, Op, scatter)
SHMEM_OPERATORS_(REDUCTIONS)
REDUCTION(sum_inscan, Sum, inscan)
REDUCTION(sum_exscan, Sum, exscan)
#undef REDUCTIONS
#undef REDUCTION

} // namespace on_stream
} // namespace shmem
