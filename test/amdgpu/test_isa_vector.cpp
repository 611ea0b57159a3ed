// SPDX-License-Identifier: MIT
// Instructions of the vector unit, a lane for itself: all lanes, random and special numbers, with
// lanes that are off.
#include "test_isa.hpp"
#include <cmath>
#include <cstring>
#include <limits>

using namespace amdgpu;

namespace {

using Reference = uint64_t (*)(uint64_t a, uint64_t b, uint64_t c, bool in, bool &out);
struct Case {
  const char *text; // sources in v[4:5], v[6:7], v[8:9], result in v[0:1]; carries in vcc
  int bits;         // of the result
  Reference want;
  bool carries = false; // whether out is what vcc must become
};
uint32_t reversed(uint32_t v) {
  uint32_t r = 0;
  for (int i = 0; i < 32; i++) r = r << 1 | (v >> i & 1);
  return r;
}

using Wide = __int128;
Wide wide(uint64_t v) { // the lower half, without a sign
  return uint32_t(v);
}
Wide sign(uint64_t v) { // with one
  return int32_t(v);
}
Wide low_24(uint64_t v) { // 24 bits of it, with one
  return v % (1 << 24) < 1 << 23 ? Wide(v % (1 << 24)) : Wide(v % (1 << 24)) - (1 << 24);
}
template <class T> uint64_t nearest(Wide v) {
  constexpr Wide least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return std::make_unsigned_t<T>(v < least ? least : v > most ? most : v);
}

// Of halves, by the words of IEEE 754. 0x7c00 follows the largest number.
float size_of(uint32_t h) {
  return h < 0x400 ? std::ldexp(float(h), -24)
                   : std::ldexp(float(1024 + h % 1024), int(h / 1024) - 25);
}
float h(uint64_t bits) {
  const uint32_t rest = bits % 0x8000;
  const float size = rest < 0x7c00 ? size_of(rest) : rest == 0x7c00 ? INFINITY : NAN;
  return bits & 0x8000 ? -size : size;
}
uint64_t half(float v) { // the nearest, of two the even one
  if (std::isnan(v)) return 0x7e00;
  const double size = std::fabs(v);
  uint32_t low = 0;
  for (uint32_t bit = 0x4000; bit; bit /= 2)
    if (low + bit < 0x7c00 && double(size_of(low + bit)) <= size) low += bit;
  const double below = size - double(size_of(low)), above = double(size_of(low + 1)) - size;
  if (above < below || (below == above && low % 2)) low++;
  return low | (std::signbit(v) ? 0x8000u : 0);
}
constexpr uint64_t before = 0x1234567840490fdb, in_s10 = 0x3c00c500; // v[0:1] and s10

#define ARGS uint64_t a, uint64_t b, uint64_t c, bool in, bool &out
#define USE (void)a, (void)b, (void)c, (void)in, (void)out
#define CASE(text, bits, ...)                                                                      \
  {                                                                                                \
    text, bits, [](ARGS) -> uint64_t {                                                             \
      USE;                                                                                         \
      return uint64_t(__VA_ARGS__);                                                                \
    }                                                                                              \
  }
#define WITH_CARRY(text, ...)                                                                      \
  {                                                                                                \
    text, 32,                                                                                      \
        [](ARGS) -> uint64_t {                                                                     \
          USE;                                                                                     \
          __VA_ARGS__;                                                                             \
        },                                                                                         \
        true                                                                                       \
  }
#define COMPARISON(text, ...)                                                                      \
  {                                                                                                \
    text, 0,                                                                                       \
        [](ARGS) -> uint64_t {                                                                     \
          USE;                                                                                     \
          out = __VA_ARGS__;                                                                       \
          return 0;                                                                                \
        },                                                                                         \
        true                                                                                       \
  }

const Case cases[] = {
    CASE("v_add_u32_e32 v0, v4, v6", 32, a + b),
    CASE("v_add_u32_e32 v0, 7, v6", 32, 7 + b),
    CASE("v_sub_u32_e32 v0, v4, v6", 32, a - b),
    CASE("v_subrev_u32_e32 v0, v4, v6", 32, b - a),
    CASE("v_and_b32_e32 v0, 0x80ff, v6", 32, 0x80ff & b),
    CASE("v_xor_b32_e32 v0, v4, v6", 32, a ^ b),
    CASE("v_lshlrev_b32_e32 v0, v4, v6", 32, b << a % 32),
    CASE("v_lshrrev_b32_e32 v0, v4, v6", 32, uint32_t(b) >> a % 32),
    CASE("v_ashrrev_i32_e32 v0, v4, v6", 32, int32_t(b) >> a % 32),
    CASE("v_min_i32_e32 v0, v4, v6", 32, int32_t(a) < int32_t(b) ? a : b),
    CASE("v_max_u32_e32 v0, v4, v6", 32, uint32_t(a) > uint32_t(b) ? a : b),
    CASE("v_mul_lo_u32 v0, v4, v6", 32, a *b),
    CASE("v_mul_hi_u32 v0, v4, v6", 32, uint64_t(uint32_t(a)) * uint32_t(b) >> 32),
    CASE("v_mul_hi_i32 v0, v4, v6", 32, int64_t(int32_t(a)) * int32_t(b) >> 32),
    CASE("v_mul_u32_u24_e32 v0, v4, v6", 32, (a % (1 << 24)) * (b % (1 << 24))),
    CASE("v_mul_hi_i32_i24_e32 v0, v4, v6", 32,
         (int64_t(a << 40) >> 40) * (int64_t(b << 40) >> 40) >> 32),
    CASE("v_mad_u32_u24 v0, v4, v6, v8", 32, (a % (1 << 24)) * (b % (1 << 24)) + c),
    CASE("v_add3_u32 v0, v4, v6, v8", 32, a + b + c),
    CASE("v_lshl_add_u32 v0, v4, v6, v8", 32, (uint32_t(a) << b % 32) + c),
    CASE("v_lshl_or_b32 v0, v4, v6, v8", 32, uint32_t(a) << b % 32 | c),
    CASE("v_and_or_b32 v0, v4, v6, v8", 32, (a & b) | c),
    CASE("v_bfe_u32 v0, v4, 5, 7", 32, uint32_t(a) / 32 % 128),
    CASE("v_bfe_i32 v0, v4, 5, 7", 32,
         uint32_t(a) / 32 % 128 < 64 ? uint32_t(a) / 32 % 128 : uint32_t(a) / 32 % 128 - 128),
    CASE("v_bitop3_b32 v0, v4, v6, v8 bitop3:0x6c", 32, b ^ (a & c)),
    CASE("v_bitop3_b32 v0, v4, 3, v8 bitop3:0x48", 32, (a ^ c) & 3),
    CASE("v_bitop3_b32 v0, v4, v6, v8 bitop3:0xca", 32, (a & b) | (~a & c)),
    CASE("v_bitop3_b32 v0, v4, v6, v8 bitop3:0x01", 32, ~(a | b | c)),
    CASE("v_bitop3_b16 v0, v4, v6, v8 bitop3:0x6c", 32, uint16_t(b ^ (a & c))),
    CASE("v_bitop3_b16 v0, v4, v6, v8 bitop3:0x01", 32, uint16_t(~(a | b | c))),
    CASE("v_bfi_b32 v0, v4, v6, v8", 32, (a & b) | (~a & c)),
    CASE("v_alignbit_b32 v0, v4, v6, 9", 32, uint32_t(a) << 23 | uint32_t(b) >> 9),
    CASE("v_perm_b32 v0, v4, v6, 0x0c040500", 32,
         (a & 255) << 16 | (a >> 8 & 255) << 8 | (b & 255)),
    CASE("v_perm_b32 v0, v4, v6, 0x0d0d0d07", 32, 0xffffff00 | (a >> 24 & 255)),
    CASE("v_bfrev_b32_e32 v0, v4", 32, reversed(uint32_t(a))),
    CASE("v_ffbh_u32_e32 v0, v4", 32, uint32_t(a) ? __builtin_clz(uint32_t(a)) : -1),
    CASE("v_ffbl_b32_e32 v0, v4", 32, uint32_t(a) ? __builtin_ctz(uint32_t(a)) : -1),
    CASE("v_bcnt_u32_b32 v0, v4, v6", 32, __builtin_popcount(uint32_t(a)) + b),
    CASE("v_lshlrev_b64 v[0:1], v4, v[6:7]", 64, b << a % 64),
    CASE("v_lshrrev_b64 v[0:1], v4, v[6:7]", 64, b >> a % 64),
    CASE("v_ashrrev_i64 v[0:1], 63, v[6:7]", 64, int64_t(b) >> 63),
    CASE("v_mad_u64_u32 v[0:1], s[30:31], v4, v6, v[8:9]", 64,
         uint64_t(uint32_t(a)) * uint32_t(b) + c),
    CASE("v_mad_i64_i32 v[0:1], s[30:31], v4, v6, v[8:9]", 64,
         uint64_t(int64_t(int32_t(a)) * int32_t(b)) + c),
    CASE("v_cndmask_b32_e32 v0, v4, v6, vcc", 32, in ? b : a),
    CASE("v_cndmask_b32_e64 v0, 0, 1, vcc", 32, in),
    CASE("v_add_u16_e32 v0, v4, v6", 32, uint16_t(a + b)),
    CASE("v_max_i16_e32 v0, v4, v6", 32, uint16_t(int16_t(a) > int16_t(b) ? a : b)),
    CASE("v_mul_lo_u16_e32 v0, v4, v6", 32, uint16_t(uint16_t(a) * uint32_t(uint16_t(b)))),
    CASE("v_lshrrev_b16_e32 v0, 3, v6", 32, uint16_t(b) >> 3),
    CASE("v_pk_add_u16 v0, v4, v6", 32,
         uint32_t(a + (b << 16 >> 16)) % 65536 | ((uint32_t(a) >> 16) + (uint32_t(b) >> 16)) << 16),
    CASE("v_pk_max_u16 v0, v4, v6 op_sel:[1,0] op_sel_hi:[0,1]", 32,
         std::max(uint16_t(a >> 16), uint16_t(b)) |
             uint32_t(std::max(uint16_t(a), uint16_t(b >> 16))) << 16),
    // Parts of registers
    CASE("v_add_u32_sdwa v0, v4, v6 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 "
         "src1_sel:WORD_1",
         32, (a >> 8 & 255) + (b >> 16 & 65535)),
    CASE("v_add_u32_sdwa v0, sext(v4), v6 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_3 "
         "src1_sel:DWORD",
         32, (uint32_t(int8_t(a >> 24)) + b) << 16),
    CASE("v_or_b32_sdwa v0, v4, v6 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:DWORD "
         "src1_sel:DWORD",
         32, int32_t(int8_t(a | b)) * 256),
    // Floating point
    CASE("v_madmk_f32 v0, v4, 0xcf800000, v6", 32, of(float(f(a) * -0x1p32f) + f(b))),
    CASE("v_madak_f32 v0, v4, v6, 0x40400000", 32, of(float(f(a) * f(b)) + 3.0f)),
    CASE("v_add_f32_e32 v0, v4, v6", 32, of(f(a) + f(b))),
    CASE("v_add_f32_e64 v0, -|v4|, v6 mul:2", 32, of((-std::fabs(f(a)) + f(b)) * 2.0f)),
    CASE("v_mul_f32_e32 v0, 0.5, v6", 32, of(0.5f * f(b))),
    CASE("v_fma_f32 v0, v4, -v6, 1.0", 32, of(std::fma(f(a), -f(b), 1.0f))),
    CASE("v_fmac_f32_e32 v0, v4, v6", 32, of(std::fma(f(a), f(b), f(0x40490fdb)))),
    CASE("v_max_f32_e32 v0, v4, v6", 32, of(std::fmax(f(a), f(b)))),
    CASE("v_rndne_f32_e32 v0, v4", 32, of(std::nearbyint(f(a)))),
    CASE("v_trunc_f32_e32 v0, v4", 32, of(std::trunc(f(a)))),
    CASE("v_ldexp_f32 v0, v4, 3", 32, of(f(a) * 8.0f)),
    CASE("v_cvt_f32_u32_e32 v0, v4", 32, of(float(uint32_t(a)))),
    CASE("v_cvt_f32_i32_e32 v0, v4", 32, of(float(int32_t(a)))),
    CASE("v_cvt_u32_f32_e32 v0, v4", 32,
         !(f(a) > 0)             ? 0
         : f(a) >= 4294967296.0f ? 0xffffffff
                                 : uint32_t(f(a))),
    CASE("v_cvt_i32_f32_e32 v0, v4", 32,
         std::isnan(f(a))         ? 0
         : f(a) >= 2147483648.0f  ? 0x7fffffff
         : f(a) <= -2147483648.0f ? 0x80000000
                                  : uint32_t(int32_t(f(a)))),
    CASE("v_add_f64 v[0:1], v[4:5], -v[6:7]", 64, of(d(a) - d(b))),
    CASE("v_fma_f64 v[0:1], v[4:5], v[6:7], 1.0", 64, of(std::fma(d(a), d(b), 1.0))),
    CASE("v_cvt_f32_f64_e32 v0, v[4:5]", 32, of(float(d(a)))),
    CASE("v_pk_mov_b32 v[0:1], v[4:5], v[6:7] op_sel:[0,1]", 64, a << 32 >> 32 | b >> 32 << 32),
    CASE("v_pk_mov_b32 v[0:1], v[4:5], v[6:7] op_sel:[1,0]", 64, a >> 32 | b << 32),
    CASE("v_pk_mul_f32 v[0:1], v[4:5], v[6:7]", 64,
         of(f(a) * f(b)) | of(f(a >> 32) * f(b >> 32)) << 32),
    // Floats and halves together
    CASE("v_fma_mix_f32 v0, v4, v6, v8", 32, of(std::fma(f(a), f(b), f(c)))),
    CASE("v_fma_mix_f32 v0, -v4, |v6|, -|v8| op_sel_hi:[1,0,0]", 32,
         of(std::fma(-h(a), std::fabs(f(b)), -std::fabs(f(c))))),
    CASE("v_fma_mix_f32 v0, v4, -v6, |v8| op_sel:[0,1,0] op_sel_hi:[0,1,1]", 32,
         of(std::fma(f(a), -h(b >> 16), std::fabs(h(c))))),
    CASE("v_fma_mix_f32 v0, v4, v6, v8 op_sel:[1,1,1] op_sel_hi:[1,1,1]", 32,
         of(std::fma(h(a >> 16), h(b >> 16), h(c >> 16)))),
    CASE("v_fma_mix_f32 v0, v4, v6, v8 op_sel:[1,0,0]", 32, of(std::fma(f(a), f(b), f(c)))),
    CASE("v_fma_mix_f32 v0, v4, s10, -s10 op_sel:[0,0,1] op_sel_hi:[1,1,1]", 32,
         of(std::fma(h(a), h(in_s10), -h(in_s10 >> 16)))),
    CASE("v_fma_mix_f32 v0, v4, 1.0, v8 op_sel_hi:[1,0,1] clamp", 32,
         of(std::fmin(std::fmax(h(a) + h(c), 0.0f), 1.0f) + 0.0f)),
    CASE("v_fma_mixlo_f16 v0, v4, v6, v8 op_sel_hi:[1,1,1]", 32,
         half(std::fma(h(a), h(b), h(c))) | (before >> 16 & 65535) << 16),
    CASE("v_fma_mixlo_f16 v0, v4, -|v6|, v8 op_sel:[0,1,1] op_sel_hi:[0,1,1]", 32,
         half(std::fma(f(a), -std::fabs(h(b >> 16)), h(c >> 16))) | (before >> 16 & 65535) << 16),
    CASE("v_fma_mixlo_f16 v0, v4, 1.0, 0", 32, half(f(a) + 0.0f) | (before >> 16 & 65535) << 16),
    CASE("v_fma_mixhi_f16 v0, v4, v6, v8 op_sel:[1,0,0] op_sel_hi:[1,1,0]", 32,
         half(std::fma(h(a >> 16), h(b), f(c))) << 16 | before % 65536),
    CASE("v_fma_mixhi_f16 v0, v4, v6, s10 op_sel:[0,0,1] op_sel_hi:[1,1,1] clamp", 32,
         half(std::fmin(std::fmax(std::fma(h(a), h(b), h(in_s10 >> 16)), 0.0f), 1.0f) + 0.0f)
                 << 16 |
             before % 65536),
    CASE("v_add_f16_e64 v0, v4, s10 op_sel:[0,1,0]", 32, half(h(a) + h(in_s10 >> 16))),
    // Carries and comparisons
    WITH_CARRY("v_add_co_u32_e32 v0, vcc, v4, v6",
               out = (a % (1ull << 32) + b % (1ull << 32)) >> 32;
               return a + b),
    WITH_CARRY("v_sub_co_u32_e32 v0, vcc, v4, v6", out = uint32_t(a) < uint32_t(b); return a - b),
    WITH_CARRY("v_addc_co_u32_e32 v0, vcc, v4, v6, vcc",
               const uint64_t sum = a % (1ull << 32) + b % (1ull << 32) + in;
               out = sum >> 32; return sum),
    WITH_CARRY("v_subb_co_u32_e32 v0, vcc, v4, v6, vcc",
               const int64_t sum = int64_t(a % (1ull << 32)) - int64_t(b % (1ull << 32)) - in;
               out = sum < 0; return uint64_t(sum)),
    COMPARISON("v_cmp_lt_u32_e32 vcc, v4, v6", uint32_t(a) < uint32_t(b)),
    COMPARISON("v_cmp_ge_i32_e32 vcc, v4, v6", int32_t(a) >= int32_t(b)),
    COMPARISON("v_cmp_eq_u64_e32 vcc, v[4:5], v[6:7]", a == b),
    COMPARISON("v_cmp_gt_i64_e32 vcc, v[4:5], v[6:7]", int64_t(a) > int64_t(b)),
    COMPARISON("v_cmp_lt_u16_e32 vcc, v4, v6", uint16_t(a) < uint16_t(b)),
    COMPARISON("v_cmp_lt_f32_e32 vcc, v4, v6", f(a) < f(b)),
    COMPARISON("v_cmp_ngt_f32_e32 vcc, v4, v6", !(f(a) > f(b))),
    COMPARISON("v_cmp_u_f64_e32 vcc, v[4:5], v[6:7]", std::isnan(d(a)) || std::isnan(d(b))),
    // Clamp: the nearest integer that the destination can hold
    CASE("v_add_u32_e64 v0, v4, v6 clamp", 32, nearest<uint32_t>(wide(a) + wide(b))),
    CASE("v_sub_u32_e64 v0, v4, v6 clamp", 32, nearest<uint32_t>(wide(a) - wide(b))),
    CASE("v_subrev_u32_e64 v0, v4, v6 clamp", 32, nearest<uint32_t>(wide(b) - wide(a))),
    CASE("v_sub_u32_sdwa v0, v4, v6 clamp dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 "
         "src1_sel:WORD_1",
         32, nearest<uint32_t>(wide(a >> 8 & 255) - wide(b >> 16 & 65535))),
    CASE("v_add_i32 v0, v4, v6", 32, a + b),
    CASE("v_sub_i32 v0, v4, v6", 32, a - b),
    CASE("v_add_i32 v0, v4, v6 clamp", 32, nearest<int32_t>(sign(a) + sign(b))),
    CASE("v_sub_i32 v0, v4, v6 clamp", 32, nearest<int32_t>(sign(a) - sign(b))),
    CASE("v_mul_u32_u24_e64 v0, v4, v6 clamp", 32,
         nearest<uint32_t>(wide(a % (1 << 24)) * wide(b % (1 << 24)))),
    CASE("v_mul_i32_i24_e64 v0, v4, v6 clamp", 32, nearest<int32_t>(low_24(a) * low_24(b))),
    CASE("v_mad_u32_u24 v0, v4, v6, v8 clamp", 32,
         nearest<uint32_t>(wide(a % (1 << 24)) * wide(b % (1 << 24)) + wide(c))),
    CASE("v_mad_i32_i24 v0, v4, v6, v8 clamp", 32,
         nearest<int32_t>(low_24(a) * low_24(b) + sign(c))),
    CASE("v_mad_u32_u16 v0, v4, v6, v8 clamp", 32,
         nearest<uint32_t>(wide(uint16_t(a)) * wide(uint16_t(b)) + wide(c))),
    CASE("v_mad_i32_i16 v0, v4, v6, v8 clamp", 32,
         nearest<int32_t>(Wide(int16_t(a)) * int16_t(b) + sign(c))),
    CASE("v_sad_u32 v0, v4, v6, v8 clamp", 32,
         nearest<uint32_t>((wide(a) > wide(b) ? wide(a) - wide(b) : wide(b) - wide(a)) + wide(c))),
    CASE("v_mad_u64_u32 v[0:1], s[30:31], v4, v6, v[8:9] clamp", 64,
         nearest<uint64_t>(wide(a) * wide(b) + c)),
    CASE("v_mad_i64_i32 v[0:1], s[30:31], v4, v6, v[8:9] clamp", 64,
         nearest<int64_t>(sign(a) * sign(b) + int64_t(c))),
    CASE("v_add_u16_e64 v0, v4, v6 clamp", 32, nearest<uint16_t>(wide(uint16_t(a)) + uint16_t(b))),
    CASE("v_sub_u16_e64 v0, v4, v6 clamp", 32, nearest<uint16_t>(wide(uint16_t(a)) - uint16_t(b))),
    CASE("v_subrev_u16_e64 v0, v4, v6 clamp", 32,
         nearest<uint16_t>(wide(uint16_t(b)) - uint16_t(a))),
    CASE("v_add_i16 v0, v4, v6 clamp", 32, nearest<int16_t>(Wide(int16_t(a)) + int16_t(b))),
    CASE("v_sub_i16 v0, v4, v6 clamp", 32, nearest<int16_t>(Wide(int16_t(a)) - int16_t(b))),
    CASE("v_mad_u16 v0, v4, v6, v8 clamp", 32,
         nearest<uint16_t>(wide(uint16_t(a)) * uint16_t(b) + uint16_t(c))),
    CASE("v_mad_legacy_u16 v0, v4, v6, v8 clamp", 32,
         nearest<uint16_t>(wide(uint16_t(a)) * uint16_t(b) + uint16_t(c))),
    CASE("v_mad_i16 v0, v4, v6, v8 clamp", 32,
         nearest<int16_t>(Wide(int16_t(a)) * int16_t(b) + int16_t(c))),
    CASE("v_mad_legacy_i16 v0, v4, v6, v8 clamp", 32,
         nearest<int16_t>(Wide(int16_t(a)) * int16_t(b) + int16_t(c))),
    CASE("v_pk_add_u16 v0, v4, v6 clamp", 32,
         nearest<uint16_t>(wide(uint16_t(a)) + uint16_t(b)) |
             nearest<uint16_t>(wide(uint16_t(a >> 16)) + uint16_t(b >> 16)) << 16),
    CASE("v_pk_sub_u16 v0, v4, v6 clamp", 32,
         nearest<uint16_t>(wide(uint16_t(a)) - uint16_t(b)) |
             nearest<uint16_t>(wide(uint16_t(a >> 16)) - uint16_t(b >> 16)) << 16),
    CASE("v_pk_add_i16 v0, v4, v6 clamp", 32,
         nearest<int16_t>(Wide(int16_t(a)) + int16_t(b)) |
             nearest<int16_t>(Wide(int16_t(a >> 16)) + int16_t(b >> 16)) << 16),
    CASE("v_pk_sub_i16 v0, v4, v6 clamp", 32,
         nearest<int16_t>(Wide(int16_t(a)) - int16_t(b)) |
             nearest<int16_t>(Wide(int16_t(a >> 16)) - int16_t(b >> 16)) << 16),
    CASE("v_pk_mad_u16 v0, v4, v6, v8 clamp", 32,
         nearest<uint16_t>(wide(uint16_t(a)) * uint16_t(b) + uint16_t(c)) |
             nearest<uint16_t>(wide(uint16_t(a >> 16)) * uint16_t(b >> 16) + uint16_t(c >> 16))
                 << 16),
    CASE("v_pk_mad_i16 v0, v4, v6, v8 clamp", 32,
         nearest<int16_t>(Wide(int16_t(a)) * int16_t(b) + int16_t(c)) |
             nearest<int16_t>(Wide(int16_t(a >> 16)) * int16_t(b >> 16) + int16_t(c >> 16)) << 16),
    WITH_CARRY("v_add_co_u32_e64 v0, vcc, v4, v6 clamp", out = (wide(a) + wide(b)) >> 32 != 0;
               return nearest<uint32_t>(wide(a) + wide(b))),
    WITH_CARRY("v_subb_co_u32_e64 v0, vcc, v4, v6, vcc clamp", out = wide(a) < wide(b) + in;
               return nearest<uint32_t>(wide(a) - wide(b) - in)),
};

uint64_t plain(const char *text, uint64_t v) { // a NaN's payload does not matter
  const bool halves = strstr(text, "f16");
  const int at = strstr(text, "mixhi") ? 16 : 0;
  if (strstr(text, "f64 v[")) return std::isnan(d(v)) ? of(double(NAN)) : v;
  if (halves && std::isnan(h(v >> at))) v = (v & ~(65535ull << at)) | 0x7e00ull << at;
  if (!halves && strstr(text, "f32") && std::isnan(f(v))) v = v >> 32 << 32 | of(NAN);
  if (strstr(text, "pk_mul_f32") && std::isnan(f(v >> 32))) v = of(NAN) << 32 | v % (1ull << 32);
  return v;
}

} // namespace

void test_vector(void **) {
  for (const Case &t : cases) {
    const Op op = parse(t.text);
    if (!op.run) fail_msg("%s: not in the table", t.text);
    for (const uint64_t mask : {~0ull, 0x5555aaaa00ff0001ull, 0ull}) {
      Wave w = fresh();
      const uint64_t in = randoms();
      uint64_t carries = 0, wanted[lanes];
      for (int i = 0; i < lanes; i++) {
        const uint64_t a = number(i), b = number(i + 1), c = number(i / 2);
        set(w, 4, i, a), set(w, 6, i, b), set(w, 8, i, c), set(w, 0, i, before);
        bool out = false;
        wanted[i] = t.want(a, b, c, in >> i & 1, out);
        if (t.bits == 32) wanted[i] = uint32_t(wanted[i]) | before >> 32 << 32;
        if (!t.bits || !(mask >> i & 1)) wanted[i] = before;
        carries |= uint64_t(out && mask >> i & 1) << i;
      }
      w.set_pair(Wave::exec, mask), w.set_pair(Wave::vcc, in), w.set_pair(10, in_s10);
      op.run(w, op);
      for (int i = 0; i < lanes; i++) {
        const uint64_t seen = get(w, 0, i);
        if (plain(t.text, seen) != plain(t.text, wanted[i]))
          fail_msg("%s: lane %d: 0x%lx 0x%lx 0x%lx: 0x%lx, not 0x%lx", t.text, i, get(w, 4, i),
                   get(w, 6, i), get(w, 8, i), seen, wanted[i]);
      }
      if (t.carries && w.pair(Wave::vcc) != carries)
        fail_msg("%s: vcc 0x%lx, not 0x%lx", t.text, w.pair(Wave::vcc), carries);
    }
  }
}
