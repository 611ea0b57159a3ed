// SPDX-License-Identifier: MIT
// Reductions and scans where dest or source is in device memory: by a kernel over the list of all
// members' arrays, or, for what a kernel does not reach or know, through buffers of the host.
#pragma once
#include "../../device/op.hpp"
#include "../../device/pattern.hpp"
#include "../gpu.hpp"
#include "coll.hpp"
#include <algorithm>
#include <memory>
#include <type_traits>

namespace shmem::coll {

struct Scan : Sum {}; // in the place of an operator

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
  if (from < to) {
    // A kernel reaches device memory only, and knows no more types.
    constexpr bool known = std::is_arithmetic_v<T> && sizeof(T) <= 8;
    constexpr Shape scan[] = {Shape::inscan, Shape::exscan};
    if (!known || !gpu::is_far(dest) || !gpu::is_far(source))
      through_host<Op>(fn, t, dest, source, n, from, to, exclusive);
    else if constexpr (known)
      gpu::combine(Op::which, type_of<Element<Op, T>>,
                   std::is_same_v<Op, Scan> ? scan[exclusive] : Shape::all, t, dest + from,
                   source + from, to - from);
  }
  sync(t); // the results are there
}

} // namespace shmem::coll
