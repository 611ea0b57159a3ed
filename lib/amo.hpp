// SPDX-License-Identifier: MIT
// Atomics: the processor's own, on the peer's memory. The operation is done when the call returns,
// so the non-blocking forms store what they fetched.
#pragma once
#include "address.hpp"

namespace shmem::api {

template <class C, class T> inline T atomic_fetch(const char *fn, C c, const T *source, int pe) {
  return access_read(
      fn, "source", c, source, pe, [](auto s) { return s.fetch(std::memory_order_acquire); }, true);
}
template <class C, class T> inline void atomic_set(const char *fn, C c, T *dest, T value, int pe) {
  access_atomic(fn, c, dest, pe, [=](auto d) { d.set(value, std::memory_order_release); });
}
template <class C, class T> inline T atomic_swap(const char *fn, C c, T *dest, T value, int pe) {
  return access_atomic(fn, c, dest, pe, [=](auto d) { return d.swap(value); });
}
template <class C, class T>
inline T atomic_compare_swap(const char *fn, C c, T *dest, T cond, T value, int pe) {
  return access_atomic(fn, c, dest, pe, [=](auto d) {
    T seen = cond;
    if (!d.compare_swap(seen, value, std::memory_order_seq_cst)) poll_failed();
    return seen;
  });
}
#define UPDATE(name, op)                                                                           \
  template <class C, class T>                                                                      \
  inline T atomic_fetch_##name(const char *fn, C c, T *dest, T value, int pe) {                    \
    return access_atomic(fn, c, dest, pe,                                                          \
                         [=](auto d) { return d.template fetch_op<Amo::op>(value); });             \
  }                                                                                                \
  template <class C, class T>                                                                      \
  inline void atomic_##name(const char *fn, C c, T *dest, T value, int pe) {                       \
    access_atomic(fn, c, dest, pe, [=](auto d) { d.template update<Amo::op>(value); });            \
  }
UPDATE(add, add)
UPDATE(and, and_)
UPDATE(or, or_)
UPDATE(xor, xor_)
#undef UPDATE
template <class C, class T> inline T atomic_fetch_inc(const char *fn, C c, T *dest, int pe) {
  return atomic_fetch_add(fn, c, dest, T(1), pe);
}
template <class C, class T> inline void atomic_inc(const char *fn, C c, T *dest, int pe) {
  atomic_add(fn, c, dest, T(1), pe);
}

// For self.careful: fetch may be on the device heap.
template <class T, class F>
[[gnu::noinline]] inline void store_result(const char *fn, T *fetch, F f) {
  if (self.check) check_pointer(fn, "fetch", fetch, 1);
  DeviceObject<T>(fetch).store(f());
}

// name_nbi(fetch, ...) is *fetch = name(...).
#define NBI(name)                                                                                  \
  template <class C, class T, class... A>                                                          \
  inline void name##_nbi(const char *fn, C c, T *fetch, A... args) {                               \
    if (self.careful) return store_result(fn, fetch, [=] { return name(fn, c, args...); });        \
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
