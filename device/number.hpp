// SPDX-License-Identifier: MIT
// Numbers that C++ has no type for, as storage, the same for host and kernels of any compiler: no
// two of them agree on a name for bfloat16, and gcc 12 knows no _Float16 in C++. They are computed
// with in float, and rounded once.
#pragma once
#include "arch.hpp"
#include <type_traits>

namespace shmem {

struct Half { // IEEE binary16
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Float8 { // E4M3 of OCP: no infinity, the largest is 448
  uint8_t bits;
};
struct Float8Fnuz { // E4M3 of gfx942: half of OCP's values, up to 240; 0x80 is the only NaN
  uint8_t bits;
};
// Layout of _Complex. Products are those of the formula, without the C standard's care of
// infinities.
template <class R> struct Complex { R re, im; };
template <class R> SHMEM_HD_ inline Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class R> SHMEM_HD_ inline Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

namespace number {

SHMEM_HD_ inline uint32_t float_bits(float v) {
  uint32_t x;
  __builtin_memcpy(&x, &v, sizeof x);
  return x;
}
SHMEM_HD_ inline float bits_float(uint32_t x) {
  float v;
  __builtin_memcpy(&v, &x, sizeof v);
  return v;
}

// Conversions for which GPUs have instructions, without them.
SHMEM_HD_ inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, x = h & 0x7fff;
  if (x >= 0x7c00) return bits_float(sign | 0x7f800000 | (x & 0x3ff) << 13);
  if (x < 0x400) return bits_float(sign | float_bits(float(x) * 0x1p-24f));
  return bits_float(sign | ((x << 13) + (112u << 23)));
}
SHMEM_HD_ inline uint16_t float_to_half(float v) {
  const uint32_t sign = float_bits(v) >> 16 & 0x8000, x = float_bits(v) & 0x7fffffff;
  if (x > 0x7f800000) return uint16_t(sign | 0x7e00 | (x >> 13 & 0x3ff));
  if (x >= 0x477ff000) return uint16_t(sign | 0x7c00);
  // Adding 0.5 leaves 24 bits behind the point, and rounds as asked.
  if (x < 0x38800000) return uint16_t(sign | (float_bits(bits_float(x) + 0.5f) - float_bits(0.5f)));
  return uint16_t(sign | ((x + 0xfff + (x >> 13 & 1) - (112u << 23)) >> 13));
}
SHMEM_HD_ inline uint16_t float_to_bfloat16(float v) {
  const uint32_t x = float_bits(v);
  if ((x & 0x7fffffff) > 0x7f800000) return uint16_t(x >> 16 | 0x40);
  return uint16_t((x + 0x7fff + (x >> 16 & 1)) >> 16);
}
// E4M3 of either kind: FNUZ has the bits of OCP's for twice the number. Larger numbers become the
// largest, 448 or 240.
SHMEM_HD_ inline uint8_t float_to_e4m3(float v, bool fnuz) {
  const uint32_t sign = float_bits(v) >> 24 & 0x80, size = float_bits(v) & 0x7fffffff;
  if (size > 0x7f800000) return uint8_t(fnuz ? 0x80 : sign | 0x7f);
  const float twice = bits_float(size) * (fnuz ? 2.f : 1.f);
  const uint32_t x = float_bits(twice);
  const uint32_t y = x >= (fnuz ? 0x43f00000 : 0x43e00000) ? (fnuz ? 0x7f : 0x7e)
                     : x < 0x3c800000 ? float_bits(twice + 0x1p14f) - float_bits(0x1p14f)
                                      : (x + 0x7ffff + (x >> 20 & 1) - (120u << 23)) >> 20;
  return uint8_t(fnuz && !y ? 0 : sign | y);
}

} // namespace number

SHMEM_HD_ inline float to_float(float v) {
  return v;
}
SHMEM_HD_ inline float to_float(Bfloat16 v) {
  return number::bits_float(uint32_t(v.bits) << 16);
}
SHMEM_HD_ inline float to_float(Half v) {
  return SHMEM_ON_GPU_(arch::half_to_float, number::half_to_float)(v.bits);
}
SHMEM_HD_ inline float to_float(Float8 v) {
  const uint32_t sign = uint32_t(v.bits & 0x80) << 24, x = v.bits & 0x7f;
  if (x == 0x7f) return number::bits_float(sign | 0x7fc00000);
  if (x < 8) return number::bits_float(sign | number::float_bits(float(x) * 0x1p-9f));
  return number::bits_float(sign | ((x << 20) + (120u << 23)));
}
SHMEM_HD_ inline float to_float(Float8Fnuz v) {
  const uint32_t sign = uint32_t(v.bits & 0x80) << 24, x = v.bits & 0x7f;
  if (v.bits == 0x80) return number::bits_float(0x7fc00000);
  if (x < 8) return number::bits_float(sign | number::float_bits(float(x) * 0x1p-10f));
  return number::bits_float(sign | ((x << 20) + (119u << 23)));
}

// Rounds to nearest, ties to even.
template <class T> SHMEM_HD_ inline T from_float(float v) {
  if constexpr (std::is_same_v<T, Half>) {
    return {SHMEM_ON_GPU_(arch::float_to_half, number::float_to_half)(v)};
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return {SHMEM_ON_CUDA_(arch::float_to_bfloat16, number::float_to_bfloat16)(v)};
  } else if constexpr (std::is_same_v<T, Float8> || std::is_same_v<T, Float8Fnuz>) {
    return {number::float_to_e4m3(v, std::is_same_v<T, Float8Fnuz>)};
  } else {
    static_assert(std::is_same_v<T, float>,
                  "shmem::from_float: float, Half, Bfloat16, Float8 or Float8Fnuz");
    return v;
  }
}

} // namespace shmem
