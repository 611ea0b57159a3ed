// SPDX-License-Identifier: MIT
// Halves and bfloat16s against the library's own conversions, and groups of threads.
#include "platform.hpp"
#include <hip/hip_bf16.h>
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>
#include <shmem/device/number.hpp>

namespace {

namespace groups = cooperative_groups;

template <class T> struct Library;
template <> struct Library<__half> { using type = shmem::Half; };
template <> struct Library<__hip_bfloat16> { using type = shmem::Bfloat16; };

template <class T> bool is_nan(T v) {
  return __hisnan(v);
}

// All numbers there and back, and floats around each: the next ones, and the middles between it and
// its neighbours, which are ties, with the next ones of those.
template <class T> void conversions(void **) {
  using Number = typename Library<T>::type;
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    const T v = T::of_bits(uint16_t(bits));
    const float f = v, want = shmem::to_float(Number{uint16_t(bits)});
    CHECK(is_nan(v) == (want != want) && is_nan(v) == (f != f));
    if (is_nan(v)) continue;
    CHECK(f == want && std::signbit(f) == std::signbit(want) && T(f).bits == bits);
    const float next = T::of_bits(uint16_t(bits + 1));
    const float middle = float((double(f) + double(next)) / 2);
    for (float near : {f, middle})
      for (float x : {near, std::nextafter(near, -INFINITY), std::nextafter(near, INFINITY)})
        if (x == x) CHECK(T(x).bits == shmem::from_float<Number>(x).bits);
  }
  CHECK(is_nan(T(NAN)) && !is_nan(T(INFINITY)) && __hisinf(T(-1e300)) == -1);
  CHECK(T(1e-300).bits == 0 && T(-1e-300).bits == 0x8000 && T(3).bits == T(3.0).bits);
}

template <class T> void arithmetic(void **) {
  // More than a float has: rounding twice would give 1.
  const double tie = 1 + (T(1).bits == 0x3c00 ? 0x1p-11 : 0x1p-8);
  CHECK(float(T(tie)) == 1 && float(T(tie + 0x1p-40)) > 1);
  T v = 3;
  v += T(1.5);
  CHECK(float(v) == 4.5f && float(v * T(2)) == 9 && v / T(3) == T(1.5) && v - v == T(0));
  CHECK(__hlt(v, T(5)) && v >= T(4.5) && v != T(4) && float(__hfma(v, T(2), T(1))) == 10);
  CHECK(float(__hmax(v, T(NAN))) == 4.5f && float(__hmin(v, -v)) == -4.5f && __habs(-v) == v);
  CHECK(float(hsqrt(T(16))) == 4 && float(hfloor(v)) == 4 && float(hrcp(T(4))) == 0.25f);
}
void pairs(void **) {
  __half2 a = __floats2half2_rn(1, 2);
  a = __hfma2(a, a, __half2half2(__float2half(0.5f)));
  const float2 two = __half22float2(a);
  CHECK(two.x == 1.5f && two.y == 4.5f && __low2float(a) == 1.5f && __high2float(a) == 4.5f);
  const __hip_bfloat162 b = __hadd2(__float22bfloat162_rn({8, 16}), __float2bfloat162_rn(1));
  CHECK(__bfloat162float(__low2bfloat16(b)) == 9 && __bfloat162float(__high2bfloat16(b)) == 17);
  CHECK(__bfloat16_as_ushort(__float2bfloat16(1)) == 0x3f80);
  CHECK(__half2int_rn(__ushort_as_half(0x3e00)) == 2 && __half2int_rz(__int2half_rn(7)) == 7);
  __half sum = 1;
  CHECK(float(atomicAdd(&sum, __half(2))) == 1 && float(sum) == 3);
}

// Each thread adds its number to the others' of its tile of 16, and the block's last tile may be
// smaller than that.
__global__ void add_tiles(int *sums, int *wrong) {
  const groups::thread_block block = groups::this_thread_block();
  const auto tile = groups::tiled_partition<16>(block);
  const groups::thread_group same = groups::tiled_partition(block, 16);
  const unsigned me = threadIdx.x + blockDim.x * threadIdx.y, all = block.size();
  const unsigned first = me / 16 * 16, here = std::min(16u, all - first);
  int sum = int(me);
  for (unsigned step = 8; step; step /= 2) sum += tile.shfl_xor(sum, step);
  const unsigned odd = unsigned(tile.ballot(me % 2));
  const bool right = block.thread_rank() == me && all == blockDim.x * blockDim.y &&
                     tile.thread_rank() == me % 16 && tile.size() == 16 &&
                     tile.meta_group_rank() == me / 16 &&
                     tile.meta_group_size() == (all + 15) / 16 && same.size() == here &&
                     same.thread_rank() == me % 16 && odd == (0xaaaau & ((1u << here) - 1)) &&
                     tile.any(me % 16 == 0) && tile.all(me >= first) && !tile.all(me % 16 != 0) &&
                     tile.shfl(int(me), 0) == int(first);
  sums[me] = sum;
  block.sync(); // all have written their own
  if (me + 1 < all && sums[me + 1] == -1) atomicAdd(wrong, 1);
  tile.sync();
  groups::sync(block);
  if (!right) atomicAdd(wrong, 1);
}
void tiles(void **) {
  int *sums, *wrong;
  OK(hipMalloc(&sums, 1024 * sizeof *sums));
  OK(hipMalloc(&wrong, sizeof *wrong));
  *wrong = 0;
  for (dim3 shape : {dim3(1), dim3(16), dim3(8, 8), dim3(13, 7), dim3(200)}) {
    const int n = int(shape.x * shape.y);
    for (int i = 0; i < n; i++) sums[i] = -1;
    hipLaunchKernelGGL(add_tiles, 1, shape, 0, nullptr, sums, wrong);
    OK(hipDeviceSynchronize());
    CHECK(*wrong == 0);
    for (int i = 0; i < n / 16 * 16; i++) CHECK(sums[i] == i / 16 * 256 + 120);
  }
  OK(hipFree(sums));
  OK(hipFree(wrong));
}

} // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(conversions<__half>),
      cmocka_unit_test(conversions<__hip_bfloat16>),
      cmocka_unit_test(arithmetic<__half>),
      cmocka_unit_test(arithmetic<__hip_bfloat16>),
      cmocka_unit_test(pairs),
      cmocka_unit_test(tiles),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
