// SPDX-License-Identifier: MIT
// The instructions of a division beside the words of the ISA manual (AMD Instinct MI300,
// V_DIV_SCALE_F32, V_DIV_FMAS_F32, V_DIV_FIXUP_F32 and those of F64), worked out by hand: a row has
// operands and the result.
//
// Where the manual's words would make divisions wrong, rows have the right results: v_div_fmas
// scales back by 2^64 or 2^-64 (F64: 128), as an RDNA3 was seen to do, and not by 2^32 (64);
// v_div_fixup takes a quotient that is NaN though its operands are finite for one past the largest,
// as was seen there, too (both tinygrad, extra/assembly/amd/test/hw, 2026); and where both the
// reciprocal and the quotient would be subnormal, v_div_scale scales the denominator, which is
// 2^126 or more, down and not up.
#include "decode.hpp"
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <limits>

extern "C" {
#include <cmocka.h>
#undef stop // a macro of cmocka 2
}

using namespace amdgpu;

namespace {

template <class T> constexpr T inf = std::numeric_limits<T>::infinity();
template <class T> constexpr T nan = std::numeric_limits<T>::quiet_NaN();

template <class T> struct Row {
  T in[3], want;
  bool flag = false; // a bit of vcc: v_div_scale makes it, v_div_fmas takes it
};
// The formats' differences: exponents of the smallest and of the largest number, how far a
// quotient's are apart to be large, the scale, how large a tiny numerator's field may be, how far
// apart a quotient is nothing.
template <class T> struct Format;
template <> struct Format<float> {
  static constexpr int least = -149, most = 127, far = 96, up = 64, tiny = 23, under = -150;
};
template <> struct Format<double> {
  static constexpr int least = -1074, most = 1023, far = 768, up = 128, tiny = 53, under = -1075;
};
template <class T> T two(int exponent) {
  return std::ldexp(T(1), exponent);
}

template <class T, size_t n> void check(const char *name, const Row<T> (&rows)[n]) {
  char text[96];
  const bool scales = !strcmp(name, "scale"), wide = sizeof(T) == 8;
  snprintf(text, sizeof text, "v_div_%s_f%d %s, %s%s, %s, %s", name, wide ? 64 : 32,
           wide ? "v[0:1]" : "v0", scales ? "vcc, " : "", wide ? "v[4:5]" : "v4",
           wide ? "v[6:7]" : "v6", wide ? "v[8:9]" : "v8");
  const Op op = parse(text);
  if (!op.run) fail_msg("%s: not in the table", text);
  for (size_t row = 0; row < n; row++) {
    const Row<T> &r = rows[row];
    Wave w;
    w.v.resize(12 * lanes);
    w.set_pair(Wave::exec, 2); // one lane, and nothing of the others
    w.set_pair(Wave::vcc, scales ? ~0ull : r.flag ? 2 : ~2ull);
    for (size_t k = 0; k < 3; k++)
      for (size_t word = 0; word < sizeof(T) / 4; word++)
        memcpy(&w.v[(4 + 2 * k + word) * lanes + 1],
               reinterpret_cast<const char *>(&r.in[k]) + 4 * word, 4);
    op.run(w, op);
    T got;
    for (size_t word = 0; word < sizeof(T) / 4; word++)
      memcpy(reinterpret_cast<char *>(&got) + 4 * word, &w.v[word * lanes + 1], 4);
    const bool none = scales && std::isnan(r.want); // whose bits the manual does not say
    if ((none ? !std::isnan(got) : memcmp(&got, &r.want, sizeof got)) ||
        (scales && w.pair(Wave::vcc) != (r.flag ? 2 : 0)) || w.v[0] || w.v[lanes])
      fail_msg("%s: row %zu, of %a %a %a: %a and vcc 0x%zx, not %a and %d", text, row,
               double(r.in[0]), double(r.in[1]), double(r.in[2]), double(got),
               size_t(w.pair(Wave::vcc)), double(r.want), r.flag);
  }
}

// Operands: the number to scale, the denominator, and the numerator.
template <class T> void test_scale(void **) {
  using Is = Format<T>;
  const T small = two<T>(Is::least), normal = 1 / two<T>(Is::most - 1), large = two<T>(Is::most),
          far = two<T>(Is::far), up = two<T>(Is::up), tiny = two<T>(Is::tiny - Is::most),
          low = two<T>(Is::least + 80), b = two<T>(70);
  const Row<T> rows[] = {
      {{1, 4, 1}, 1},
      {{4, 4, 1}, 4},
      {{-3, -3, 7}, -3},
      // "S2 == 0 or S1 == 0: NAN"
      {{0, 0, 1}, nan<T>},
      {{1, 0, 1}, nan<T>},
      {{0, 1, 0}, nan<T>},
      {{T(-0.0), 1, T(-0.0)}, nan<T>},
      // "exponent(S2) - exponent(S1) >= 96: VCC = 1, only scale the denominator"
      {{1, 1, far}, up, true},
      {{far, 1, far}, far, true},
      {{1, 1, far / 2}, 1},
      {{-1, -1, far}, -up, true},
      {{small, small, 1}, small * up, true},
      {{1, small, 1}, 1, true},
      {{inf<T>, 1, inf<T>}, inf<T>, true},
      // "S1 == DENORM": both are scaled
      {{small, small, normal}, small * up},
      {{normal, small, normal}, normal * up},
      {{3 * small, 5 * small, 3 * small}, 3 * small * up},
      // "1 / S1 == DENORM and S2 / S1 == DENORM: VCC = 1, only scale the denominator"
      {{large, large, T(0.125)}, large / up, true},
      {{T(0.125), large, T(0.125)}, T(0.125), true},
      // "1 / S1 == DENORM": both, down
      {{large, large, large}, large / up},
      {{large / 4 * 3, large, large / 4 * 3}, large / 4 * 3 / up},
      // "S2 / S1 == DENORM: VCC = 1, only scale the numerator"
      {{low, b, low}, low * up, true},
      {{b, b, low}, b, true},
      // "exponent(S2) <= 23: numerator is tiny": both
      {{tiny, 1, tiny}, tiny * up},
      {{1, 1, tiny}, up},
      {{2 * tiny, 1, 2 * tiny}, 2 * tiny},
  };
  check("scale", rows);
}

template <class T> void test_fmas(void **) {
  const T up = two<T>(Format<T>::up), q = two<T>(Format<T>::least + 4) * up;
  const Row<T> rows[] = {
      {{2, 3, 1}, 7},
      {{T(-0.5), 8, 3}, -1},
      {{1, 1, 2}, 3 * up, true},
      {{2, 3, 1}, 7 / up, true},
      {{2, 3, T(1.5)}, T(7.5) / up, true},
      {{2, 3, -4}, 2 * up, true},
      {{0, 1, q}, q / up, true}, // a quotient that is subnormal
      {{0, 1, two<T>(Format<T>::most)}, inf<T>, true},
  };
  check("fmas", rows);
}

// Operands: the quotient so far, the denominator, and the numerator.
template <class T> void test_fixup(void **) {
  using Is = Format<T>;
  T signalling = 0, quiet = 0;
  const uint64_t bits = sizeof(T) == 4 ? 0xffa00005 : 0xfff4000000000005,
                 quieted = bits | (sizeof(T) == 4 ? 1ull << 22 : 1ull << 51);
  memcpy(&signalling, &bits, sizeof(T)), memcpy(&quiet, &quieted, sizeof(T));
  const Row<T> rows[] = {
      {{3, 2, 6}, 3},
      {{3, -2, 6}, -3},
      {{-3, 2, 6}, 3},
      {{3, -2, -6}, 3},
      {{5, 1, nan<T>}, nan<T>},
      {{5, nan<T>, 1}, nan<T>},
      {{5, nan<T>, signalling}, quiet}, // the numerator's first
      {{5, signalling, 0}, quiet},
      {{nan<T>, 0, 0}, -nan<T>},
      {{nan<T>, -inf<T>, inf<T>}, -nan<T>},
      {{nan<T>, 0, 5}, inf<T>},
      {{nan<T>, T(-0.0), 5}, -inf<T>},
      {{1, 5, -inf<T>}, -inf<T>},
      {{1, inf<T>, 5}, 0},
      {{1, -inf<T>, 5}, T(-0.0)},
      {{nan<T>, 5, T(-0.0)}, T(-0.0)},
      {{1, -5, 0}, T(-0.0)},
      // "exponent(S2) - exponent(S1) < -150: UNDERFLOW"
      {{1, two<T>(100), two<T>(Is::under + 99)}, 0},
      {{1, -two<T>(100), two<T>(Is::under + 99)}, T(-0.0)},
      {{two<T>(Is::least), two<T>(100), two<T>(Is::under + 100)}, two<T>(Is::least)},
      {{nan<T>, two<T>(-90), -two<T>(90)}, -inf<T>},
      {{inf<T>, two<T>(-90), two<T>(90)}, inf<T>},
  };
  check("fixup", rows);
}

} // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_scale<float>), cmocka_unit_test(test_scale<double>),
      cmocka_unit_test(test_fmas<float>),  cmocka_unit_test(test_fmas<double>),
      cmocka_unit_test(test_fixup<float>), cmocka_unit_test(test_fixup<double>)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
