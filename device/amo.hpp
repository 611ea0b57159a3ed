// SPDX-License-Identifier: MIT
// Atomics: the GPU's own, on the peer's memory, at system scope, with no order but their own. The
// operation is done when the call returns, so the non-blocking forms store what they fetched.
#pragma once
#include "address.hpp"
#include "scope.hpp"

namespace shmem::device {

template <class C, class T>
SHMEM_D_ T atomic_fetch(const char *fn, C c, const T *source, int pe, Thread) {
  return arch::load(at(fn, "source", source, 1, world_pe(c, pe)));
}
template <class C, class T>
SHMEM_D_ void atomic_set(const char *fn, C c, T *dest, T value, int pe, Thread) {
  arch::store(at(fn, "dest", dest, 1, world_pe(c, pe)), value);
}
template <class C, class T>
SHMEM_D_ T atomic_swap(const char *fn, C c, T *dest, T value, int pe, Thread) {
  return arch::exchange(at(fn, "dest", dest, 1, world_pe(c, pe)), value);
}
template <class C, class T>
SHMEM_D_ T atomic_compare_swap(const char *fn, C c, T *dest, T cond, T value, int pe, Thread) {
  return arch::compare_exchange(at(fn, "dest", dest, 1, world_pe(c, pe)), cond, value);
}
#define SHMEM_UPDATE_(op)                                                                          \
  template <class C, class T>                                                                      \
  SHMEM_D_ T atomic_fetch_##op(const char *fn, C c, T *dest, T value, int pe, Thread) {            \
    return arch::fetch_##op(at(fn, "dest", dest, 1, world_pe(c, pe)), value);                      \
  }                                                                                                \
  template <class C, class T>                                                                      \
  SHMEM_D_ void atomic_##op(const char *fn, C c, T *dest, T value, int pe, Thread) {               \
    arch::fetch_##op(at(fn, "dest", dest, 1, world_pe(c, pe)), value);                             \
  }
SHMEM_UPDATE_(add)
SHMEM_UPDATE_(and)
SHMEM_UPDATE_(or)
SHMEM_UPDATE_(xor)
#undef SHMEM_UPDATE_
template <class C, class T>
SHMEM_D_ T atomic_fetch_inc(const char *fn, C c, T *dest, int pe, Thread t) {
  return atomic_fetch_add(fn, c, dest, T(1), pe, t);
}
template <class C, class T>
SHMEM_D_ void atomic_inc(const char *fn, C c, T *dest, int pe, Thread t) {
  atomic_add(fn, c, dest, T(1), pe, t);
}

// name_nbi(fetch, ...) is *fetch = name(...).
#define SHMEM_NBI_(name)                                                                           \
  template <class C, class T, class... A>                                                          \
  SHMEM_D_ void name##_nbi(const char *fn, C c, T *fetch, A... args) {                             \
    *fetch = name(fn, c, args...);                                                                 \
  }
SHMEM_NBI_(atomic_fetch)
SHMEM_NBI_(atomic_swap)
SHMEM_NBI_(atomic_compare_swap)
SHMEM_NBI_(atomic_fetch_inc)
SHMEM_NBI_(atomic_fetch_add)
SHMEM_NBI_(atomic_fetch_and)
SHMEM_NBI_(atomic_fetch_or)
SHMEM_NBI_(atomic_fetch_xor)
#undef SHMEM_NBI_

} // namespace shmem::device
