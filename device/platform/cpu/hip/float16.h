// SPDX-License-Identifier: MIT
// Numbers of 16 bits: HIP's half and bfloat16, which differ in the bits of the exponent. Each
// operation is computed in double and rounded to nearest, ties to even. The functions that HIP
// names the same for both types are friends here; HIP_CPU_FLOAT16 makes those that have the type's
// name in theirs.
#pragma once
#include "hip_runtime.h"

namespace hip_cpu {

// An operator of a type, and the function that is the same. HIP_CPU_RESULT(op), defined before the
// uses, is what becomes of a and b.
#define HIP_CPU_OPERATOR(Type, op, name)                                                           \
  friend Type operator op(Type a, Type b) {                                                        \
    return HIP_CPU_RESULT(op);                                                                     \
  }                                                                                                \
  friend Type &operator op##=(Type &a, Type b) {                                                   \
    return a = a op b;                                                                             \
  }                                                                                                \
  friend Type name(Type a, Type b) {                                                               \
    return a op b;                                                                                 \
  }

template <int exponent> struct Float16 {
  uint16_t bits;

  Float16() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Float16(T v) : bits(pack(double(v))) {}
  static Float16 of_bits(uint16_t bits) {
    Float16 v;
    v.bits = bits;
    return v;
  }

  operator float() const {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, size = bits & 0x7fff;
    if (size >= infinity) return as<float>(sign | 0x7f800000 | size << (23 - fraction));
    // A float with this exponent is the number times a power of two, which also holds for the
    // numbers below the normal ones.
    constexpr float power = as<float>(uint32_t(127 + 127 - bias) << 23);
    return as<float>(sign | as<uint32_t>(as<float>(size << (23 - fraction)) * power));
  }

private:
  static constexpr int fraction = 15 - exponent, bias = (1 << (exponent - 1)) - 1;
  static constexpr uint32_t infinity = ((1 << exponent) - 1) << fraction;

  template <class To, class From> static constexpr To as(From from) {
    static_assert(sizeof(To) == sizeof from);
    return __builtin_bit_cast(To, from);
  }
  static uint16_t pack(double v) {
    const uint64_t x = as<uint64_t>(v), size = x & (~uint64_t(0) >> 1);
    const uint32_t sign = x >> 48 & 0x8000;
    if (size > uint64_t(0x7ff) << 52) return uint16_t(sign | 0x7fff);
    // Below the normal numbers a sum with this one has the step of the smallest number.
    constexpr uint64_t step = uint64_t(1023 + 52 + 1 - bias - fraction) << 52;
    if (size < uint64_t(1023 + 1 - bias) << 52)
      return uint16_t(sign | uint32_t(as<uint64_t>(as<double>(size) + as<double>(step)) - step));
    constexpr int cut = 52 - fraction;
    const uint64_t half = (uint64_t(1) << (cut - 1)) - 1 + (size >> cut & 1);
    const uint64_t rounded = (size + half - (uint64_t(1023 - bias) << 52)) >> cut;
    return uint16_t(sign | uint32_t(std::min<uint64_t>(rounded, infinity)));
  }

public:
#define HIP_CPU_RESULT(op) double(a) op double(b)
  HIP_CPU_OPERATOR(Float16, +, __hadd)
  HIP_CPU_OPERATOR(Float16, -, __hsub)
  HIP_CPU_OPERATOR(Float16, *, __hmul)
  HIP_CPU_OPERATOR(Float16, /, __hdiv)
#undef HIP_CPU_RESULT
#define HIP_CPU_COMPARISON(op, name)                                                               \
  friend bool operator op(Float16 a, Float16 b) {                                                  \
    return float(a) op float(b);                                                                   \
  }                                                                                                \
  friend bool name(Float16 a, Float16 b) {                                                         \
    return a op b;                                                                                 \
  }
  HIP_CPU_COMPARISON(==, __heq)
  HIP_CPU_COMPARISON(!=, __hne)
  HIP_CPU_COMPARISON(<, __hlt)
  HIP_CPU_COMPARISON(<=, __hle)
  HIP_CPU_COMPARISON(>, __hgt)
  HIP_CPU_COMPARISON(>=, __hge)
#undef HIP_CPU_COMPARISON
  friend Float16 operator-(Float16 v) {
    return of_bits(v.bits ^ 0x8000);
  }
  friend Float16 __hneg(Float16 v) {
    return -v;
  }
  friend Float16 __habs(Float16 v) {
    return of_bits(v.bits & 0x7fff);
  }
  friend bool __hisnan(Float16 v) {
    return (v.bits & 0x7fff) > infinity;
  }
  friend int __hisinf(Float16 v) {
    return (v.bits & 0x7fff) != infinity ? 0 : v.bits & 0x8000 ? -1 : 1;
  }
  friend Float16 __hmin(Float16 a, Float16 b) {
    return std::fmin(a, b);
  } // of a NaN: the other
  friend Float16 __hmax(Float16 a, Float16 b) {
    return std::fmax(a, b);
  }
  friend Float16 __hfma(Float16 a, Float16 b, Float16 c) {
    return std::fma(double(a), double(b), double(c));
  }
#define HIP_CPU_FUNCTION(name, value)                                                              \
  friend Float16 name(Float16 v) {                                                                 \
    const double x = v;                                                                            \
    return value;                                                                                  \
  }
  HIP_CPU_FUNCTION(hsqrt, std::sqrt(x))
  HIP_CPU_FUNCTION(hrsqrt, 1 / std::sqrt(x))
  HIP_CPU_FUNCTION(hrcp, 1 / x)
  HIP_CPU_FUNCTION(hexp, std::exp(x))
  HIP_CPU_FUNCTION(hexp2, std::exp2(x))
  HIP_CPU_FUNCTION(hlog, std::log(x))
  HIP_CPU_FUNCTION(hlog2, std::log2(x))
  HIP_CPU_FUNCTION(hsin, std::sin(x))
  HIP_CPU_FUNCTION(hcos, std::cos(x))
  HIP_CPU_FUNCTION(hceil, std::ceil(x))
  HIP_CPU_FUNCTION(hfloor, std::floor(x))
  HIP_CPU_FUNCTION(htrunc, std::trunc(x))
  HIP_CPU_FUNCTION(hrint, std::rint(x))
#undef HIP_CPU_FUNCTION
};

template <int exponent> struct alignas(4) Float16Pair {
  using Element = Float16<exponent>;
  using Pair = Float16Pair;
  Element x, y;

#define HIP_CPU_RESULT(op)                                                                         \
  { a.x op b.x, a.y op b.y }
  HIP_CPU_OPERATOR(Pair, +, __hadd2)
  HIP_CPU_OPERATOR(Pair, -, __hsub2)
  HIP_CPU_OPERATOR(Pair, *, __hmul2)
  HIP_CPU_OPERATOR(Pair, /, __h2div)
#undef HIP_CPU_RESULT
#undef HIP_CPU_OPERATOR
  friend Pair operator-(Pair v) {
    return {-v.x, -v.y};
  }
  friend Pair __hneg2(Pair v) {
    return -v;
  }
  friend Pair __habs2(Pair v) {
    return {__habs(v.x), __habs(v.y)};
  }
  friend Pair __hmin2(Pair a, Pair b) {
    return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
  }
  friend Pair __hmax2(Pair a, Pair b) {
    return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
  }
  friend Pair __hfma2(Pair a, Pair b, Pair c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
  }
  friend float __low2float(Pair v) {
    return v.x;
  }
  friend float __high2float(Pair v) {
    return v.y;
  }
};

} // namespace hip_cpu

#define HIP_CPU_FLOAT16(name, type, type2)                                                         \
  inline type __float2##name(float v) {                                                            \
    return v;                                                                                      \
  }                                                                                                \
  inline type __float2##name##_rn(float v) {                                                       \
    return v;                                                                                      \
  }                                                                                                \
  inline type __double2##name(double v) {                                                          \
    return v;                                                                                      \
  }                                                                                                \
  inline type __int2##name##_rn(int v) {                                                           \
    return v;                                                                                      \
  }                                                                                                \
  inline type __ushort_as_##name(unsigned short v) {                                               \
    return type::of_bits(v);                                                                       \
  }                                                                                                \
  inline float __##name##2float(type v) {                                                          \
    return v;                                                                                      \
  }                                                                                                \
  inline int __##name##2int_rz(type v) {                                                           \
    return int(float(v));                                                                          \
  }                                                                                                \
  inline int __##name##2int_rn(type v) {                                                           \
    return int(std::rint(float(v)));                                                               \
  }                                                                                                \
  inline unsigned short __##name##_as_ushort(type v) {                                             \
    return v.bits;                                                                                 \
  }                                                                                                \
  inline type2 make_##name##2(type x, type y) {                                                    \
    return {x, y};                                                                                 \
  }                                                                                                \
  inline type2 __halves2##name##2(type x, type y) {                                                \
    return {x, y};                                                                                 \
  }                                                                                                \
  inline type2 __##name##2##name##2(type v) {                                                      \
    return {v, v};                                                                                 \
  }                                                                                                \
  inline type2 __float2##name##2_rn(float v) {                                                     \
    return {v, v};                                                                                 \
  }                                                                                                \
  inline type2 __floats2##name##2_rn(float x, float y) {                                           \
    return {x, y};                                                                                 \
  }                                                                                                \
  inline type2 __float22##name##2_rn(float2 v) {                                                   \
    return {v.x, v.y};                                                                             \
  }                                                                                                \
  inline float2 __##name##22float2(type2 v) {                                                      \
    return {v.x, v.y};                                                                             \
  }                                                                                                \
  inline type __low2##name(type2 v) {                                                              \
    return v.x;                                                                                    \
  }                                                                                                \
  inline type __high2##name(type2 v) {                                                             \
    return v.y;                                                                                    \
  }
