// SPDX-License-Identifier: MIT
// Reductions and scans. Every element is combined once, in the order of the members, by one of
// them: the result has the same bits on every PE and in every run.
#pragma once
#include "../../device/op.hpp"
#include "../../device/pattern.hpp"
#include "../stream.hpp"
#include "coll.hpp"
#include "far.hpp"

namespace shmem {

namespace coll {

// Up to this size everyone combines all sources for itself: one exchange. Above, each combines a
// part for all: two barriers, but less to read from others (2 PEs, EPYC, 2026-11: 2 KiB staged 525
// ns, 8 KiB in parts 446).
inline constexpr size_t staged_bytes = 1024;

// A block that a member combines at a time: fits the first-level cache with the operands.
inline constexpr size_t block_bytes = 4096;

template <class Op, class T>
inline void combine(T *__restrict acc, const T *__restrict in, size_t n) {
  for (size_t i = 0; i < n; i++) acc[i] = Op::op(acc[i], in[i]);
}

// Small: everyone combines all sources for itself.
template <class Op, class T> void reduce_staged(Team &t, T *dest, const T *source, size_t n) {
  T here[staged_bytes / sizeof(T)], *acc = gpu::is_far(dest) ? here : dest;
  exchange_data(t, source, n, [=](int i, const T *in) {
    if (i == 0)
      copy(acc, in, n * sizeof(T));
    else
      combine<Op>(acc, in, n);
  });
  if (acc == here) copy(dest, here, n * sizeof(T));
}

// Large: each combines its part straight from the sources and pushes the result to all. In place is
// fine: nobody but this member reads this part of any source.
template <class Op, class T>
void reduce_parts(const char *fn, Team &t, T *dest, const T *source, size_t n) {
  sync(t); // the sources are ready
  constexpr size_t step = block_bytes / sizeof(T);
  T acc[step];
  auto [from, to] = pattern::part(n, step < 64 ? step : 64, t.me, t.n);
  for (size_t b = from; b < to; b += step) {
    size_t m = to - b < step ? to - b : step;
    memcpy(static_cast<void *>(acc), at(fn, "source", source, n, t.pe(0)) + b, m * sizeof(T));
    for (int i = 1; i < t.n; i++) combine<Op>(acc, at(fn, "source", source, n, t.pe(i)) + b, m);
    for (int k = 0; k < t.n; k++)
      copy(at(fn, "dest", dest, n, t.pe(pattern::peer(t.me, k, t.n))) + b, acc, m * sizeof(T));
  }
  sync(t); // the results are there
}

// queue: the same on a stream.
template <class Op, class T, class F>
void reduce(const char *fn, Team &t, T *dest, const T *source, size_t n, F queue) {
  if (self.check) check(fn, dest, n * sizeof(T), source, n * sizeof(T), alignof(T), true);
  if (t.n == 1) {
    if (dest != source) copy(dest, source, n * sizeof(T));
  } else if (by_gpu<Op>(t, dest, source, n, queue)) {
    return;
  } else if (n * sizeof(T) <= staged_bytes) {
    reduce_staged<Op>(t, dest, source, n);
  } else if (gpu::is_far(dest) || gpu::is_far(source)) {
    combine_far<Op>(fn, t, dest, source, n);
  } else {
    reduce_parts<Op>(fn, t, dest, source, n);
  }
}

template <class T, class F>
void scan(const char *fn, Team &t, T *dest, const T *source, size_t n, bool exclusive, F queue) {
  if (self.check) check(fn, dest, n * sizeof(T), source, n * sizeof(T), alignof(T), true);
  if (by_gpu<Scan>(t, dest, source, n, queue)) return;
  constexpr size_t step = block_bytes / sizeof(T);
  T acc[step], in[step];
  const bool far = gpu::is_far(dest) || gpu::is_far(source);
  if (n * sizeof(T) <= staged_bytes) {
    T *to = far ? acc : dest;
    exchange_data(t, source, n, [=, &t](int i, const T *in) {
      if (i == 0)
        for (size_t k = 0; k < n; k++) to[k] = T{};
      if (i < t.me + !exclusive) combine<Sum>(to, in, n);
    });
    if (far) copy(dest, acc, n * sizeof(T));
    return;
  }
  if (far) return combine_far<Scan>(fn, t, dest, source, n, exclusive);
  sync(t);
  auto [from, to] = pattern::part(n, step < 64 ? step : 64, t.me, t.n);
  for (size_t b = from; b < to; b += step) {
    size_t m = to - b < step ? to - b : step;
    for (size_t i = 0; i < m; i++) acc[i] = T{};
    for (int i = 0; i < t.n; i++) {
      T *d = at(fn, "dest", dest, n, t.pe(i)) + b;
      memcpy(static_cast<void *>(in), at(fn, "source", source, n, t.pe(i)) + b,
             m * sizeof(T)); // before d, which may be it
      if (exclusive) copy(d, acc, m * sizeof(T));
      combine<Sum>(acc, in, m);
      if (!exclusive) copy(d, acc, m * sizeof(T));
    }
  }
  sync(t);
}

} // namespace coll

namespace api {

#define REDUCTION(name, Op)                                                                        \
  template <class T>                                                                               \
  inline auto name##_queued(const char *fn, T *dest, const T *source, size_t n) {                  \
    return [=](shmem_team_t team, auto stream) {                                                   \
      on_stream::name##_reduce(fn, team, dest, source, n, stream);                                 \
    };                                                                                             \
  }                                                                                                \
  template <class T>                                                                               \
  inline int name##_reduce(const char *fn, shmem_team_t team, T *dest, const T *source,            \
                           size_t n) {                                                             \
    coll::reduce<Op>(fn, need_team(fn, "team", team), dest, source, n,                             \
                     name##_queued(fn, dest, source, n));                                          \
    return 0;                                                                                      \
  }                                                                                                \
  template <class T>                                                                               \
  inline void name##_to_all(const char *fn, T *dest, const T *source, int n, int start,            \
                            int log_stride, int size, T *, long *psync) {                          \
    const size_t count = n > 0 ? size_t(n) : 0;                                                    \
    if (Team *t = active_set(fn, start, log_stride, size, psync))                                  \
      coll::reduce<Op>(fn, *t, dest, source, count, name##_queued(fn, dest, source, count));       \
  }
SHMEM_OPERATORS_(REDUCTION)
#undef REDUCTION

template <class T>
inline int sum_inscan(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n) {
  coll::scan(fn, need_team(fn, "team", team), dest, source, n, false,
             [=](shmem_team_t at, auto stream) {
               on_stream::sum_inscan(fn, at, dest, source, n, stream);
             });
  return 0;
}
template <class T>
inline int sum_exscan(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n) {
  coll::scan(fn, need_team(fn, "team", team), dest, source, n, true,
             [=](shmem_team_t at, auto stream) {
               on_stream::sum_exscan(fn, at, dest, source, n, stream);
             });
  return 0;
}

} // namespace api
} // namespace shmem
