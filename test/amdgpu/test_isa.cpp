// SPDX-License-Identifier: MIT
// Instructions of the machine beside the ISA manual's words, written here once more in plain C++:
// scalars, exchanges between lanes, memory, matrices, and packets of copy engines.
#include "test_isa.hpp"
#include "driver.hpp"
#include "memory.hpp"
#include <cmath>
#include <cstdio>

#if __has_include(<hsakmt.h>) || __has_include(<hsakmt/hsakmt.h>)
#include "hsakmt.hpp"
#else
#include "kfd.hpp"
#include <linux/kfd_ioctl.h>
#endif

using namespace amdgpu;

namespace {

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

// Exchanges between lanes.
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

// Registers by an index, which only code in its place has: s_set_gpr_idx_on s8, of the source and
// then of the destination, v_mov_b32 v0, v4 in both, s_set_gpr_idx_off, and v_mov_b32 v1, v4
// without.
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
  // The same memory as a raw buffer, with a step that its end does not count.
  w.set_pair(12, uint64_t(memory) - 64);
  w.set_pair(14, 0x20000ull << 32 | (16 * lanes));
  w.s[16] = 64;
  run("buffer_load_dwordx4 v[0:3], v6, s[12:15], s16 offen");
  for (int i = 0; i < lanes; i++)
    for (int k = 0; k < 4; k++)
      assert_int_equal(w.v[size_t(k) * lanes + size_t(i)], memory[4 * i + k]);
  // A lane with an offset of 2^31 loads 0 and stores nothing, as Triton's compiler masks lanes.
  for (int i = 0; i < lanes; i++) set(w, 10, i, i % 2 ? 1u << 31 : unsigned(16 * i));
  run("buffer_load_dword v0, v10, s[12:15], s16 offen");
  for (int i = 0; i < lanes; i++)
    assert_int_equal(uint32_t(get(w, 0, i)), i % 2 ? 0 : memory[4 * i]);
  run("buffer_store_dword v0, v10, s[12:15], s16 offen", 0xff);
  run("v_mov_b32_e32 v8, 5");
  run("buffer_store_dword v8, v6, s[12:15], s16 offen offset:4", 0xff);
  for (int i = 0; i < 8; i++) assert_int_equal(memory[4 * i + 1], 5);
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
  // Straight to LDS, lanes behind each other; and turned from there: four rows of 16 by 16 lanes.
  w.s[Wave::m0] = 4096;
  w.set_pair(10, uint64_t(memory) + 1024);
  group.lds.resize(8192);
  run("global_load_lds_dwordx4 v6, s[10:11] offset:-1024", 0xf0ffffffffffffff);
  run("global_load_lds_dwordx4 v[4:5], off", 0);
  for (int i = 0; i < lanes; i++) {
    const uint32_t none[4] = {};
    assert_memory_equal(group.lds.data() + 3072 + 16 * i, i >= 56 && i < 60 ? none : memory + 4 * i,
                        16);
  }
  for (int i = 0; i < 512; i++) {
    const uint16_t v = uint16_t(randoms());
    memcpy(group.lds.data() + 2 * i, &v, 2);
  }
  for (int i = 0; i < lanes; i++) set(w, 0, i, uint64_t(8 * (i % 4) + 64 * (i / 4)));
  run("ds_read_b64_tr_b16 v[0:1], v0 offset:32");
  for (int i = 0; i < lanes; i++)
    for (int k = 0; k < 4; k++) {
      uint16_t v;
      memcpy(&v, group.lds.data() + 32 + 64 * (i / 16 * 4 + k) + 2 * (i % 16), 2);
      assert_int_equal(get(w, 0, i) >> 16 * k & 0xffff, v);
    }
  group.lds.assign(1024, 0);
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
  const auto fp8 = [](int v) { // of at most four bits
    return uint32_t(v == 0 ? 0 : (v < 0 ? 0x80 : 0) | [](int m) {
      int e = 31 - __builtin_clz(unsigned(m));
      return (e + 7) << 3 | ((m << 3) >> e & 7);
    }(std::abs(v)));
  };
  struct {
    const char *text;
    int n, k, kind; // kind: 0 float, 1 half, 2 brain, 3 fp8
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
                {"v_mfma_f32_16x16x32_bf16 v[16:19], v[4:7], v[8:11], v[32:35]", 16, 32, 2},
                {"v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[48:55], v[4:11], v[32:47]", 32, 64, 3}};
  for (const auto &t : shapes) {
    const Op op = parse(t.text);
    if (!op.run) fail_msg("%s: not in the table", t.text);
    Wave w;
    w.v.resize(56 * lanes);
    int a[32][64], b[64][32], c[32][32];
    for (int i = 0; i < 32; i++)
      for (int j = 0; j < 64; j++) {
        if (j < 32) c[i][j] = int(randoms() % 64);
        if (j < t.k) a[i][j] = int(randoms() % 31) - 15, b[j][i] = int(randoms() % 31) - 15;
      }
    const int each = t.k * t.n / lanes, blocks = lanes / t.n;
    for (int lane = 0; lane < lanes; lane++) {
      for (int e = 0; e < each; e++) {
        const int k = lane / t.n * each + e, va = a[lane % t.n][k], vb = b[k][lane % t.n];
        const int part = t.kind == 3 ? e / 4 : e / 2;
        uint32_t &ra = w.vector(op.operand[1], part)[lane],
                 &rb = w.vector(op.operand[2], part)[lane];
        if (t.kind == 0) ra = uint32_t(of(float(va))), rb = uint32_t(of(float(vb)));
        if (t.kind == 1) ra |= half(va) << 16 * (e % 2), rb |= half(vb) << 16 * (e % 2);
        if (t.kind == 2) ra |= brain(va) << 16 * (e % 2), rb |= brain(vb) << 16 * (e % 2);
        if (t.kind == 3) ra |= fp8(va) << 8 * (e % 4), rb |= fp8(vb) << 8 * (e % 4);
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

// Instructions that the table does not have, or would do wrongly, are refused.
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
