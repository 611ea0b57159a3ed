// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static double x[2];
static long largest;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  x[0] = 1, x[1] = me;
  shmem_sum_reduce(SHMEM_TEAM_WORLD, x, x, 2); // in place
  largest = 7 * me % 5;
  shmem_long_max_reduce(SHMEM_TEAM_WORLD, &largest, &largest, 1);
  if (me == 0) printf("%g %g, %ld\n", x[0], x[1], largest);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 4 6, 4
