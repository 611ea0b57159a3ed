// SPDX-License-Identifier: MIT
// Fence and quiet, of operations of the calling thread, and of threads that it has met since at a
// barrier after their settle: a cooperative put that blocks ends with one.
#pragma once
#include "ring.hpp"
#include "scope.hpp"

namespace shmem::device {

// Orders this thread's earlier stores before its later ones.
template <class C> SHMEM_D_ void fence([[maybe_unused]] const char *fn, C, Thread) {
  if constexpr (ring_built) ring::fence(fn);
  arch::fence_release();
}
// Orders this thread's earlier stores before its later loads as well: of a put, quiet and a get
// here and at a peer, at least one get sees the other's put.
template <class C> SHMEM_D_ void quiet([[maybe_unused]] const char *fn, C, Thread) {
  if constexpr (ring_built) ring::quiet(fn);
  arch::fence_all();
}
template <class C> SHMEM_D_ void pe_quiet(const char *fn, C c, const int *pes, size_t n, Thread) {
  for (size_t i = 0; i < n; i++) at(fn, "target_pes", "", 0, world_pe(c, pes[i]));
  if constexpr (ring_built) ring::quiet(fn);
  arch::fence_all();
}

} // namespace shmem::device
