// SPDX-License-Identifier: MIT
// With 2 PEs: PE 0 has 1.0 and 2.0
#include <hip/hip_runtime.h>
#include <shmemx.h>
#include <stdio.h>

// Each PE gets a megabyte of each other, while the compute units are free.
int main() {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  constexpr size_t count = 262144;
  auto *mine = (float *)shmem_malloc_with_hints(count * sizeof(float), SHMEMX_MALLOC_DEVICE);
  auto *all =
      (float *)shmem_malloc_with_hints(count * size_t(n) * sizeof(float), SHMEMX_MALLOC_DEVICE);
  if (!mine || !all) {
    if (me == 0) printf("no GPU\n");
    shmem_finalize();
    return 0;
  }
  shmemx_team_copy_engines(SHMEM_TEAM_WORLD, 1);
  shmemx_float_fill_on_stream(mine, float(me + 1), count, nullptr);
  shmemx_float_fcollect_on_stream(SHMEM_TEAM_WORLD, all, mine, count, nullptr);
  float first = 0, last = 0;
  (void)hipMemcpy(&first, all, sizeof first, hipMemcpyDeviceToHost);
  (void)hipMemcpy(&last, all + count * size_t(n) - 1, sizeof last, hipMemcpyDeviceToHost);
  if (me == 0) printf("PE 0 has %.1f and %.1f\n", double(first), double(last));
  shmem_finalize();
}
