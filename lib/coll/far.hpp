// SPDX-License-Identifier: MIT
// Reductions and scans where dest or source is in device memory: by the collective of streams, or, for
// what a kernel does not reach or know, through buffers of the host.
#pragma once
#include "../../device/op.hpp"
#include "../../device/pattern.hpp"
#include "../gpu.hpp"
#include "coll.hpp"
#include <algorithm>
#include <memory>
#include <type_traits>

namespace shmem::coll {

struct Scan; // in the place of an operator

// What kernels combine as the host does. They have no long double, and of complex products not the C
// standard's care of infinities.
template <class Op, class T>
inline constexpr bool gpu_combines =
    !std::is_same_v<T, long double> &&
    !(std::is_same_v<Op, Prod> &&
      (std::is_same_v<T, shmem_complexf_> || std::is_same_v<T, shmem_complexd_>));

// Whether all of it is done: by the collective of streams, on one of the team's own, where both arrays
// are the GPU's. queue(team, stream) queues it. The members meet before it on the host, where a PE
// that never comes is found and one that comes late costs no GPU anything. The predefined team of the
// node is the world there, whose room is not to be used by two at once.
template <class F>
[[gnu::cold, gnu::noinline]] bool queue_and_wait(Team &t, const void *dest, const void *source,
                                                 F queue) {
  if (!gpu::is_far(dest) || !gpu::is_far(source)) return false;
  if (t.n == 1 || t.id >= gpu::channels().teams || &t == self.shared) return false;
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

// This member's part, from b, of m elements at a time.
inline constexpr size_t far_block = 256 << 10;

template <class Op, class T>
void through_host(const char *fn, Team &t, T *dest, const T *source, size_t n, size_t from,
                  size_t to, bool exclusive) {
  const size_t step = far_block / sizeof(T), room = std::min(step, to - from);
  std::unique_ptr<T[]> acc(new T[room]), in(new T[room]);
  for (size_t b = from; b < to; b += step) {
    const size_t m = std::min(step, to - b), bytes = m * sizeof(T);
    auto theirs = [&](int i) { return at(fn, "source", source, n, t.pe(i)) + b; };
    auto push = [&](int i) { copy(at(fn, "dest", dest, n, t.pe(i)) + b, acc.get(), bytes); };
    if constexpr (std::is_same_v<Op, Scan>) {
      for (size_t k = 0; k < m; k++) acc[k] = T{};
      for (int i = 0; i < t.n; i++) {
        copy(in.get(), theirs(i), bytes); // before dest, which may be it
        if (exclusive) push(i);
        for (size_t k = 0; k < m; k++) acc[k] = Sum::op(acc[k], in[k]);
        if (!exclusive) push(i);
      }
    } else {
      copy(acc.get(), theirs(0), bytes);
      for (int i = 1; i < t.n; i++) {
        copy(in.get(), theirs(i), bytes);
        for (size_t k = 0; k < m; k++) acc[k] = Op::op(acc[k], in[k]);
      }
      for (int k = 0; k < t.n; k++) push(pattern::peer(t.me, k, t.n));
    }
  }
}

template <class Op, class T>
[[gnu::cold, gnu::noinline]] void combine_far(const char *fn, Team &t, T *dest, const T *source,
                                              size_t n, bool exclusive = false) {
  constexpr size_t unit = sizeof(T) < line ? line / sizeof(T) : 1;
  auto [from, to] = pattern::part(n, unit, t.me, t.n);
  sync(t); // the sources are ready
  if (from < to) through_host<Op>(fn, t, dest, source, n, from, to, exclusive);
  sync(t); // the results are there
}

} // namespace shmem::coll
