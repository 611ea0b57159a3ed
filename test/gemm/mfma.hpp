// SPDX-License-Identifier: MIT
// The processor of AMD's core, for the CPU platform: matrix instructions by the layouts of the ISA
// documents, "Instinct MI200" and "MI300", section on matrix arithmetic instructions. The lanes of
// a wave are fibers of one thread, which meet around each instruction.
#pragma once
#include <hip/hip_runtime.h>
#include <string.h>

#include "../../device/arch.hpp"
#include "../../device/gemm/number.hpp"

#undef SHMEM_GEMM_
#define SHMEM_GEMM_ "../platform/amd/gemm.hpp"

namespace mock {

typedef float Sums __attribute__((ext_vector_type(16)));

// 32 x 32 of D from 32 x k of A and k x 32 of B. Lane l has of A row l % 32, and of B column l %
// 32, the `each` values of k from l / 32 * each on; of D column l % 32, the v-th of row 8 (v / 4) +
// 4 (l / 32) + v % 4.
template <unsigned each, class Get> Sums mfma_32x32(Get a, Get b, Sums d) {
  static thread_local float rows[16][64][each], columns[16][64][each];
  const unsigned wave = threadIdx.x / 64, lane = threadIdx.x % 64;
  for (unsigned e = 0; e < each; e++) rows[wave][lane][e] = a(e), columns[wave][lane][e] = b(e);
  shmem::arch::wave_sync(64);
  for (unsigned v = 0; v < 16; v++) {
    const unsigned row = 8 * (v / 4) + 4 * (lane / 32) + v % 4;
    for (unsigned k = 0; k < 2 * each; k++)
      d[v] += rows[wave][row + k / each * 32][k % each] *
              columns[wave][lane % 32 + k / each * 32][k % each];
  }
  shmem::arch::wave_sync(64);
  return d;
}
struct Values {
  float v[32];
  float operator()(unsigned e) const { return v[e]; }
};
template <class Some> Values halves(Some x) {
  Values values;
  for (unsigned e = 0; e < sizeof x / 2; e++) values.v[e] = float(x[e]);
  return values;
}
template <class Some> Values bfloats(Some x) {
  uint16_t bits[sizeof x / 2];
  memcpy(bits, &x, sizeof x);
  Values values;
  for (unsigned e = 0; e < sizeof x / 2; e++)
    values.v[e] = __builtin_bit_cast(float, uint32_t(bits[e]) << 16);
  return values;
}
template <class Some> Values bytes(Some x) { // fp8
  uint8_t bits[sizeof x];
  memcpy(bits, &x, sizeof x);
  Values values;
  for (unsigned e = 0; e < sizeof x; e++)
    values.v[e] = shmem::gemm::to_float(shmem::gemm::Float8{bits[e]});
  return values;
}
// Sixteen lanes read four rows of sixteen elements, four of them each; a lane gets a column.
typedef short Four __attribute__((ext_vector_type(4)));
inline Four read_turned(const void *p) {
  static thread_local Four rows[16][64];
  const unsigned wave = threadIdx.x / 64, lane = threadIdx.x % 64;
  memcpy(&rows[wave][lane], p, sizeof(Four));
  shmem::arch::wave_sync(64);
  Four column;
  for (unsigned r = 0; r < 4; r++)
    column[r] = rows[wave][lane / 16 * 16 + r * 4 + lane % 16 / 4][lane % 4];
  shmem::arch::wave_sync(64);
  return column;
}
// A byte of the result for each of `bytes`: 0 to 3 are those of low.
inline uint32_t perm(uint32_t high, uint32_t low, uint32_t bytes) {
  const uint64_t both = uint64_t(high) << 32 | low;
  uint32_t v = 0;
  for (unsigned i = 0; i < 4; i++) v |= uint32_t(both >> (bytes >> 8 * i & 7) * 8 & 0xff) << 8 * i;
  return v;
}

} // namespace mock

#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, d, ...)                                         \
  mock::mfma_32x32<4>(mock::halves(a), mock::halves(b), d)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, d, ...)                                     \
  mock::mfma_32x32<4>(mock::bfloats(a), mock::bfloats(b), d)
#define __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, d, ...)                                       \
  mock::mfma_32x32<8>(mock::halves(a), mock::halves(b), d)
#define __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, d, ...)                                      \
  mock::mfma_32x32<8>(mock::bfloats(a), mock::bfloats(b), d)
#define __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, d, ...)                                         \
  mock::mfma_32x32<1>(mock::Values{{a}}, mock::Values{{b}}, d)
#define __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(a, b, d, ...)                              \
  mock::mfma_32x32<32>(mock::bytes(a), mock::bytes(b), d)
#define __builtin_amdgcn_ds_read_tr16_b64_v4i16(p) mock::read_turned((const void *)(p))
#define __builtin_amdgcn_perm(high, low, bytes) mock::perm(high, low, bytes)
#define __builtin_amdgcn_readfirstlane(x) __shfl(x, 0)
#define __builtin_amdgcn_sched_barrier(x) ((void)0)
