// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static double data[8];
static int ready;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  if (me == 0) {
    const double mine[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    shmem_double_put(data, mine, 8, 1);
    shmem_fence(); // the data before the flag
    shmem_int_atomic_set(&ready, 1, 1);
  }
  if (me == 1) {
    shmem_int_wait_until(&ready, SHMEM_CMP_EQ, 1);
    printf("%g\n", data[7]);
  }
  shmem_finalize();
  return 0;
}
// With 2 PEs: 8
