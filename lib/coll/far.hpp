// SPDX-License-Identifier: MIT
// Reductions and scans where dest or source is in device memory: by a kernel over the list of all
// members' arrays, or, for what a kernel does not reach or know, through buffers of the host.
#pragma once
#include "../../device/op.hpp"
#include "../gpu.hpp"
#include "coll.hpp"
#include "pattern.hpp"
#include <algorithm>
#include <bit>
#include <memory>
#include <type_traits>

namespace shmem::coll {

// As kernels know it, or -1. Bits and sums of signed integers are those of unsigned ones.
template <class T> constexpr int kernel_type() {
  if constexpr (std::is_integral_v<T>)
    return 2 * std::countr_zero(sizeof(T)) + std::is_unsigned_v<T>;
  if (std::is_same_v<T, float>) return 8;
  if (std::is_same_v<T, double>) return 9;
  return -1;
}

struct Scan; // in the place of an operator
template <class Op> constexpr int kernel_op(bool exclusive) {
  using std::is_same_v;
  return is_same_v<Op, And>    ? 0
         : is_same_v<Op, Or>   ? 1
         : is_same_v<Op, Xor>  ? 2
         : is_same_v<Op, Max>  ? 3
         : is_same_v<Op, Min>  ? 4
         : is_same_v<Op, Sum>  ? 5
         : is_same_v<Op, Prod> ? 6
                               : 7 + exclusive;
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
  constexpr int op_of_bits = 2, known = kernel_type<T>();
  const int op = kernel_op<Op>(exclusive), type = op <= op_of_bits ? known | 1 : known;
  auto [from, to] = pattern::part(n, unit, t.me, t.n);
  sync(t); // the sources are ready
  if (from < to) {
    // A kernel reaches device memory only.
    if (type >= 0 && gpu::is_far(dest) && gpu::is_far(source))
      gpu::combine(op, type, t, dest + from, source + from, to - from);
    else
      through_host<Op>(fn, t, dest, source, n, from, to, exclusive);
  }
  sync(t); // the results are there
}

} // namespace shmem::coll
