// SPDX-License-Identifier: MIT
// Atomics: the GPU's own, on the peer's memory, at system scope, with no order but their own. The
// operation is done when the call returns, so the non-blocking forms store what they fetched.
#pragma once
#include "ring.hpp"
#include "scope.hpp"

namespace shmem::device {

// Calls here(the object), or posts the same in the ring.
template <class C, class T, class Here>
SHMEM_D_ T fetching(const char *fn, const char *arg, C c, Amo op, T *p, int pe, T value, T cond,
                    Here here) {
  const int there = world_pe(c, pe);
  return reach(fn, arg, p, 1, there, Use::atomic, here,
               [&] { return ring::fetch(fn, op, p, there, value, cond); });
}
template <class C, class T, class Here>
SHMEM_D_ void updating(const char *fn, C c, Amo op, T *dest, int pe, T value, Here here) {
  const int there = world_pe(c, pe);
  reach(fn, "dest", dest, 1, there, Use::atomic, here,
        [&] { ring::update(fn, op, dest, there, value); });
}

template <class C, class T>
SHMEM_D_ T atomic_fetch(const char *fn, C c, const T *source, int pe, Thread) {
  return fetching(fn, "source", c, Amo::fetch, const_cast<T *>(source), pe, T{}, T{},
                  [](T *p) { return arch::load(p); });
}
template <class C, class T>
SHMEM_D_ void atomic_set(const char *fn, C c, T *dest, T value, int pe, Thread) {
  updating(fn, c, Amo::set, dest, pe, value, [=](T *p) { arch::store(p, value); });
}
template <class C, class T>
SHMEM_D_ T atomic_swap(const char *fn, C c, T *dest, T value, int pe, Thread) {
  return fetching(fn, "dest", c, Amo::swap, dest, pe, value, T{},
                  [=](T *p) { return arch::exchange(p, value); });
}
template <class C, class T>
SHMEM_D_ T atomic_compare_swap(const char *fn, C c, T *dest, T cond, T value, int pe, Thread) {
  return fetching(fn, "dest", c, Amo::compare_swap, dest, pe, value, cond,
                  [=](T *p) { return arch::compare_exchange(p, cond, value); });
}
#define SHMEM_UPDATE_(op, name)                                                                    \
  template <class C, class T>                                                                      \
  SHMEM_D_ T atomic_fetch_##op(const char *fn, C c, T *dest, T value, int pe, Thread) {            \
    return fetching(fn, "dest", c, Amo::name, dest, pe, value, T{},                                \
                    [=](T *p) { return arch::fetch_##op(p, value); });                             \
  }                                                                                                \
  template <class C, class T>                                                                      \
  SHMEM_D_ void atomic_##op(const char *fn, C c, T *dest, T value, int pe, Thread) {               \
    updating(fn, c, Amo::name, dest, pe, value, [=](T *p) { arch::fetch_##op(p, value); });        \
  }
SHMEM_UPDATE_(add, add)
SHMEM_UPDATE_(and, and_)
SHMEM_UPDATE_(or, or_)
SHMEM_UPDATE_(xor, xor_)
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
