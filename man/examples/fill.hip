// SPDX-License-Identifier: MIT
// With 2 PEs: the mean is 0.50, the value 6
#include <hip/hip_runtime.h>
#include <shmemx.h>
#include <stdio.h>

// Each PE makes its half of one sequence, and PE 1 gives both a value.
int main() {
  shmem_init();
  const int me = shmem_my_pe();
  constexpr size_t half = 32768;
  auto *numbers = (float *)shmem_malloc_with_hints(2 * half * sizeof(float), SHMEMX_MALLOC_DEVICE);
  auto *value = (int *)shmem_malloc_with_hints(sizeof(int), SHMEMX_MALLOC_DEVICE);
  if (!numbers || !value) {
    if (me == 0) printf("no GPU\n");
    shmem_finalize();
    return 0;
  }
  const size_t begin = half * size_t(me);
  shmemx_random_on_stream(numbers + begin, half, 42, begin, nullptr);
  shmemx_float_put_on_stream(numbers + begin, numbers + begin, half, 1 - me, nullptr);
  shmemx_broadcast_value_on_stream(SHMEM_TEAM_WORLD, value, 5 + me, 1, 1, nullptr);
  shmemx_barrier_all_on_stream(nullptr);

  static float all[2 * half];
  int given = 0;
  (void)hipMemcpy(all, numbers, sizeof all, hipMemcpyDeviceToHost);
  (void)hipMemcpy(&given, value, sizeof given, hipMemcpyDeviceToHost);
  double mean = 0;
  for (float number : all) mean += number / (2.0 * half);
  if (me == 0) printf("the mean is %.2f, the value %d\n", mean, given);
  shmem_finalize();
}
