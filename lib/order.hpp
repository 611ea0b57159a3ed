// SPDX-License-Identifier: MIT
// Fence and quiet. Every operation on a mapped peer is an access of this thread, or of a thread
// that the program has synchronized with this one.
#pragma once
#include "address.hpp"
#include "log.hpp"
#include <vector>

namespace shmem {

namespace api {

inline void check_order(const char *fn, World) {
  check_ready(fn);
}
inline void check_order(const char *fn, shmem_ctx_t ctx) {
  if (ctx != SHMEM_CTX_INVALID) check_context(fn, ctx); // on no context, fence and quiet do nothing
}

// For self.careful: waits for the GPU's copies. Stores to the GPU's memory may be combined on the
// way, until a full fence.
template <class C> [[gnu::cold, gnu::noinline]] void complete(const char *fn, C c) {
  if (self.check) check_order(fn, c);
  finish(created(c));
  full_fence();
}

// Orders this thread's earlier stores before its later ones.
template <class C> inline void fence(const char *fn, C c) {
  if (self.careful) return complete(fn, c);
  release_fence();
}
// Orders this thread's earlier stores before its later loads as well: of a put, quiet and a get
// here and at a peer, at least one get sees the other's put.
template <class C> inline void quiet(const char *fn, C c) {
  if (self.careful) return complete(fn, c);
  full_fence();
}

inline int team_size(World) {
  return self.n;
}
inline int team_size(shmem_ctx_t ctx) {
  return ctx == SHMEM_CTX_INVALID   ? 0
         : ctx == SHMEM_CTX_DEFAULT ? self.n
                                    : context_of(ctx)->team->n;
}
// Waits for the GPU's copies to any PE; for operations at remote PEs, only at these PEs.
template <class C>
[[gnu::cold, gnu::noinline]] void complete_at(const char *fn, C c, const int *pes, size_t n) {
  if (self.check) check_order(fn, c);
  const int size = team_size(c);
  std::vector<int> far;
  for (size_t i = 0; i < n && size; i++) {
    if (self.check && unsigned(pes[i]) >= unsigned(size))
      fatal("%s: target_pes[%zu] = %d: PEs are 0 to %d", fn, i, pes[i], size - 1);
    if (const int pe = plain_rank(c, pes[i]); local_of(pe) < 0) far.push_back(pe);
  }
  finish_at(far.data(), far.size(), created(c));
  full_fence();
}
template <class C> inline void pe_quiet(const char *fn, C c, const int *target_pes, size_t npes) {
  if (self.careful) return complete_at(fn, c, target_pes, npes);
  full_fence();
}

} // namespace api
} // namespace shmem
