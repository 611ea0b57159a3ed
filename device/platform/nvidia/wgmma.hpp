// SPDX-License-Identifier: MIT
// The instructions of sm_90a for matrix products, in PTX: mbarriers, TMA, and wgmma, one
// instruction of which four warps issue together.
#pragma once
#include <cstdint>
#include <cuda.h>

#if defined __CUDA_ARCH_FEAT_SM90_ALL
#define SHMEM_SM90A_ 1
#else
#define SHMEM_SM90A_ 0
#endif

namespace shmem::gemm::sm90 {

SHMEM_D_ uint32_t shared_address(const void *p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

#if SHMEM_SM90A_
SHMEM_D_ void barrier_init(uint32_t bar, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
SHMEM_D_ void barrier_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
SHMEM_D_ void barrier_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
// It needs no acquire, because only TMA and wgmma access the data that it orders. An acquire of the
// cluster would empty the L1 each time and halve the speed (H200, 2026-11).
SHMEM_D_ void barrier_wait(uint32_t bar, uint32_t phase) {
  asm volatile("{\n\t"
               ".reg .pred done;\n"
               "again:\n\t"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
               "@!done bra again;\n\t"
               "}" ::"r"(bar),
               "r"(phase)
               : "memory");
}
// A box of two dimensions.
SHMEM_D_ void load_box(uint32_t to, const CUtensorMap *map, uint32_t bar, unsigned x, unsigned y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
               "l"(map), "r"(bar), "r"(x), "r"(y)
               : "memory");
}
// Orders accesses by threads and those by TMA and wgmma.
SHMEM_D_ void fence_async() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

// Describes a matrix in shared memory: rows of 128 bytes, swizzled by eights, and `step` bytes from
// one block of 64 columns to the next if the rows do not run along k.
SHMEM_D_ uint64_t matrix(uint32_t address, uint32_t step) {
  return uint64_t(address & 0x3ffff) >> 4 | uint64_t(step >> 4) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}
SHMEM_D_ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
SHMEM_D_ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending> SHMEM_D_ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

#define SHMEM_F4_(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SHMEM_F16_(i) SHMEM_F4_(i), SHMEM_F4_(i + 4), SHMEM_F4_(i + 8), SHMEM_F4_(i + 12)
#define SHMEM_F64_(i) SHMEM_F16_(i), SHMEM_F16_(i + 16), SHMEM_F16_(i + 32), SHMEM_F16_(i + 48)
#define SHMEM_R64_                                                                                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                         \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "               \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SHMEM_R128_                                                                                \
  SHMEM_R64_ ", "                                                                                  \
             "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "    \
             "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "    \
             "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "    \
             "%110, %111, "                                                                        \
             "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "      \
             "%125, %126, %127"
// n is 128 or 256; a and b are the operands' numbers in the text.
#define SHMEM_WGMMA_(shape, type, list, a, b, p, rest, ...)                                        \
  asm volatile("{\n\t"                                                                             \
               ".reg .pred p;\n\t"                                                                 \
               "setp.ne.b32 p, %" p ", 0;\n\t"                                                     \
               "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" list "}, %" a      \
               ", %" b ", p, 1, 1" rest ";\n\t"                                                    \
               "}"                                                                                 \
               : __VA_ARGS__)

// d = a b, or d += a b, for this warpgroup's 64 rows and n columns, by 32 bytes of k. mn_a, mn_b:
// the rows in memory run along m, or along n.
template <class T, unsigned n, bool mn_a, bool mn_b>
SHMEM_D_ void wgmma(float (&d)[n / 2], uint64_t a, uint64_t b, int add) {
  constexpr bool bf16 = std::is_same<T, Bfloat16>::value, f8 = std::is_same<T, Float8>::value;
  static_assert(!f8 || (!mn_a && !mn_b));
  if constexpr (n == 256 && f8)
    SHMEM_WGMMA_("m64n256k32", "e4m3", SHMEM_R128_, "128", "129", "130", "", SHMEM_F64_(0),
                 SHMEM_F64_(64)
                 : "l"(a), "l"(b), "r"(add));
  else if constexpr (f8)
    SHMEM_WGMMA_("m64n128k32", "e4m3", SHMEM_R64_, "64", "65", "66", "", SHMEM_F64_(0)
                 : "l"(a), "l"(b), "r"(add));
  else if constexpr (n == 256 && bf16)
    SHMEM_WGMMA_("m64n256k16", "bf16", SHMEM_R128_, "128", "129", "130", ", %131, %132",
                 SHMEM_F64_(0), SHMEM_F64_(64)
                 : "l"(a), "l"(b), "r"(add), "n"(mn_a), "n"(mn_b));
  else if constexpr (n == 256)
    SHMEM_WGMMA_("m64n256k16", "f16", SHMEM_R128_, "128", "129", "130", ", %131, %132",
                 SHMEM_F64_(0), SHMEM_F64_(64)
                 : "l"(a), "l"(b), "r"(add), "n"(mn_a), "n"(mn_b));
  else if constexpr (bf16)
    SHMEM_WGMMA_("m64n128k16", "bf16", SHMEM_R64_, "64", "65", "66", ", %67, %68", SHMEM_F64_(0)
                 : "l"(a), "l"(b), "r"(add), "n"(mn_a), "n"(mn_b));
  else
    SHMEM_WGMMA_("m64n128k16", "f16", SHMEM_R64_, "64", "65", "66", ", %67, %68", SHMEM_F64_(0)
                 : "l"(a), "l"(b), "r"(add), "n"(mn_a), "n"(mn_b));
}
#undef SHMEM_WGMMA_
#undef SHMEM_R128_
#undef SHMEM_R64_
#undef SHMEM_F64_
#undef SHMEM_F16_
#undef SHMEM_F4_
#endif

} // namespace shmem::gemm::sm90
