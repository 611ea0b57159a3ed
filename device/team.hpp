// SPDX-License-Identifier: MIT
// Queries of teams and PEs.
#pragma once
#include "address.hpp"
#include "scope.hpp"

namespace shmem::device {

SHMEM_D_ int my_pe(const char *, Thread) {
  return state.me;
}
SHMEM_D_ int n_pes(const char *, Thread) {
  return state.n;
}
SHMEM_D_ int pe_accessible(const char *, int pe, Thread) {
  return unsigned(pe) < unsigned(state.n);
}
SHMEM_D_ void *ptr(const char *, const void *dest, int pe, Thread) {
  const uintptr_t p = reinterpret_cast<uintptr_t>(dest);
  if (unsigned(pe) >= unsigned(state.n)) return nullptr;
  if (is_remote(pe)) return nullptr;
  if (const unsigned row = row_of(dest); row != heap_row) {
    const uintptr_t delta = delta_in(row, unsigned(pe));
    return delta & closer
               ? nullptr
               : reinterpret_cast<void *>(p + (arch::keeps_peers ? delta & ~coarse : delta));
  }
  return on_heap(dest) ? reinterpret_cast<void *>(p + (state.heap_delta(pe) & ~tags)) : nullptr;
}
SHMEM_D_ int addr_accessible(const char *, const void *addr, int pe, Thread) {
  if (unsigned(pe) >= unsigned(state.n)) return 0;
  const unsigned row = row_of(addr);
  return row == heap_row ? on_heap(addr) : !(delta_in(row, unsigned(pe)) & closer);
}
SHMEM_D_ int team_my_pe(const char *, shmem_team_t team, Thread) {
  return team == SHMEM_TEAM_INVALID ? -1 : team_of(team_id(team)).me;
}
SHMEM_D_ int team_n_pes(const char *, shmem_team_t team, Thread) {
  return team == SHMEM_TEAM_INVALID ? -1 : team_of(team_id(team)).n;
}
SHMEM_D_ int team_translate_pe(const char *, shmem_team_t src_team, int src_pe,
                               shmem_team_t dest_team, Thread) {
  if (src_team == SHMEM_TEAM_INVALID || dest_team == SHMEM_TEAM_INVALID) return -1;
  const Team from = team_of(team_id(src_team)), to = team_of(team_id(dest_team));
  if (unsigned(src_pe) >= unsigned(from.n)) return -1;
  const int pe = pe_of(from, src_pe);
  if (!to.stride) {
    for (int i = 0; i < to.n; i++)
      if (pe_of(to, i) == pe) return i;
    return -1;
  }
  const int d = pe - to.start;
  return d % to.stride == 0 && d / to.stride >= 0 && d / to.stride < to.n ? d / to.stride : -1;
}
SHMEM_D_ void *team_ptr(const char *fn, shmem_team_t team, const void *dest, int pe, Thread t) {
  if (team == SHMEM_TEAM_INVALID) return nullptr;
  const Team of = team_of(team_id(team));
  return unsigned(pe) < unsigned(of.n) ? ptr(fn, dest, pe_of(of, pe), t) : nullptr;
}
SHMEM_D_ void info_get_version(const char *, int *major, int *minor, Thread) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}
SHMEM_D_ void info_get_name(const char *, char *name, Thread) {
  copy_text(name, SHMEM_MAX_NAME_LEN, SHMEM_VENDOR_STRING);
}

} // namespace shmem::device
