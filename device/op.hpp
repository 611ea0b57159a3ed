// SPDX-License-Identifier: MIT
// The comparisons of waits and the operators of reductions, for host and device. An operator is a
// struct with op(a, b). Integers wrap around, signed ones too.
#pragma once
#include "kinds.hpp"
#include "number.hpp"
#include <shmem.h>

namespace shmem {

// The type in which sums and products of T are taken: unsigned, and not narrower than int, because
// a product of two unsigned shorts is otherwise one of ints, and may overflow.
template <class T, bool = std::is_integral<T>::value> struct Wrap { using type = T; };
template <class T> struct Wrap<T, true> {
  using type = typename std::common_type<typename std::make_unsigned<T>::type, unsigned>::type;
};

struct Sum {
  static constexpr Operator which = Operator::sum;
  template <class T> SHMEM_HD_ static T op(T a, T b) {
    using W = typename Wrap<T>::type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Prod {
  static constexpr Operator which = Operator::prod;
  template <class T> SHMEM_HD_ static T op(T a, T b) {
    using W = typename Wrap<T>::type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Min {
  static constexpr Operator which = Operator::min;
  template <class T> SHMEM_HD_ static T op(T a, T b) { return b < a ? b : a; }
};
struct Max {
  static constexpr Operator which = Operator::max;
  template <class T> SHMEM_HD_ static T op(T a, T b) { return a < b ? b : a; }
};
struct And {
  static constexpr Operator which = Operator::and_;
  template <class T> SHMEM_HD_ static T op(T a, T b) { return static_cast<T>(a & b); }
};
struct Or {
  static constexpr Operator which = Operator::or_;
  template <class T> SHMEM_HD_ static T op(T a, T b) { return static_cast<T>(a | b); }
};
struct Xor {
  static constexpr Operator which = Operator::xor_;
  template <class T> SHMEM_HD_ static T op(T a, T b) { return static_cast<T>(a ^ b); }
};

// The comparisons of waits and tests. A wrong cmp is found before, or not at all.
template <class T> SHMEM_HD_ inline bool compare(T a, int cmp, T b) {
  switch (cmp) {
  case SHMEM_CMP_EQ:
    return a == b;
  case SHMEM_CMP_NE:
    return a != b;
  case SHMEM_CMP_LT:
    return a < b;
  case SHMEM_CMP_LE:
    return a <= b;
  case SHMEM_CMP_GT:
    return a > b;
  default:
    return a >= b;
  }
}

// The type in which Op combines a T: integers of a size are one type where signs do not matter.
template <class Op, class T, bool = std::is_integral<T>::value> struct ElementOf {
  using type = T;
};
template <class Op, class T> struct ElementOf<Op, T, true> {
  using Word = typename arch::WordOf<sizeof(T)>::type;
  using type = std::conditional_t<signs_matter(Op::which) && std::is_signed<T>::value,
                                  std::make_signed_t<Word>, Word>;
};
__extension__ typedef float _Complex ComplexFloat; // C's own, as routines of that type have them
__extension__ typedef double _Complex ComplexDouble;
template <class Op> struct ElementOf<Op, ComplexFloat, false> { using type = Complex<float>; };
template <class Op> struct ElementOf<Op, ComplexDouble, false> { using type = Complex<double>; };
template <class Op, class T> using Element = typename ElementOf<Op, T>::type;

// From a type to its name, and back: f is called with a value of the type.
template <class T> struct TypeOf;
#define SHMEM_TYPE_(name, T)                                                                       \
  template <> struct TypeOf<T> { static constexpr ElementType value = ElementType::name; };
SHMEM_TYPES_(SHMEM_TYPE_)
#undef SHMEM_TYPE_
template <class T> inline constexpr ElementType type_of = TypeOf<T>::value;
#define SHMEM_TYPE_(name, T)                                                                       \
  case ElementType::name:                                                                          \
    return f(T{});
template <class F> auto with_type(ElementType type, F f) {
  switch (type) { SHMEM_TYPES_(SHMEM_TYPE_) }
  __builtin_unreachable();
}
#undef SHMEM_TYPE_

} // namespace shmem
