// SPDX-License-Identifier: MIT
// Shared by the tests of instructions: numbers, and the registers of a wave.
#pragma once
#include "decode.hpp"
#include <csetjmp>
#include <cstdarg>
#include <random>

extern "C" {
#include <cmocka.h>
#undef stop // a macro of cmocka 2
}

void test_vector(void **);

namespace amdgpu {

inline float f(uint64_t bits) {
  return std::bit_cast<float>(uint32_t(bits));
}
inline double d(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
inline uint64_t of(float v) {
  return std::bit_cast<uint32_t>(v);
}
inline uint64_t of(double v) {
  return std::bit_cast<uint64_t>(v);
}

inline std::mt19937_64 randoms(20261121);
inline constexpr uint64_t special[] = {0,
                                       1,
                                       ~0ull,
                                       0x8000000080000000,
                                       0x7fffffff7fffffff,
                                       0x3ff000003f800000,
                                       0x7ff000007f800000,
                                       0xfff00000ff800000,
                                       0x7ff800007fc00000,
                                       0x0000000100000001,
                                       0x41dfffffffc00000,
                                       0x4f000000cf000000,
                                       0x7c003c00fc0083ff}; // of halves
inline uint64_t number(int lane) {
  if (lane % 3 == 0) return special[randoms() % std::size(special)];
  return lane % 3 == 1 ? randoms() : (randoms() % 2000 - 1000) * 0x100000001;
}

inline Wave fresh() {
  Wave w;
  w.v.resize(16 * lanes);
  return w;
}
inline void set(Wave &w, int reg, int lane, uint64_t v) {
  w.v[size_t(reg) * lanes + size_t(lane)] = uint32_t(v),
                            w.v[size_t(reg + 1) * lanes + size_t(lane)] = uint32_t(v >> 32);
}
inline uint64_t get(const Wave &w, int reg, int lane) {
  return w.v[size_t(reg) * lanes + size_t(lane)] |
         uint64_t(w.v[size_t(reg + 1) * lanes + size_t(lane)]) << 32;
}

} // namespace amdgpu
