// SPDX-License-Identifier: MIT
// Instructions of the machine beside what the ISA manual says of them, written here once more in
// plain C++: all lanes, random and special numbers, with lanes that are off.
#include "decode.hpp"
#include "driver.hpp"
#include "memory.hpp"
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <random>

#if __has_include(<hsakmt.h>) || __has_include(<hsakmt/hsakmt.h>)
#include "hsakmt.hpp"
#else
#include "kfd.hpp"
#include <linux/kfd_ioctl.h>
#endif

extern "C" {
#include <cmocka.h>
}

using namespace amdgpu;

namespace {

using Reference = uint64_t (*)(uint64_t a, uint64_t b, uint64_t c, bool in, bool &out);
struct Case {
  const char *text; // sources in v[4:5], v[6:7], v[8:9], result in v[0:1]; carries in vcc
  int bits;         // of the result
  Reference want;
  bool carries = false; // whether out is what vcc must become
};

float f(uint64_t bits) {
  return std::bit_cast<float>(uint32_t(bits));
}
double d(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
uint64_t of(float v) {
  return std::bit_cast<uint32_t>(v);
}
uint64_t of(double v) {
  return std::bit_cast<uint64_t>(v);
}

uint32_t reversed(uint32_t v) {
  uint32_t r = 0;
  for (int i = 0; i < 32; i++) r = r << 1 | (v >> i & 1);
  return r;
}

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
    CASE("v_pk_mul_f32 v[0:1], v[4:5], v[6:7]", 64,
         of(f(a) * f(b)) | of(f(a >> 32) * f(b >> 32)) << 32),
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
};

std::mt19937_64 randoms(20261121);
constexpr uint64_t special[] = {0,
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
                                0x4f000000cf000000};
uint64_t number(int lane) {
  if (lane % 3 == 0) return special[randoms() % std::size(special)];
  return lane % 3 == 1 ? randoms() : (randoms() % 2000 - 1000) * 0x100000001;
}
bool nan_of(const char *text, int bits, uint64_t v) { // whose payload is nobody's business
  return strstr(text, "f64 v[") && bits == 64 ? std::isnan(d(v))
                                              : strstr(text, "f32") && std::isnan(f(v));
}

Wave fresh() {
  Wave w;
  w.v.resize(16 * lanes);
  return w;
}
void set(Wave &w, int reg, int lane, uint64_t v) {
  w.v[size_t(reg) * lanes + size_t(lane)] = uint32_t(v),
                            w.v[size_t(reg + 1) * lanes + size_t(lane)] = uint32_t(v >> 32);
}
uint64_t get(const Wave &w, int reg, int lane) {
  return w.v[size_t(reg) * lanes + size_t(lane)] |
         uint64_t(w.v[size_t(reg + 1) * lanes + size_t(lane)]) << 32;
}

void test_vector(void **) {
  for (const Case &t : cases) {
    const Op op = parse(t.text);
    if (!op.run) fail_msg("%s: not in the table", t.text);
    for (const uint64_t mask : {~0ull, 0x5555aaaa00ff0001ull, 0ull}) {
      Wave w = fresh();
      const uint64_t in = randoms(), before = 0x1234567840490fdb;
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
      w.set_pair(Wave::exec, mask), w.set_pair(Wave::vcc, in);
      op.run(w, op);
      for (int i = 0; i < lanes; i++) {
        const uint64_t seen = get(w, 0, i);
        if (seen != wanted[i] &&
            !(nan_of(t.text, t.bits, seen) && nan_of(t.text, t.bits, wanted[i])) &&
            !(strstr(t.text, "pk_mul_f32") && std::isnan(f(seen)) == std::isnan(f(wanted[i])) &&
              std::isnan(f(seen >> 32)) == std::isnan(f(wanted[i] >> 32))))
          fail_msg("%s: lane %d: 0x%lx 0x%lx 0x%lx: 0x%lx, not 0x%lx", t.text, i, get(w, 4, i),
                   get(w, 6, i), get(w, 8, i), seen, wanted[i]);
      }
      if (t.carries && w.pair(Wave::vcc) != carries)
        fail_msg("%s: vcc 0x%lx, not 0x%lx", t.text, w.pair(Wave::vcc), carries);
    }
  }
}

struct Scalar {
  const char *text; // of s[4:5] and s[6:7], to s[0:1]
  int bits;
  void (*want)(uint64_t a, uint64_t b, bool &scc, uint64_t &r);
};
#define SCALAR_CASE(text, bits, ...)                                                               \
  {                                                                                                \
    text, bits, [](uint64_t a, uint64_t b, bool &scc, uint64_t &r) {                               \
      (void)a, (void)b, (void)scc, (void)r;                                                        \
      __VA_ARGS__;                                                                                 \
    }                                                                                              \
  }
const Scalar scalars[] = {
    SCALAR_CASE("s_add_u32 s0, s4, s6", 32, r = a % (1ull << 32) + b % (1ull << 32); scc = r >> 32),
    SCALAR_CASE("s_addc_u32 s0, s4, s6", 32, r = a % (1ull << 32) + b % (1ull << 32) + scc;
                scc = r >> 32),
    SCALAR_CASE("s_sub_u32 s0, s4, s6", 32, r = a - b; scc = uint32_t(a) < uint32_t(b)),
    SCALAR_CASE("s_subb_u32 s0, s4, s6", 32,
                const int64_t v = int64_t(uint32_t(a)) - int64_t(uint32_t(b)) - scc;
                r = uint64_t(v); scc = v < 0),
    SCALAR_CASE("s_add_i32 s0, s4, s6", 32, const int64_t v = int64_t(int32_t(a)) + int32_t(b);
                r = uint64_t(v); scc = v != int32_t(v)),
    SCALAR_CASE("s_sub_i32 s0, s4, s6", 32, const int64_t v = int64_t(int32_t(a)) - int32_t(b);
                r = uint64_t(v); scc = v != int32_t(v)),
    SCALAR_CASE("s_mul_i32 s0, s4, s6", 32, r = a * b),
    SCALAR_CASE("s_mul_hi_u32 s0, s4, s6", 32, r = (a % (1ull << 32)) * (b % (1ull << 32)) >> 32),
    SCALAR_CASE("s_and_b64 s[0:1], s[4:5], s[6:7]", 64, r = a & b; scc = r),
    SCALAR_CASE("s_andn2_b64 s[0:1], s[4:5], s[6:7]", 64, r = a & ~b; scc = r),
    SCALAR_CASE("s_xor_b32 s0, s4, s6", 32, r = a ^ b; scc = uint32_t(r)),
    SCALAR_CASE("s_lshl_b64 s[0:1], s[4:5], s6", 64, r = a << b % 64; scc = r),
    SCALAR_CASE("s_lshr_b32 s0, s4, s6", 32, r = uint32_t(a) >> b % 32; scc = r),
    SCALAR_CASE("s_ashr_i32 s0, s4, s6", 32, r = uint64_t(int32_t(a) >> b % 32); scc = r),
    SCALAR_CASE("s_min_i32 s0, s4, s6", 32, scc = int32_t(a) < int32_t(b); r = scc ? a : b),
    SCALAR_CASE("s_max_u32 s0, s4, s6", 32, scc = uint32_t(a) > uint32_t(b); r = scc ? a : b),
    SCALAR_CASE("s_cselect_b64 s[0:1], s[4:5], s[6:7]", 64, r = scc ? a : b),
    SCALAR_CASE("s_bfe_u32 s0, s4, 0x70005", 32, r = uint32_t(a) / 32 % 128; scc = r),
    SCALAR_CASE("s_bfe_i64 s[0:1], s[4:5], 0x200000", 64, r = uint64_t(int64_t(int32_t(a)));
                scc = r),
    SCALAR_CASE("s_bcnt1_i32_b64 s0, s[4:5]", 32, r = uint64_t(__builtin_popcountll(a)); scc = r),
    SCALAR_CASE("s_ff1_i32_b64 s0, s[4:5]", 32, r = a ? uint64_t(__builtin_ctzll(a)) : ~0ull),
    SCALAR_CASE("s_flbit_i32_b32 s0, s4", 32,
                r = uint32_t(a) ? uint64_t(__builtin_clz(uint32_t(a))) : ~0ull),
    SCALAR_CASE("s_not_b32 s0, s4", 32, r = ~a; scc = uint32_t(r)),
    SCALAR_CASE("s_movk_i32 s0, 0xff00", 32, r = 0xffffff00),
    SCALAR_CASE("s_getreg_b32 s0, hwreg(HW_REG_SH_MEM_BASES, 16, 16)", 32, r = 1),
    SCALAR_CASE("s_cmp_lg_u64 s[4:5], s[6:7]", 0, scc = a != b),
    SCALAR_CASE("s_cmp_gt_i32 s4, s6", 0, scc = int32_t(a) > int32_t(b)),
    SCALAR_CASE("s_cmpk_lg_i32 s4, 0xffff", 0, scc = int32_t(a) != -1),
    SCALAR_CASE("s_bitcmp1_b32 s4, s6", 0, scc = a >> b % 32 & 1),
    SCALAR_CASE("s_addk_i32 s0, 0xfffe", 32, r = 0x40490fdb - 2; scc = false),
};
void test_scalar(void **) {
  for (const Scalar &t : scalars) {
    const Op op = parse(t.text);
    if (!op.run) fail_msg("%s: not in the table", t.text);
    for (int n = 0; n < 200; n++) {
      Wave w = fresh();
      const uint64_t a = number(n), b = number(n + 1), before = 0x1234567840490fdb;
      w.set_pair(4, a), w.set_pair(6, b), w.set_pair(0, before);
      bool scc = w.scc = randoms() & 1;
      uint64_t r = before;
      t.want(a, b, scc, r);
      if (t.bits == 32) r = uint32_t(r) | before >> 32 << 32;
      op.run(w, op);
      if (w.pair(0) != r || w.scc != scc)
        fail_msg("%s: 0x%lx 0x%lx: 0x%lx and scc %d, not 0x%lx and %d", t.text, a, b, w.pair(0),
                 w.scc, r, scc);
    }
  }
}

// What lanes learn of each other.
void test_lanes(void **) {
  Wave w = fresh();
  for (int i = 0; i < lanes; i++)
    set(w, 4, i, 1000 + uint64_t(i)), set(w, 6, i, uint64_t(63 - i) * 4), set(w, 0, i, 5);
  const auto run = [&](const char *text, uint64_t mask) {
    const Op op = parse(text);
    if (!op.run) fail_msg("%s: not in the table", text);
    w.set_pair(Wave::exec, mask);
    op.run(w, op);
  };
  run("v_readfirstlane_b32 s8, v4", ~0ull << 9);
  assert_int_equal(w.s[8], 1009);
  run("v_readlane_b32 s8, v4, 63", 1);
  assert_int_equal(w.s[8], 1063);
  run("v_writelane_b32 v0, s8, 7", 0);
  assert_int_equal(get(w, 0, 7) % 65536, 1063);
  run("v_mbcnt_lo_u32_b32 v0, -1, 0", ~0ull);
  run("v_mbcnt_hi_u32_b32 v0, -1, v0", ~0ull);
  for (int i = 0; i < lanes; i++) assert_int_equal(uint32_t(get(w, 0, i)), i);
  run("ds_bpermute_b32 v0, v6, v4", ~0ull);
  for (int i = 0; i < lanes; i++) assert_int_equal(uint32_t(get(w, 0, i)), 1063 - i);
  run("v_mov_b32_dpp v0, v4 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", ~0ull);
  for (int i = 0; i < lanes; i++) assert_int_equal(uint32_t(get(w, 0, i)), 1000 + (i ^ 1));
  run("v_mov_b32_e32 v0, 3", ~0ull);
  run("v_mov_b32_dpp v0, v4 row_shr:1 row_mask:0xf bank_mask:0xf", ~0ull);
  for (int i = 0; i < lanes; i++) assert_int_equal(uint32_t(get(w, 0, i)), i % 16 ? 999 + i : 3);
  run("v_mov_b32_dpp v0, v4 row_bcast:15 row_mask:0xa bank_mask:0xf bound_ctrl:0", ~0ull);
  for (int i = 0; i < lanes; i++)
    assert_int_equal(uint32_t(get(w, 0, i)), i / 16 % 2 ? 1000 + i / 16 * 16 - 1
                                             : i % 16   ? 999 + i
                                                        : 3);
}

// Memory of this program that the machine may read, for as long as this lives.
struct Registered {
#if __has_include(<hsakmt.h>) || __has_include(<hsakmt/hsakmt.h>)
  void *at;
  Registered(void *p, size_t bytes) : at(p) {
    assert_int_equal(hsaKmtRegisterMemoryWithFlags(p, bytes, {}), HSAKMT_STATUS_SUCCESS);
  }
  ~Registered() {
    hsaKmtDeregisterMemory(at);
  }
#else
  kfd_ioctl_alloc_memory_of_gpu_args args = {};
  Registered(void *p, size_t bytes) {
    args.va_addr = args.mmap_offset = reinterpret_cast<uint64_t>(p);
    args.size = bytes, args.gpu_id = 1, args.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
    assert_int_equal(device_call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), 0);
  }
  ~Registered() {
    kfd_ioctl_free_memory_of_gpu_args gone = {args.handle};
    device_call(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &gone);
  }
#endif
};

// Registers by an index, which only code in its place has: s_set_gpr_idx_on s8, of the source and then
// of the destination, v_mov_b32 v0, v4 in both, s_set_gpr_idx_off, and v_mov_b32 v1, v4 without.
void test_index(void **) {
  alignas(4096) static uint32_t code[1024] = {0xbf110108, 0x7e000304, 0xbf9c0000, 0xbf110808,
                                              0x7e000304, 0xbf9c0000, 0x7e020304};
  const Registered here(code, sizeof code);
  Wave w = fresh();
  for (int i = 0; i < lanes; i++)
    for (int r = 0; r < 12; r++) w.v[size_t(r * lanes + i)] = uint32_t(100 * r + i);
  w.s[8] = 0x12305, w.s[Wave::m0] = 0xabcd9f77; // of both only some bits count
  w.set_pair(Wave::exec, ~1ull);
  w.pc = reinterpret_cast<const uint8_t *>(code);
  for (int n = 0; n < 7; n++) {
    const Op &op = decoded(w);
    w.at = w.pc;
    w.pc += op.bytes;
    op.run(w, op);
    if (n == 0) assert_int_equal(w.s[Wave::m0], 0xabcd1f05);
  }
  for (int i = 0; i < lanes; i++)
    for (int r = 0; r < 12; r++) {
      const int moved = i == 0 ? r : r == 0 ? 9 : r == 5 || r == 1 ? 4 : r;
      assert_int_equal(w.v[size_t(r * lanes + i)], 100 * moved + i);
    }
}

// Memory of each size, LDS, atomics with and without their old value.
void test_memory(void **) {
  Wave w = fresh();
  Kernel kernel;
  Group group;
  group.kernel = &kernel;
  group.lds.resize(1024);
  w.group = &group;
  alignas(16) uint32_t memory[lanes * 4];
  for (int i = 0; i < lanes * 4; i++) memory[i] = uint32_t(randoms());
  const auto run = [&](const char *text, uint64_t mask = ~0ull) {
    const Op op = parse(text);
    if (!op.run) fail_msg("%s: not in the table", text);
    w.set_pair(Wave::exec, mask);
    op.run(w, op);
  };
  for (int i = 0; i < lanes; i++)
    set(w, 4, i, uint64_t(memory + 4 * i)), set(w, 6, i, uint64_t(16 * i));
  run("global_load_dwordx4 v[0:3], v[4:5], off");
  for (int i = 0; i < lanes; i++)
    for (int k = 0; k < 4; k++)
      assert_int_equal(w.v[size_t(k) * lanes + size_t(i)], memory[4 * i + k]);
  run("flat_load_sbyte v0, v[4:5] offset:5");
  for (int i = 0; i < lanes; i++)
    assert_int_equal(int32_t(get(w, 0, i)), int8_t(memory[4 * i + 1] >> 8));
  w.set_pair(10, uint64_t(memory));
  run("global_load_ushort v0, v6, s[10:11] offset:14");
  for (int i = 0; i < lanes; i++) assert_int_equal(uint32_t(get(w, 0, i)), memory[4 * i + 3] >> 16);
  run("v_mov_b32_e32 v8, 3");
  run("global_store_dword v[4:5], v8, off offset:4", 0xff);
  run("global_store_byte_d16_hi v[4:5], v0, off offset:8", 0);
  for (int i = 0; i < 8; i++) assert_int_equal(memory[4 * i + 1], 3);
  run("global_atomic_add v9, v[4:5], v8, off offset:4 glc", 0xff);
  run("global_atomic_add v[4:5], v8, off offset:4", 0xff);
  for (int i = 0; i < 8; i++)
    assert_int_equal(uint32_t(get(w, 9, i)), 3), assert_int_equal(memory[4 * i + 1], 9);
  run("v_mov_b32_e32 v9, 9");
  run("v_mov_b32_e32 v0, 0");
  run("global_atomic_cmpswap v0, v[4:5], v[8:9], off offset:4 glc", 0xff); // 3 in the place of 9
  for (int i = 0; i < 8; i++)
    assert_int_equal(uint32_t(get(w, 0, i)), 9), assert_int_equal(memory[4 * i + 1], 3);
  run("ds_write_b32 v6, v6 offset:4");
  run("ds_read2_b32 v[0:1], v6 offset0:1 offset1:1");
  for (int i = 0; i < lanes; i++) assert_int_equal(get(w, 0, i), uint64_t(16 * i) * 0x100000001);
  run("v_mov_b32_e32 v7, 0");
  run("ds_add_rtn_u32 v0, v7, v8 offset:8"); // all lanes at one place, one after the other
  uint32_t sum = 0, last = 0;
  for (int i = 0; i < lanes; i++) sum += uint32_t(get(w, 0, i));
  memcpy(&last, group.lds.data() + 8, 4);
  assert_int_equal(last, 3 * lanes), assert_int_equal(sum, 3 * lanes * (lanes - 1) / 2);
}

// D = A B + C of a block: the elements by the manual's tables, all lanes on or not.
void test_matrix(void **) {
  const auto half = [](int v) { // of a small whole number
    return uint32_t(v == 0 ? 0 : (v < 0 ? 0x8000 : 0) | [](int m) {
      int e = 31 - __builtin_clz(unsigned(m));
      return (e + 15) << 10 | ((m << 10) >> e & 1023);
    }(std::abs(v)));
  };
  const auto brain = [](int v) { return uint32_t(of(float(v)) >> 16); };
  struct {
    const char *text;
    int n, k, kind; // kind: 0 float, 1 half, 2 brain
  } shapes[] = {{"v_mfma_f32_32x32x2f32 v[16:31], v4, v8, v[32:47]", 32, 2, 0},
                {"v_mfma_f32_32x32x8f16 v[16:31], v[4:5], v[8:9], v[32:47]", 32, 8, 1},
                {"v_mfma_f32_32x32x8bf16_1k v[16:31], v[4:5], v[8:9], v[32:47]", 32, 8, 2},
                {"v_mfma_f32_16x16x4f32 v[16:19], v4, v8, v[32:35]", 16, 4, 0},
                {"v_mfma_f32_16x16x16f16 v[16:19], v[4:5], v[8:9], v[32:35]", 16, 16, 1},
                {"v_mfma_f32_16x16x16bf16_1k v[16:19], v[4:5], v[8:9], v[32:35]", 16, 16, 2},
                {"v_mfma_f32_32x32x2_f32 v[16:31], v4, v8, v[32:47]", 32, 2, 0},
                {"v_mfma_f32_32x32x8_f16 v[16:31], v[4:5], v[8:9], v[32:47]", 32, 8, 1},
                {"v_mfma_f32_32x32x8_bf16 v[16:31], v[4:5], v[8:9], v[32:47]", 32, 8, 2},
                {"v_mfma_f32_16x16x4_f32 v[16:19], v4, v8, v[32:35]", 16, 4, 0},
                {"v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[8:9], v[32:35]", 16, 16, 1},
                {"v_mfma_f32_16x16x16_bf16 v[16:19], v[4:5], v[8:9], v[32:35]", 16, 16, 2},
                {"v_mfma_f32_32x32x16_f16 v[16:31], v[4:7], v[8:11], v[32:47]", 32, 16, 1},
                {"v_mfma_f32_32x32x16_bf16 v[16:31], v[4:7], v[8:11], v[32:47]", 32, 16, 2},
                {"v_mfma_f32_16x16x32_f16 v[16:19], v[4:7], v[8:11], v[32:35]", 16, 32, 1},
                {"v_mfma_f32_16x16x32_bf16 v[16:19], v[4:7], v[8:11], v[32:35]", 16, 32, 2}};
  for (const auto &t : shapes) {
    const Op op = parse(t.text);
    if (!op.run) fail_msg("%s: not in the table", t.text);
    Wave w;
    w.v.resize(48 * lanes);
    int a[32][32], b[32][32], c[32][32];
    for (int i = 0; i < 32; i++)
      for (int j = 0; j < 32; j++) {
        c[i][j] = int(randoms() % 64);
        if (j < t.k) a[i][j] = int(randoms() % 31) - 15, b[j][i] = int(randoms() % 31) - 15;
      }
    const int each = t.k * t.n / lanes, blocks = lanes / t.n;
    for (int lane = 0; lane < lanes; lane++) {
      for (int e = 0; e < each; e++) {
        const int k = lane / t.n * each + e, va = a[lane % t.n][k], vb = b[k][lane % t.n];
        uint32_t &ra = w.v[size_t(4 + e / 2) * lanes + size_t(lane)],
                 &rb = w.v[size_t(8 + e / 2) * lanes + size_t(lane)];
        if (t.kind == 0) ra = uint32_t(of(float(va))), rb = uint32_t(of(float(vb)));
        if (t.kind == 1) ra |= half(va) << 16 * (e % 2), rb |= half(vb) << 16 * (e % 2);
        if (t.kind == 2) ra |= brain(va) << 16 * (e % 2), rb |= brain(vb) << 16 * (e % 2);
      }
      for (int r = 0; r < t.n * t.n / lanes; r++)
        w.v[size_t(32 + r) * lanes + size_t(lane)] =
            uint32_t(of(float(c[r % 4 + lane / t.n * 4 + r / 4 * 4 * blocks][lane % t.n])));
    }
    w.set_pair(Wave::exec, 0x10);
    op.run(w, op);
    for (int lane = 0; lane < lanes; lane++)
      for (int r = 0; r < t.n * t.n / lanes; r++) {
        const int i = r % 4 + lane / t.n * 4 + r / 4 * 4 * blocks, j = lane % t.n;
        int sum = c[i][j];
        for (int k = 0; k < t.k; k++) sum += a[i][k] * b[k][j];
        if (f(w.v[size_t(16 + r) * lanes + size_t(lane)]) != float(sum))
          fail_msg("%s: row %d column %d: %g, not %d", t.text, i, j,
                   double(f(w.v[size_t(16 + r) * lanes + size_t(lane)])), sum);
      }
  }
}

// Packets of a copy engine, word by word.
void test_sdma(void **) {
  const auto low = [](const void *p) { return uint32_t(uintptr_t(p)); };
  const auto high = [](const void *p) { return uint32_t(uintptr_t(p) >> 32); };
  uint32_t from[64], to[64] = {}, flag[2] = {5, 0};
  for (uint32_t i = 0; i < 64; i++) from[i] = 100 + i;
  const uint32_t copy[] = {1, 4 * 10 - 1, 0, low(from), high(from), low(to), high(to)};
  assert_int_equal(run_sdma(copy, 7), 7);
  for (uint32_t i = 0; i < 64; i++) assert_int_equal(to[i], i < 10 ? 100 + i : 0);
  // Three columns and two rows of words, from (1, 2) of rows of 8 to (4, 3) of rows of 16.
  const uint32_t part[] = {
      1 | 4 << 8 | 2u << 29, low(from), high(from), 1 | 2 << 16, 7 << 13, 63, low(to), high(to),
      4 | 1 << 16,           15 << 13,  63,         2 | 1 << 16, 0};
  assert_int_equal(run_sdma(part, 13), 13);
  for (uint32_t row = 0; row < 2; row++)
    for (uint32_t x = 0; x < 3; x++)
      assert_int_equal(to[(1 + row) * 16 + 4 + x], from[(2 + row) * 8 + 1 + x]);
  assert_int_equal(to[16 + 7], 0), assert_int_equal(to[16 + 3], 0);
  const uint32_t fill[] = {11 | 2u << 30, low(to), high(to), 77, 4 * 3 - 1};
  assert_int_equal(run_sdma(fill, 5), 5);
  assert_int_equal(to[2], 77), assert_int_equal(to[3], 103);
  uint32_t poll[] = {8 | 3u << 28 | 1u << 31, low(flag), high(flag), 4, 0xfe, 0};
  assert_int_equal(run_sdma(poll, 6), 6); // 5 & 0xfe is 4
  poll[3] = 5;
  assert_int_equal(run_sdma(poll, 6), 0);
  const uint32_t add[] = {10 | 47u << 25, low(flag), high(flag), 0xffffffff, 0, 0, 0, 0};
  assert_int_equal(run_sdma(add, 8), 8);
  assert_int_equal(flag[0], 4), assert_int_equal(flag[1], 1);
  const uint32_t fence[] = {5, low(flag + 1), high(flag + 1), 9};
  assert_int_equal(run_sdma(fence, 4), 4);
  assert_int_equal(flag[1], 9);
  const uint32_t clock[] = {13 | 2 << 8, low(to), high(to)};
  const uint64_t before = ticks();
  assert_int_equal(run_sdma(clock, 3), 3);
  uint64_t seen;
  memcpy(&seen, to, 8);
  assert_true(before <= seen && seen <= ticks());
  const uint32_t nothing[] = {0}, trap[] = {6, 0};
  assert_int_equal(run_sdma(nothing, 1), 1), assert_int_equal(run_sdma(trap, 2), 2);
}

// What the table does not have, or would do wrongly, is refused.
void test_unknown(void **) {
  for (const char *text :
       {"v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31]", "image_load v0, v1, s[0:7]",
        "v_mov_b32_e32 v0, v1 unheard_of:1", "global_load_dword v0, v[2:3], off lds"})
    if (parse(text).run) fail_msg("%s has a meaning", text);
}

} // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(test_vector), cmocka_unit_test(test_scalar),
                              cmocka_unit_test(test_lanes),  cmocka_unit_test(test_index),
                              cmocka_unit_test(test_memory), cmocka_unit_test(test_matrix),
                              cmocka_unit_test(test_sdma),   cmocka_unit_test(test_unknown)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
