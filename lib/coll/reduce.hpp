// SPDX-License-Identifier: MIT
// Reductions and scans. Every element is combined once, in the order of the members, by one of
// them: the result has the same bits on every PE and in every run. Arrays in device memory are
// reduced on a stream, and waited for; those that a kernel does not reach, and types it does not
// know, go through buffers of the host.
#pragma once
#include "../../device/op.hpp"
#include "../../device/pattern.hpp"
#include "../stream.hpp"
#include "coll.hpp"
#include <memory>
#include <type_traits>

namespace shmem {

namespace coll {

// The types and operators that kernels combine as the host does. Kernels have no long double, and
// in complex products not the C standard's care of infinities.
template <class Op, class T>
inline constexpr bool gpu_combines =
    !std::is_same_v<T, long double> &&
    !(std::is_same_v<Op, Prod> &&
      (std::is_same_v<T, shmem_complexf_> || std::is_same_v<T, shmem_complexd_>));

// Whether the GPU has done it: see team_stream.
template <class Op, class T>
[[gnu::cold, gnu::noinline]] bool reduce_device_only(const char *fn, Team &t, T *dest,
                                                     const T *source, size_t n, Shape shape) {
  if constexpr (gpu_combines<Op, T>)
    if (const stream::Stream own = n ? team_stream(t, dest, source, n) : nullptr) {
      stream::reduce(fn, Op::which, type_of<Element<Op, T>>, shape, handle_of(t), dest, source, n,
                     sizeof(T), alignof(T), own);
      gpu::wait(own);
      return true;
    }
  return false;
}

// Up to this size every member combines all sources: one exchange. Above, each combines a part for
// all: two barriers, but fewer bytes to read from others (2 PEs, EPYC, 2026-11: 2 KiB staged 525
// ns, 8 KiB in parts 446).
inline constexpr size_t staged_bytes = 1024;

// The bytes that a member combines at a time: with the operands they fit the first-level cache. For
// device memory they are worth a copy by the GPU, which takes microseconds to start.
inline constexpr size_t block_bytes = 4096, device_block_bytes = 256 << 10;

template <class Op, class T>
inline void combine(T *__restrict acc, const T *__restrict in, size_t n) {
  for (size_t i = 0; i < n; i++) acc[i] = Op::op(acc[i], in[i]);
}

// Takes what member i gives into the result of member me, in the order of the members.
template <class Op, Shape shape, class T>
inline void take(T *acc, const T *in, size_t n, int i, int me) {
  if constexpr (shape == Shape::all) {
    if (i == 0) return copy(acc, in, n * sizeof(T));
  } else {
    for (size_t k = 0; k < n && i == 0; k++) acc[k] = T{};
    if (i >= me + (shape == Shape::inscan)) return;
  }
  combine<Op>(acc, in, n);
}

// Small: every member combines all sources.
template <class Op, Shape shape, class T>
void reduce_staged(Team &t, T *dest, const T *source, size_t n) {
  T here[staged_bytes / sizeof(T)], *acc = gpu::is_device_only(dest) ? here : dest;
  exchange_data(t, source, n,
                [=, me = t.me](int i, const T *in) { take<Op, shape>(acc, in, n, i, me); });
  if (acc == here) copy(dest, here, n * sizeof(T));
}

// Large: each combines a part for all, from the sources, and pushes the results. In place is fine:
// only this member reads this part of any source.
template <class Op, Shape shape, class T>
void combine_parts(const char *fn, Team &t, T *dest, const T *source, size_t n) {
  constexpr bool scan = shape != Shape::all;
  constexpr size_t block = block_bytes / sizeof(T);
  const bool device_only = gpu::is_device_only(dest, source);
  const size_t step = device_only ? device_block_bytes / sizeof(T) : block;
  T here[scan ? 2 * block : block];
  const std::unique_ptr<T[]> large(device_only ? new T[2 * step] : nullptr);
  T *const acc = device_only ? large.get() : here, *const in = acc + step;
  sync(t); // the sources are ready
  auto [from, to] = pattern::part(n, block < 64 ? block : 64, t.me, t.n);
  for (size_t b = from; b < to; b += step) {
    const size_t m = to - b < step ? to - b : step;
    auto theirs = [&](int i) { return at(fn, "source", source, n, t.pe(i)) + b; };
    // No thread waits on these buffers, so memcpy does where the CPU reaches the source.
    auto fetch = [&](T *to, int i) {
      if (device_only)
        copy(to, theirs(i), m * sizeof(T));
      else
        memcpy(static_cast<void *>(to), theirs(i), m * sizeof(T));
    };
    auto push = [&](int i) { copy(at(fn, "dest", dest, n, t.pe(i)) + b, acc, m * sizeof(T)); };
    if constexpr (scan) {
      for (size_t k = 0; k < m; k++) acc[k] = T{};
      for (int i = 0; i < t.n; i++) {
        fetch(in, i); // before dest, which may be it
        if (shape == Shape::exscan) push(i);
        combine<Op>(acc, in, m);
        if (shape == Shape::inscan) push(i);
      }
    } else {
      fetch(acc, 0);
      for (int i = 1; i < t.n; i++) {
        if (device_only) fetch(in, i);
        combine<Op>(acc, device_only ? in : theirs(i), m);
      }
      for (int k = 0; k < t.n; k++) push(pattern::peer(t.me, k, t.n));
    }
  }
  sync(t); // the results are there
}

// On several nodes. Small: every member combines the sources of all.
template <class Op, Shape shape, class T>
void combine_nodes(const char *fn, Team &t, T *dest, const T *source, size_t n) {
  const size_t nodes = t.nodes->parts.size();
  const tune::Between by =
      tune::choose_between(shape == Shape::all ? Collective::reduce : Collective::scan, int(nodes),
                           size_t(t.n) * n * sizeof(T) / nodes);
  if (by.way == tune::Route::chain || n * sizeof(T) > stage_bytes) {
    const T zero{};
    return combine_chain(fn, t, dest, source, n,
                         {sizeof(T),
                          [](void *acc, const void *in, size_t m) {
                            combine<Op>(static_cast<T *>(acc), static_cast<const T *>(in), m);
                          }},
                         shape, &zero, by);
  }
  const std::unique_ptr<T[]> all(new T[size_t(t.n + 1) * n]);
  T *const acc = all.get() + size_t(t.n) * n; // the CPU may not reach dest
  exchange_nodes(t, source, n * sizeof(T), all.get());
  for (int i = 0; i < t.n; i++) take<Op, shape>(acc, all.get() + size_t(i) * n, n, i, t.me);
  if (n) copy(dest, acc, n * sizeof(T));
}

template <class Op, Shape shape = Shape::all, class T>
void reduce(const char *fn, Team &t, T *dest, const T *source, size_t n) {
  if (self.check) check_arrays(fn, dest, n * sizeof(T), source, n * sizeof(T), alignof(T), true);
  if constexpr (net::built)
    if (t.nodes) return combine_nodes<Op, shape>(fn, t, dest, source, n);
  if (shape == Shape::all && t.n == 1) {
    if (dest != source) copy(dest, source, n * sizeof(T));
  } else if (self.device_only && reduce_device_only<Op>(fn, t, dest, source, n, shape)) {
    return;
  } else if (n * sizeof(T) <= staged_bytes) {
    reduce_staged<Op, shape>(t, dest, source, n);
  } else {
    combine_parts<Op, shape>(fn, t, dest, source, n);
  }
}

} // namespace coll

namespace api {

#define REDUCTION(name, Op)                                                                        \
  template <class T>                                                                               \
  inline int name##_reduce(const char *fn, shmem_team_t team, T *dest, const T *source,            \
                           size_t n) {                                                             \
    coll::reduce<Op>(fn, need_team(fn, "team", team), dest, source, n);                            \
    return 0;                                                                                      \
  }                                                                                                \
  template <class T>                                                                               \
  inline void name##_to_all(const char *fn, T *dest, const T *source, int n, int start,            \
                            int log_stride, int size, T *, long *psync) {                          \
    if (Team *t = active_set(fn, start, log_stride, size, psync))                                  \
      coll::reduce<Op>(fn, *t, dest, source, n > 0 ? size_t(n) : 0);                               \
  }
SHMEM_OPERATORS_(REDUCTION)
#undef REDUCTION

#define SCAN(name, shape)                                                                          \
  template <class T>                                                                               \
  inline int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n) {         \
    coll::reduce<Sum, Shape::shape>(fn, need_team(fn, "team", team), dest, source, n);             \
    return 0;                                                                                      \
  }
SCAN(sum_inscan, inscan)
SCAN(sum_exscan, exscan)
#undef SCAN

} // namespace api
} // namespace shmem
