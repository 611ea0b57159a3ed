// SPDX-License-Identifier: MIT
// From a symmetric address here to the same object of a peer: a range check, a load, an add.
#pragma once
#include "log.hpp"
#include "state.hpp"
#include "sync.hpp"
#include "team.hpp"

namespace shmem {

// An element of the sized routines, of any alignment, as the private side of a transfer may be.
template <int bits> struct Sized { std::byte bytes[bits / 8]; };

// What a call hands over, for the slow path and its messages: the symmetric object, and the other
// pointer of a transfer.
struct Access {
  const char *fn, *arg;
  const void *p;
  size_t bytes, align;
  int pe;
  const void *other; // where as many bytes are read or written locally, or no_other
};
inline const void *const no_other = reinterpret_cast<const void *>(~uintptr_t(0));

// The one that p lies in, or null.
const Region *region(const void *p);

// Static data, or a call that must be checked, or one that is wrong.
[[gnu::noinline]] void *slow_address(const Access &a);

// The object of PE pe (of the world) that is at p here, n elements long.
template <class T>
[[gnu::always_inline]] inline T *at(const char *fn, const char *arg, T *p, size_t n, int pe) {
  if (self.fast.has(p) && unsigned(pe) < unsigned(self.n)) [[likely]]
    return reinterpret_cast<T *>(uintptr_t(p) + heap_delta[pe]);
  return static_cast<T *>(slow_address({fn, arg, p, n * sizeof(T), alignof(T), pe, no_other}));
}

// Which way an access came: f asks careful() where the GPU may have to help. Never on the fast one.
struct Fast {
  static constexpr bool careful() { return false; }
};
struct Slow {
  static bool careful() { return self.careful; }
};

// Does f(the same, where pe counts in the context's team, the way). The slow path is a function of
// its own that ends with f: nothing lives across a call in the fast one, so it needs no stack.
template <class C, class T, class F>
[[gnu::noinline]] auto slow_access(const char *fn, const char *arg, C c, T *p, size_t n, int pe,
                                   const void *other, F f) {
  return f(static_cast<T *>(
               slow_address({fn, arg, p, n * sizeof(T), alignof(T), rank(fn, c, pe), other})),
           Slow{});
}
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access_in(const Span &span, const char *fn, const char *arg, C c,
                                             T *p, size_t n, int pe, const void *other, F f) {
  if (span.has(p)) [[likely]] { // so nothing is to be checked, the context neither
    int r = plain_rank(c, pe);
    if (unsigned(r) < unsigned(self.n)) [[likely]]
      return f(reinterpret_cast<T *>(uintptr_t(p) + heap_delta[r]), Fast{});
  }
  return slow_access(fn, arg, c, p, n, pe, other, f);
}
// Of a transfer, whose other side may be anywhere.
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access(const char *fn, const char *arg, C c, T *p, size_t n,
                                          int pe, const void *other, F f) {
  return access_in(self.fast, fn, arg, c, p, n, pe, other, f);
}
// Of one element, whose value is in a register.
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access_word(const char *fn, const char *arg, C c, T *p, int pe,
                                               F f) {
  return access_in(self.word, fn, arg, c, p, 1, pe, no_other, f);
}

// The same for a read, which a program may do over and over until the value changes.
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access_read(const char *fn, const char *arg, C c, const T *p,
                                               int pe, F f) {
  return access_in(self.read, fn, arg, c, p, 1, pe, no_other, [=](const T *s, auto way) {
    const auto value = f(s, way);
    if constexpr (std::is_same_v<decltype(way), Slow>) polled(s, &value, sizeof value);
    return value;
  });
}

// Ends the program unless [p, p + bytes) is symmetric and aligned. For SHMEM_CHECK; bytes 0 allows
// anything.
void check_symmetric(const char *fn, const char *arg, const void *p, size_t bytes, size_t align);
inline void check_ready(const char *fn) {
  if (!self.ready) [[unlikely]]
    not_ready(fn);
}
// Ends the program when p is NULL though n is not 0. For SHMEM_CHECK.
void check_pointer(const char *fn, const char *arg, const void *p, size_t n);

} // namespace shmem
