// SPDX-License-Identifier: MIT
#include <cmath>

#include "../../device/number.hpp"
extern "C" {
#include "harness.h"
void numbers(void);
}

using shmem::Float8, shmem::Float8Fnuz, shmem::from_float, shmem::to_float;

namespace {

// E4M3 of both kinds against the nearest of all numbers that there are, ties to the even one.
template <class F8> void small_numbers(float most, int bias, bool fnuz) {
  const auto decoded = [&](unsigned bits) {
    const unsigned e = bits >> 3 & 15, part = bits & 7;
    const double size =
        e ? std::ldexp(8 + part, int(e) - bias - 3) : std::ldexp(part, 1 - bias - 3);
    return bits & 0x80 ? -size : size;
  };
  for (unsigned b = 0; b < 256; b++) {
    const bool nan = fnuz ? b == 0x80 : (b & 0x7f) == 0x7f;
    const float v = to_float(F8{uint8_t(b)});
    CHECK(nan ? std::isnan(v) : double(v) == decoded(b), "0x%02x is %g", b, double(v));
    CHECK(nan || from_float<F8>(v).bits == b, "%g is not 0x%02x", double(v), b);
  }
  uint64_t seed = 7;
  for (int i = 0; i < 20000; i++) {
    float v = std::ldexp(float(pe_random(&seed) % 65536) + (i & 1 ? 0.5f : 0),
                         int(pe_random(&seed) % 24) - 26);
    if (i % 3 == 0) v = float(decoded(i % 126) + decoded(i % 126 + 1)) / 2; // a tie
    unsigned best = 0;
    for (unsigned b = 1; b < (fnuz ? 128u : 127u); b++) {
      const double d = std::fabs(decoded(b) - double(v)),
                   least = std::fabs(decoded(best) - double(v));
      if (d < least || (d == least && b % 2 == 0)) best = b;
    }
    CHECK(from_float<F8>(v).bits == best, "%g: 0x%02x, want 0x%02x", double(v),
          from_float<F8>(v).bits, best);
    const unsigned negative = best || !fnuz ? best | 0x80 : 0;
    CHECK(from_float<F8>(-v).bits == negative, "-%g: 0x%02x", double(v), from_float<F8>(-v).bits);
  }
  CHECK(double(to_float(from_float<F8>(1e30f))) == double(most), "what is too large");
  CHECK(std::isnan(to_float(from_float<F8>(std::nanf("")))), "not a number");
}
} // namespace

void numbers(void) {
  small_numbers<Float8>(448, 7, false);
  small_numbers<Float8Fnuz>(240, 8, true);
}
