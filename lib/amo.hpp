// SPDX-License-Identifier: MIT
// Atomics: the processor's own, on the peer's memory. The operation is done when the call returns,
// so the non-blocking forms store what they fetched.
#pragma once
#include "address.hpp"
#include "gpu.hpp"
#include <atomic>

namespace shmem::api {

// Calls f(the peer's object as an atomic).
template <class C, class T, class F>
[[gnu::always_inline]] inline auto on(const char *fn, const char *arg, C c, T *dest, int pe, F f) {
  return access_word(fn, arg, c, dest, pe, [=](auto d, auto way) {
    if constexpr (std::is_same_v<decltype(d), T *>) {
      if (way.careful() && gpu::is_far(d)) {
        buffer::check_atomic(fn, arg, dest, rank(fn, c, pe));
        return f(gpu::Atomic<T>(d));
      }
      return f(std::atomic_ref<T>(*d));
    } else {
      return f(net::Atomic<T>(d));
    }
  });
}

template <class C, class T> inline T atomic_fetch(const char *fn, C c, const T *source, int pe) {
  return access_read(fn, "source", c, source, pe, [=](auto s, auto way) {
    if constexpr (std::is_same_v<decltype(s), const T *>) {
      auto *p = const_cast<T *>(s);
      if (way.careful() && gpu::is_far(p)) {
        buffer::check_atomic(fn, "source", source, rank(fn, c, pe));
        return gpu::Atomic<T>(p).load();
      }
      return std::atomic_ref<T>(*p).load(std::memory_order_acquire);
    } else {
      return net::Atomic<T>({const_cast<T *>(s.p), s.pe}).load();
    }
  });
}
template <class C, class T> inline void atomic_set(const char *fn, C c, T *dest, T value, int pe) {
  on(fn, "dest", c, dest, pe, [=](auto a) { a.store(value, std::memory_order_release); });
}
template <class C, class T> inline T atomic_swap(const char *fn, C c, T *dest, T value, int pe) {
  return on(fn, "dest", c, dest, pe, [=](auto a) { return a.exchange(value); });
}
template <class C, class T>
inline T atomic_compare_swap(const char *fn, C c, T *dest, T cond, T value, int pe) {
  return on(fn, "dest", c, dest, pe, [=](auto a) {
    T seen = cond;
    if (!a.compare_exchange_strong(seen, value)) poll_failed();
    return seen;
  });
}
// What was there before does not come back from another node when nobody asks for it.
#define UPDATE(op, which)                                                                          \
  template <class C, class T>                                                                      \
  inline T atomic_fetch_##op(const char *fn, C c, T *dest, T value, int pe) {                      \
    return on(fn, "dest", c, dest, pe, [=](auto a) { return a.fetch_##op(value); });               \
  }                                                                                                \
  template <class C, class T>                                                                      \
  inline void atomic_##op(const char *fn, C c, T *dest, T value, int pe) {                         \
    on(fn, "dest", c, dest, pe, [=](auto a) {                                                      \
      if constexpr (std::is_same_v<decltype(a), net::Atomic<T>>)                                   \
        a.later(Amo::which, value);                                                                \
      else                                                                                         \
        a.fetch_##op(value);                                                                       \
    });                                                                                            \
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
  T value = f();
  if (gpu::is_far(fetch))
    gpu::copy(fetch, &value, sizeof value);
  else
    *fetch = value;
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
