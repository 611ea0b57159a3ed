// SPDX-License-Identifier: MIT
// The types of products, by their names in products.
#pragma once
#include "../number.hpp"

namespace shmem::gemm {

using shmem::Half, shmem::Bfloat16, shmem::Float8, shmem::to_float, shmem::from_float;

// Rounds eight at once. Platforms that have instructions for it specialize this.
template <class T> struct Rounding {
  static SHMEM_D_ void of(const float (&v)[8], T (&to)[8]) {
    SHMEM_UNROLL_
    for (unsigned e = 0; e < 8; e++) to[e] = from_float<T>(v[e]);
  }
};

} // namespace shmem::gemm
