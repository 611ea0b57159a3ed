// SPDX-License-Identifier: MIT
// Atomics: the processor's own, on the peer's memory. The operation is done when the call returns,
// so the non-blocking forms store what they fetched.
#pragma once
#include "address.hpp"
#include <atomic>

namespace shmem::api {

template <class C, class T> inline std::atomic_ref<T> target(const char *fn, C c, T *dest, int pe) {
  return std::atomic_ref<T>(*at(fn, "dest", dest, 1, rank(fn, c, pe)));
}

template <class C, class T> inline T atomic_fetch(const char *fn, C c, const T *source, int pe) {
  T *s = const_cast<T *>(at(fn, "source", source, 1, rank(fn, c, pe)));
  return std::atomic_ref<T>(*s).load(std::memory_order_acquire);
}
template <class C, class T> inline void atomic_set(const char *fn, C c, T *dest, T value, int pe) {
  target(fn, c, dest, pe).store(value, std::memory_order_release);
}
template <class C, class T> inline T atomic_swap(const char *fn, C c, T *dest, T value, int pe) {
  return target(fn, c, dest, pe).exchange(value);
}
template <class C, class T>
inline T atomic_compare_swap(const char *fn, C c, T *dest, T cond, T value, int pe) {
  target(fn, c, dest, pe).compare_exchange_strong(cond, value);
  return cond;
}
template <class C, class T>
inline T atomic_fetch_add(const char *fn, C c, T *dest, T value, int pe) {
  return target(fn, c, dest, pe).fetch_add(value);
}
template <class C, class T> inline void atomic_add(const char *fn, C c, T *dest, T value, int pe) {
  target(fn, c, dest, pe).fetch_add(value);
}
template <class C, class T> inline T atomic_fetch_inc(const char *fn, C c, T *dest, int pe) {
  return target(fn, c, dest, pe).fetch_add(1);
}
template <class C, class T> inline void atomic_inc(const char *fn, C c, T *dest, int pe) {
  target(fn, c, dest, pe).fetch_add(1);
}

#define BITWISE(op)                                                                                \
  template <class C, class T>                                                                      \
  inline T atomic_fetch_##op(const char *fn, C c, T *dest, T value, int pe) {                      \
    return target(fn, c, dest, pe).fetch_##op(value);                                              \
  }                                                                                                \
  template <class C, class T>                                                                      \
  inline void atomic_##op(const char *fn, C c, T *dest, T value, int pe) {                         \
    target(fn, c, dest, pe).fetch_##op(value);                                                     \
  }
BITWISE(and)
BITWISE(or)
BITWISE(xor)
#undef BITWISE

// name_nbi(fetch, ...) is *fetch = name(...).
#define NBI(name)                                                                                  \
  template <class C, class T, class... A>                                                          \
  inline void name##_nbi(const char *fn, C c, T *fetch, A... args) {                               \
    *fetch = name(fn, c, args...);                                                                 \
  }
NBI(atomic_fetch)
NBI(atomic_swap)
NBI(atomic_compare_swap)
NBI(atomic_fetch_inc)
NBI(atomic_fetch_add)
NBI(atomic_fetch_and)
NBI(atomic_fetch_or)
NBI(atomic_fetch_xor)
#undef NBI

} // namespace shmem::api
