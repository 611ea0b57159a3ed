// SPDX-License-Identifier: MIT
// Reductions and scans. Every element is combined once, in the order of the members, by one of
// them: the result has the same bits on every PE and in every run. Those of arrays in device memory
// are the stream's, waited for; what a kernel does not reach or know goes through buffers of the
// host.
#pragma once
#include "../../device/op.hpp"
#include "../../device/pattern.hpp"
#include "../stream.hpp"
#include "coll.hpp"
#include <memory>
#include <type_traits>

namespace shmem {

namespace coll {

struct Scan; // in the place of an operator

// What kernels combine as the host does. They have no long double, and of complex products not the
// C standard's care of infinities.
template <class Op, class T>
inline constexpr bool gpu_combines =
    !std::is_same_v<T, long double> &&
    !(std::is_same_v<Op, Prod> &&
      (std::is_same_v<T, shmem_complexf_> || std::is_same_v<T, shmem_complexd_>));

// Whether all of it is done: by the collective of streams, on one of the team's own, where both
// arrays are the GPU's. queue(team, stream) queues it. The members meet before it on the host,
// where a PE that never comes is found and one that comes late costs no GPU anything. The
// predefined team of the node is the world there, whose room is not to be used by two at once.
template <class F>
[[gnu::cold, gnu::noinline]] bool queue_and_wait(Team &t, const void *dest, const void *source,
                                                 F queue) {
  if (!gpu::is_far(dest) || !gpu::is_far(source)) return false;
  if (t.n == 1 || t.id >= gpu::channels().teams || &t == self.shared || t.nodes) return false;
  sync(t);
  shmemx_stream_t stream = gpu::team_stream(t.id);
  queue(handle_of(t), stream);
  gpu::wait(stream);
  return true;
}
template <class Op, class T, class F>
inline bool by_gpu(Team &t, T *dest, const T *source, size_t n, F queue) {
  if constexpr (gpu_combines<Op, T>)
    if (self.far && n) [[unlikely]]
      return queue_and_wait(t, dest, source, queue);
  return false;
}

// Up to this size everyone combines all sources for itself: one exchange. Above, each combines a
// part for all: two barriers, but less to read from others (2 PEs, EPYC, 2026-11: 2 KiB staged 525
// ns, 8 KiB in parts 446).
inline constexpr size_t staged_bytes = 1024;

// What a member combines at a time: fits the first-level cache with the operands. Of device memory
// it is what a copy by the GPU, which takes microseconds to start, is worth.
inline constexpr size_t block_bytes = 4096, far_block_bytes = 256 << 10;

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

// Large: each combines a part for all, from the sources, and pushes the results. In place is fine:
// nobody but this member reads this part of any source.
template <class Op, class T>
void combine_parts(const char *fn, Team &t, T *dest, const T *source, size_t n,
                   bool exclusive = false) {
  constexpr bool scan = std::is_same_v<Op, Scan>;
  constexpr size_t block = block_bytes / sizeof(T);
  const bool far = gpu::is_far(dest) || gpu::is_far(source) || (net::built && t.nodes);
  const size_t step = far ? far_block_bytes / sizeof(T) : block;
  T here[scan ? 2 * block : block];
  const std::unique_ptr<T[]> large(far ? new T[2 * step] : nullptr);
  T *const acc = far ? large.get() : here, *const in = acc + step;
  sync(t); // the sources are ready
  auto [from, to] = pattern::part(n, block < 64 ? block : 64, t.me, t.n);
  for (size_t b = from; b < to; b += step) {
    const size_t m = to - b < step ? to - b : step;
    auto theirs = [&](int i) { return at(fn, "source", source, n, t.pe(i)) + b; };
    // Nobody waits on these buffers, so memcpy does where the CPU reaches the source.
    auto fetch = [&](T *to, int i) {
      if constexpr (net::built)
        if (local_of(t.pe(i)) < 0)
          return net::get(to, {source + b, t.pe(i)}, {m * sizeof(T)}, false);
      if (far)
        copy(to, theirs(i), m * sizeof(T));
      else
        memcpy(static_cast<void *>(to), theirs(i), m * sizeof(T));
    };
    auto push = [&](int i) {
      if constexpr (net::built)
        if (local_of(t.pe(i)) < 0)
          return net::put({dest + b, t.pe(i)}, acc, {m * sizeof(T)}, false);
      copy(at(fn, "dest", dest, n, t.pe(i)) + b, acc, m * sizeof(T));
    };
    if constexpr (scan) {
      for (size_t k = 0; k < m; k++) acc[k] = T{};
      for (int i = 0; i < t.n; i++) {
        fetch(in, i); // before dest, which may be it
        if (exclusive) push(i);
        combine<Sum>(acc, in, m);
        if (!exclusive) push(i);
      }
    } else {
      fetch(acc, 0);
      for (int i = 1; i < t.n; i++) {
        if (far) fetch(in, i);
        combine<Op>(acc, far ? in : theirs(i), m);
      }
      for (int k = 0; k < t.n; k++) push(pattern::peer(t.me, k, t.n));
    }
  }
  arrive(t); // the results are there
}

// On several nodes. Small: everyone combines what all have told, in the order of the members.
template <class Op, class T>
void combine_nodes(const char *fn, Team &t, T *dest, const T *source, size_t n,
                   bool exclusive = false) {
  if (n * sizeof(T) > staged_bytes) return combine_parts<Op>(fn, t, dest, source, n, exclusive);
  const std::unique_ptr<T[]> all(new T[size_t(t.n) * n]);
  exchange_nodes(t, source, n * sizeof(T), all.get());
  T acc[staged_bytes / sizeof(T)];
  if constexpr (std::is_same_v<Op, Scan>) {
    for (size_t k = 0; k < n; k++) acc[k] = T{};
    for (int i = 0; i < t.me + !exclusive; i++) combine<Sum>(acc, &all[size_t(i) * n], n);
  } else {
    for (size_t k = 0; k < n; k++) acc[k] = all[k];
    for (int i = 1; i < t.n; i++) combine<Op>(acc, &all[size_t(i) * n], n);
  }
  copy(dest, acc, n * sizeof(T));
}

// queue: the same on a stream.
template <class Op, class T, class F>
void reduce(const char *fn, Team &t, T *dest, const T *source, size_t n, F queue) {
  if (self.check) check(fn, dest, n * sizeof(T), source, n * sizeof(T), alignof(T), true);
  if constexpr (net::built)
    if (t.nodes) return combine_nodes<Op>(fn, t, dest, source, n);
  if (t.n == 1) {
    if (dest != source) copy(dest, source, n * sizeof(T));
  } else if (by_gpu<Op>(t, dest, source, n, queue)) {
    return;
  } else if (n * sizeof(T) <= staged_bytes) {
    reduce_staged<Op>(t, dest, source, n);
  } else {
    combine_parts<Op>(fn, t, dest, source, n);
  }
}

template <class T, class F>
void scan(const char *fn, Team &t, T *dest, const T *source, size_t n, bool exclusive, F queue) {
  if (self.check) check(fn, dest, n * sizeof(T), source, n * sizeof(T), alignof(T), true);
  if (by_gpu<Scan>(t, dest, source, n, queue)) return;
  if constexpr (net::built)
    if (t.nodes) return combine_nodes<Scan>(fn, t, dest, source, n, exclusive);
  if (n * sizeof(T) > staged_bytes) return combine_parts<Scan>(fn, t, dest, source, n, exclusive);
  T here[staged_bytes / sizeof(T)], *acc = gpu::is_far(dest) ? here : dest;
  exchange_data(t, source, n, [=, &t](int i, const T *in) {
    if (i == 0)
      for (size_t k = 0; k < n; k++) acc[k] = T{};
    if (i < t.me + !exclusive) combine<Sum>(acc, in, n);
  });
  if (acc == here) copy(dest, here, n * sizeof(T));
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

#define SCAN(name, exclusive)                                                                      \
  template <class T>                                                                               \
  inline int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n) {         \
    coll::scan(                                                                                    \
        fn, need_team(fn, "team", team), dest, source, n, exclusive,                               \
        [=](shmem_team_t at, auto stream) { on_stream::name(fn, at, dest, source, n, stream); });  \
    return 0;                                                                                      \
  }
SCAN(sum_inscan, false)
SCAN(sum_exscan, true)
#undef SCAN

} // namespace api
} // namespace shmem
