// SPDX-License-Identifier: MIT
// The operators of reductions, for host and device: one struct each, with op(a, b). Integers wrap
// around, signed ones too.
#pragma once
#include "arch.hpp"
#include <type_traits>

namespace shmem {

// As bits: they are combined in float, and rounded once.
struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
// Of _Complex's layout. Products are those of the formula, without the C standard's care of
// infinities.
template <class R> struct Complex { R re, im; };
template <class R> SHMEM_HD_ inline Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class R> SHMEM_HD_ inline Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Where sums and products of T are taken: unsigned, and not narrower than int, because a product of
// two unsigned shorts is otherwise one of ints, and may overflow.
template <class T, bool = std::is_integral<T>::value> struct Wrap { using type = T; };
template <class T> struct Wrap<T, true> {
  using type = typename std::common_type<typename std::make_unsigned<T>::type, unsigned>::type;
};

struct Sum {
  template <class T> SHMEM_HD_ static T op(T a, T b) {
    using W = typename Wrap<T>::type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Prod {
  template <class T> SHMEM_HD_ static T op(T a, T b) {
    using W = typename Wrap<T>::type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Min {
  template <class T> SHMEM_HD_ static T op(T a, T b) { return b < a ? b : a; }
};
struct Max {
  template <class T> SHMEM_HD_ static T op(T a, T b) { return a < b ? b : a; }
};
struct And {
  template <class T> SHMEM_HD_ static T op(T a, T b) { return static_cast<T>(a & b); }
};
struct Or {
  template <class T> SHMEM_HD_ static T op(T a, T b) { return static_cast<T>(a | b); }
};
struct Xor {
  template <class T> SHMEM_HD_ static T op(T a, T b) { return static_cast<T>(a ^ b); }
};

} // namespace shmem
