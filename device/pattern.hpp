// SPDX-License-Identifier: MIT
// The members' parts of a collective, as pure functions, for host and kernels.
#pragma once
#include "arch.hpp"
#include <cstddef>

namespace shmem::pattern {

// The k-th peer of member me: each starts with the one behind it, so that not all work on the same
// at once. k = 0 is me, and so is k = n.
SHMEM_HD_ constexpr int peer(int me, int k, int n) {
  return me + k < n ? me + k : me + k - n;
}

// The part of total elements that the i-th of n takes. Parts are multiples of unit, so that no two
// write to one cache line, but for the last; where it does not divide evenly, the last ones get
// less.
struct Extent {
  size_t from, to;
};
SHMEM_HD_ constexpr Extent part(Extent of, size_t unit, unsigned i, unsigned n) {
  const size_t units = (of.to - of.from + unit - 1) / unit, each = (units + n - 1) / n * unit,
               from = of.from + i * each, to = from + each;
  return {from < of.to ? from : of.to, to < of.to ? to : of.to};
}
SHMEM_HD_ constexpr Extent part(size_t total, size_t unit, unsigned i, unsigned n) {
  return part(Extent{0, total}, unit, i, n);
}

} // namespace shmem::pattern
