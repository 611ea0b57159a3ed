// SPDX-License-Identifier: MIT
// Floating-point types of 16 and 8 bits as storage, the same for host and kernels of any compiler:
// no two of them agree on a name for bfloat16, and gcc 12 knows no _Float16 in C++.
#pragma once
#include "../arch.hpp"

namespace shmem::gemm {

struct Half { // IEEE binary16
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Float8 { // E4M3 of OCP: no infinity, the largest is 448
  uint8_t bits;
};

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

SHMEM_HD_ inline float to_float(float v) {
  return v;
}
SHMEM_HD_ inline float to_float(Bfloat16 v) {
  return bits_float(uint32_t(v.bits) << 16);
}
SHMEM_HD_ inline float to_float(Half v) {
  const uint32_t sign = uint32_t(v.bits & 0x8000) << 16, x = v.bits & 0x7fff;
  if (x >= 0x7c00) return bits_float(sign | 0x7f800000 | (x & 0x3ff) << 13);
  if (x < 0x400) return bits_float(sign | float_bits(float(x) * 0x1p-24f));
  return bits_float(sign | ((x << 13) + (112u << 23)));
}
SHMEM_HD_ inline float to_float(Float8 v) {
  const uint32_t sign = uint32_t(v.bits & 0x80) << 24, x = v.bits & 0x7f;
  if (x == 0x7f) return bits_float(sign | 0x7fc00000);
  if (x < 8) return bits_float(sign | float_bits(float(x) * 0x1p-9f));
  return bits_float(sign | ((x << 20) + (120u << 23)));
}

// To nearest, ties to even. from_float<T>.
template <class T> struct FromFloat;
template <> struct FromFloat<float> {
  static SHMEM_HD_ float of(float v) { return v; }
};
template <> struct FromFloat<Bfloat16> {
  static SHMEM_HD_ Bfloat16 of(float v) {
    const uint32_t x = float_bits(v);
    if ((x & 0x7fffffff) > 0x7f800000) return {uint16_t(x >> 16 | 0x40)};
    return {uint16_t((x + 0x7fff + (x >> 16 & 1)) >> 16)};
  }
};
template <> struct FromFloat<Half> {
  static SHMEM_HD_ Half of(float v) {
    const uint32_t sign = float_bits(v) >> 16 & 0x8000, x = float_bits(v) & 0x7fffffff;
    if (x > 0x7f800000) return {uint16_t(sign | 0x7e00)};
    if (x >= 0x477ff000) return {uint16_t(sign | 0x7c00)};
    // Adding 0.5 leaves 24 bits behind the point, and rounds as asked.
    if (x < 0x38800000)
      return {uint16_t(sign | (float_bits(bits_float(x) + 0.5f) - float_bits(0.5f)))};
    return {uint16_t(sign | ((x + 0xfff + (x >> 13 & 1) - (112u << 23)) >> 13))};
  }
};
template <> struct FromFloat<Float8> {
  static SHMEM_HD_ Float8 of(float v) {
    const uint32_t sign = float_bits(v) >> 24 & 0x80, x = float_bits(v) & 0x7fffffff;
    const uint32_t y = x > 0x7f800000    ? 0x7f
                       : x >= 0x43e00000 ? 0x7e // what is above 448 becomes 448
                       : x < 0x3c800000  ? float_bits(bits_float(x) + 0x1p14f) - float_bits(0x1p14f)
                                         : (x + 0x7ffff + (x >> 20 & 1) - (120u << 23)) >> 20;
    return {uint8_t(sign | y)};
  }
};
template <class T> SHMEM_HD_ inline T from_float(float v) {
  return FromFloat<T>::of(v);
}

// Eight at once. Platforms that have instructions for it specialize this.
template <class T> struct Rounding {
  static SHMEM_D_ void of(const float (&v)[8], T (&to)[8]) {
    SHMEM_UNROLL_
    for (unsigned e = 0; e < 8; e++) to[e] = from_float<T>(v[e]);
  }
};

} // namespace shmem::gemm
