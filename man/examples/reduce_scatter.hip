// SPDX-License-Identifier: MIT
// With 2 PEs: 12
#include <hip/hip_runtime.h>
#include <shmemx.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  const int n = shmem_n_pes();
  int *source = (int *)shmem_malloc_with_hints(sizeof(int) * n, SHMEMX_MALLOC_DEVICE);
  int *dest = (int *)shmem_malloc_with_hints(sizeof(int), SHMEMX_MALLOC_DEVICE);
  for (int pe = 0; pe < n; pe++) // 10 for PE 0, and 5 more for each after it
    shmem_int_p(source + pe, shmem_my_pe() + 5 + pe, shmem_my_pe());
  shmem_barrier_all();
  hipStream_t stream;
  if (hipStreamCreate(&stream) != hipSuccess) return 1;
  shmemx_int_sum_reduce_scatter_on_stream(SHMEM_TEAM_WORLD, dest, source, 1, stream);
  if (hipStreamSynchronize(stream) != hipSuccess) return 1;
  if (shmem_my_pe() == 0) printf("%d\n", shmem_int_g(dest, 0) + 1);
  shmem_finalize();
}
