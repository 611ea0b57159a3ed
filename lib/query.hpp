// SPDX-License-Identifier: MIT
#pragma once
#include "address.hpp"
#include "memory/buffer.hpp"
#include <cstring>

namespace shmem::api {

inline int my_pe(const char *fn) {
  check_ready(fn);
  return self.me;
}
inline int n_pes(const char *fn) {
  check_ready(fn);
  return self.n;
}
inline int pe_accessible(const char *fn, int pe) {
  check_ready(fn);
  return unsigned(pe) < unsigned(self.n);
}
inline void *ptr(const char *fn, const void *dest, int pe) {
  check_ready(fn);
  if (unsigned(pe) >= unsigned(self.n)) return nullptr;
  const Region *r = region(dest);
  const int local = local_of(pe);
  return r && local >= 0 && buffer::is_at(*r, pe) ? r->at(dest, local) : nullptr;
}
inline void *team_ptr(const char *fn, shmem_team_t team, const void *dest, int pe) {
  const Team *t = find_team(team);
  return t && unsigned(pe) < unsigned(t->n) ? ptr(fn, dest, t->pe(pe)) : nullptr;
}
inline int addr_accessible(const char *fn, const void *addr, int pe) {
  const Region *r = pe_accessible(fn, pe) ? region(addr) : nullptr;
  return r && buffer::is_at(*r, pe);
}

inline void cache(const char *, const void * = nullptr) {} // of all cores here, they are coherent

inline void info_get_version(const char *, int *major, int *minor) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}
inline void info_get_name(const char *, char *name) {
  strcpy(name, SHMEM_VENDOR_STRING);
}

} // namespace shmem::api
