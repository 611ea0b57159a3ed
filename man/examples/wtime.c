// SPDX-License-Identifier: MIT
// With 2 PEs: a barrier takes some time
#include <shmemx.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  const double start = shmemx_wtime();
  shmem_barrier_all();
  const double seconds = shmemx_wtime() - start;
  if (shmem_my_pe() == 0) puts(seconds > 0 ? "a barrier takes some time" : "no clock");
  shmem_finalize();
}
