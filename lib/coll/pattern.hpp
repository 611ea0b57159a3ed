// SPDX-License-Identifier: MIT
// Who does what in a collective, as pure functions.
#pragma once
#include <cstddef>

namespace shmem::pattern {

// The k-th peer of member me: each starts with the one behind it, so that not all work on the same
// at once. k = 0 is me.
constexpr int peer(int me, int k, int n) {
  return me + k < n ? me + k : me + k - n;
}

// The part of total elements that member i of n takes. Parts start at multiples of unit, so that no
// two members write to one cache line; the first members get one unit more where it does not divide
// evenly.
struct Range {
  size_t from, to;
};
constexpr Range part(size_t total, size_t unit, int i, int n) {
  size_t units = (total + unit - 1) / unit, each = units / n, more = units % n, k = size_t(i);
  size_t from = (k * each + (k < more ? k : more)) * unit, to = from + (each + (k < more)) * unit;
  return {from < total ? from : total, to < total ? to : total};
}

} // namespace shmem::pattern
