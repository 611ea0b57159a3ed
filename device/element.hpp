// SPDX-License-Identifier: MIT
// The types in which elements are combined, and packs of 16 bytes of them.
#pragma once
#include "arch.hpp"
#include "op.hpp"
#include "scope.hpp"
#include <cstddef>
#include <type_traits>

namespace shmem {

namespace device {

// The type that T is combined in, and the conversions there and back.
template <class T> struct Sums { using type = T; };
template <> struct Sums<Half> { using type = float; };
template <> struct Sums<Bfloat16> { using type = float; };
template <class T> using SumOf = typename Sums<T>::type;

template <class T> SHMEM_D_ SumOf<T> widen(T v) {
  if constexpr (std::is_same_v<SumOf<T>, T>)
    return v;
  else
    return to_float(v);
}
template <class T> SHMEM_D_ T narrow(SumOf<T> v) {
  if constexpr (std::is_same_v<SumOf<T>, T>)
    return v;
  else
    return from_float<T>(v);
}

using Pack = arch::WordOf<16>::type;

template <class T> struct Lanes {
  static constexpr int n = int(16 / sizeof(T));
  SumOf<T> v[n];
};
// Small elements go by shifts of words, because an array of them became private memory (clang 15,
// gfx90a).
template <class T> SHMEM_D_ Lanes<T> unpack(Pack pack) {
  Lanes<T> lanes;
  if constexpr (sizeof(T) <= 2) {
    constexpr int each = int(4 / sizeof(T)), bits = int(8 * sizeof(T));
    uint32_t w[4];
    __builtin_memcpy(w, &pack, sizeof w);
    SHMEM_UNROLL_
    for (int i = 0; i < Lanes<T>::n; i++)
      lanes.v[i] = widen(arch::from_bits<T>(arch::Bits<T>(w[i / each] >> i % each * bits)));
  } else {
    __builtin_memcpy(lanes.v, &pack, sizeof pack);
  }
  return lanes;
}
template <class T> SHMEM_D_ Pack pack(const Lanes<T> &lanes) {
  Pack p;
  if constexpr (sizeof(T) <= 2) {
    constexpr int each = int(4 / sizeof(T)), bits = int(8 * sizeof(T));
    uint32_t w[4] = {0, 0, 0, 0};
    SHMEM_UNROLL_
    for (int i = 0; i < Lanes<T>::n; i++)
      w[i / each] |= uint32_t(arch::to_bits(narrow<T>(lanes.v[i]))) << i % each * bits;
    __builtin_memcpy(&p, w, sizeof p);
  } else {
    __builtin_memcpy(&p, lanes.v, sizeof p);
  }
  return p;
}

// Loads one element of a member, by as few words as its alignment allows.
template <class T>
using WordIn = typename arch::WordOf<(alignof(T) < 8 ? int(alignof(T)) : 8)>::type;
template <class T> struct Loaded { // an element as words, which may be on their way
  WordIn<T> w[sizeof(T) / sizeof(WordIn<T>)];
  SHMEM_D_ void load(const T *p) {
    arch::load_remote<int(sizeof(T) / sizeof(WordIn<T>))>(w, reinterpret_cast<const WordIn<T> *>(p),
                                                          1);
  }
  SHMEM_D_ T value() const {
    T v;
    __builtin_memcpy(&v, w, sizeof v);
    return v;
  }
};
template <class T> SHMEM_D_ void store_element(T *p, T v) {
  constexpr int n = int(sizeof(T) / sizeof(WordIn<T>));
  WordIn<T> w[n];
  __builtin_memcpy(w, &v, sizeof v);
  SHMEM_UNROLL_
  for (int k = 0; k < n; k++) arch::store_remote(reinterpret_cast<WordIn<T> *>(p) + k, w[k]);
}

// How many of the bytes that are left are in a pack. The compiler does not know the number: a loop
// around would keep up to 16 comparisons with it, each in two scalar registers.
SHMEM_D_ uint32_t in_pack(size_t left) {
  uint32_t n[] = {left < 16 ? uint32_t(left) : 16};
  arch::arrive(n);
  return n[0];
}

// Loads the first n bytes of a pack, 16 at most, of private memory, or of memory that was acquired,
// and zeros behind them. p and n are multiples of 4.
SHMEM_D_ Pack load_words(const char *p, uint32_t n) {
  uint32_t w[4] = {0, 0, 0, 0};
  if (reinterpret_cast<uintptr_t>(p) % 16 == 0 && n == 16) {
    const Pack v = arch::load_global(reinterpret_cast<const Pack *>(p));
    __builtin_memcpy(w, &v, 16);
  } else {
    SHMEM_UNROLL_
    for (unsigned i = 0; i < 4; i++)
      if (4 * i < n) __builtin_memcpy(&w[i], __builtin_assume_aligned(p + 4 * i, 4), 4);
  }
  Pack v;
  __builtin_memcpy(&v, w, 16);
  return v;
}
// The same for any alignment and any number of bytes that are left.
SHMEM_D_ Pack load_pack(const char *p, size_t left) {
  const uint32_t n = in_pack(left);
  if ((reinterpret_cast<uintptr_t>(p) | n) % 4 == 0) return load_words(p, n);
  uint32_t w[4] = {0, 0, 0, 0};
  // Beyond the end the last byte is loaded again: a condition for each byte would cost a branch
  // or a pair of registers each.
  SHMEM_UNROLL_
  for (unsigned i = 0; i < 16; i++)
    w[i / 4] |= uint32_t(uint8_t(p[i < n ? i : n - 1])) << i % 4 * 8;
  SHMEM_UNROLL_
  for (unsigned i = 0; i < 4; i++) {
    const unsigned whole = n < 4 * i ? 0 : n - 4 * i < 4 ? n - 4 * i : 4;
    w[i] &= uint32_t((uint64_t(1) << 8 * whole) - 1);
  }
  Pack v;
  __builtin_memcpy(&v, w, 16);
  return v;
}
SHMEM_D_ void store_pack(char *p, size_t left, Pack v) {
  const uint32_t n = in_pack(left);
  uint32_t w[4];
  __builtin_memcpy(w, &v, 16);
  if (reinterpret_cast<uintptr_t>(p) % 16 == 0 && n == 16) {
    __builtin_memcpy(__builtin_assume_aligned(p, 16), w, 16);
  } else if ((reinterpret_cast<uintptr_t>(p) | n) % 4 == 0) {
    SHMEM_UNROLL_
    for (unsigned i = 0; i < 4; i++)
      if (4 * i < n) __builtin_memcpy(__builtin_assume_aligned(p + 4 * i, 4), &w[i], 4);
  } else {
    SHMEM_UNROLL_
    for (unsigned i = 0; i < 16; i++)
      if (i < n) p[i] = char(w[i / 4] >> i % 4 * 8);
  }
}

// An operator that the compiler knows, and one that is an argument of the call. The latter is
// looked at once for each pack and not for each element, which would take long to compile.
template <class Op> struct Fixed {
  static constexpr int deep = 2; // packs of a member that a thread has in flight
};
struct Chosen {
  static constexpr int deep = 1;
  Operator which;
};
template <class Scope, class Op> SHMEM_D_ Fixed<Op> anew(Scope, Fixed<Op> op) {
  return op;
}
template <class Scope> SHMEM_D_ Chosen anew(Scope scope, Chosen op) {
  return {anew(scope, op.which)};
}
template <class Op, class T> SHMEM_D_ void combine(Lanes<T> &acc, const Lanes<T> &in, Fixed<Op>) {
  SHMEM_UNROLL_
  for (int i = 0; i < Lanes<T>::n; i++) acc.v[i] = Op::op(acc.v[i], in.v[i]);
}
template <class A> struct IsComplex : std::false_type {};
template <class R> struct IsComplex<Complex<R>> : std::true_type {};
template <class T> SHMEM_D_ void combine(Lanes<T> &acc, const Lanes<T> &in, Chosen op) {
  if constexpr (std::is_unsigned_v<T>) {
    if (op.which == Operator::and_) return combine(acc, in, Fixed<And>{});
    if (op.which == Operator::or_) return combine(acc, in, Fixed<Or>{});
    if (op.which == Operator::xor_) return combine(acc, in, Fixed<Xor>{});
  }
  if constexpr (!IsComplex<T>::value) {
    if (op.which == Operator::max) return combine(acc, in, Fixed<Max>{});
    if (op.which == Operator::min) return combine(acc, in, Fixed<Min>{});
  }
  // Sums and products of signed integers are those of unsigned ones. Sums are here only for types
  // that have no kernel of their own for them.
  if constexpr (!std::is_integral_v<T> || std::is_unsigned_v<T>) {
    if (op.which == Operator::prod) return combine(acc, in, Fixed<Prod>{});
    if constexpr (std::is_integral_v<T> || IsComplex<T>::value) combine(acc, in, Fixed<Sum>{});
  }
}

} // namespace device
} // namespace shmem
