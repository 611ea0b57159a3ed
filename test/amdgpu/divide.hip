// SPDX-License-Identifier: MIT
// Quotients and remainders, for which compilers make long sequences of instructions that scale,
// approximate and correct: what a kernel finds must be what the host finds, bit for bit.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime.h>
#include <limits>

template <class T> struct Values { T a[64], b[64], quotient[64], rest[64]; };
template <class T> __global__ void divide(Values<T> *v) {
  const unsigned i = threadIdx.x;
  v->quotient[i] = v->a[i] / v->b[i];
}
template <class T> __global__ void divide_integers(Values<T> *v) {
  const unsigned i = threadIdx.x;
  v->quotient[i] = v->a[i] / v->b[i], v->rest[i] = v->a[i] % v->b[i];
}

// Numbers that the compiler knows to be small, which it divides by an approximate reciprocal. Of 23
// and 24 bits it does so wrongly (LLVM 201186, 202753; 2026): one ulp more or less of 1/3 counts
// there, and the manual does not promise better.
template <class T> __global__ void divide_narrow(Values<T> *v) {
  const unsigned i = threadIdx.x;
  const T a = v->a[i] & 0x3fffff, b = v->b[i] & 0x3fffff;
  v->quotient[i] = a / b, v->rest[i] = a % b;
}

static uint64_t state = 88172645463325252;
static uint64_t random_bits() {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
// Of all magnitudes, special numbers among them.
template <class T> static void fill(T (&values)[64]) {
  for (T &v : values) {
    const uint64_t bits = random_bits() >> random_bits() % 4 * 16 % (8 * sizeof(T));
    memcpy(&v, &bits, sizeof v);
  }
}
template <class T>
static int check(const char *type, void (*kernel)(Values<T> *), bool integers,
                 bool narrow = false) {
  Values<T> *v;
  if (hipHostMalloc(reinterpret_cast<void **>(&v), sizeof *v, 0) != hipSuccess) return 1;
  for (int round = 0; round < 20; round++) {
    fill(v->a), fill(v->b);
    if constexpr (T(0.5) == T(0)) // of integers
      for (T &b : v->b) b |= 1;
    if constexpr (T(0.5) == T(0)) // as large as they may be, by small numbers, the harder to round
      if (narrow)
        for (int i = 0; i < 64; i++) {
          if (i < 32) v->b[i] = v->b[i] & 255 | 1, v->a[i] |= T(0x3fff00);
          v->a[i] &= 0x3fffff, v->b[i] &= 0x3fffff;
        }
    hipLaunchKernelGGL(kernel, dim3(1), dim3(64), 0, nullptr, v);
    if (hipDeviceSynchronize() != hipSuccess) return 1;
    for (int i = 0; i < 64; i++) {
      if (integers && v->b[i] == T(-1)) continue; // the host's own division may trap
      const T want = v->a[i] / v->b[i];
      T rest = 0;
      if constexpr (T(0.5) == T(0)) rest = v->a[i] % v->b[i];
      bool none = want != want && v->quotient[i] != v->quotient[i];
      if constexpr (T(0.5) != T(0)) // a subnormal quotient may be rounded twice
        none |= want < std::numeric_limits<T>::min() && want > -std::numeric_limits<T>::min() &&
                v->quotient[i] < 2 * std::numeric_limits<T>::min() &&
                v->quotient[i] > -2 * std::numeric_limits<T>::min();
      if (!none &&
          (memcmp(&want, &v->quotient[i], sizeof want) || (integers && rest != v->rest[i])))
        return printf("%s: lane %d: %g / %g is %a, not %a\n", type, i, double(v->a[i]),
                      double(v->b[i]), double(v->quotient[i]), double(want)),
               1;
    }
  }
  return 0;
}

int main() {
  int failed = check<float>("float", divide<float>, false) +
               check<double>("double", divide<double>, false) +
               check<uint32_t>("uint32_t", divide_integers<uint32_t>, true) +
               check<uint32_t>("22 bits", divide_narrow<uint32_t>, true, true) +
               check<uint64_t>("22 bits of 64", divide_narrow<uint64_t>, true, true) +
               check<int32_t>("int32_t", divide_integers<int32_t>, true) +
               check<uint64_t>("uint64_t", divide_integers<uint64_t>, true) +
               check<int64_t>("int64_t", divide_integers<int64_t>, true);
  return failed > 0;
}
