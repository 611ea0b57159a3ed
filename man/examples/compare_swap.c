// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long leader = -1; // of PE 0: the first PE that came
static long losers;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  if (shmem_long_atomic_compare_swap(&leader, -1, me, 0) != -1) // it was not -1 any more
    shmem_long_atomic_add(&losers, 1, 0);
  shmem_barrier_all();
  if (me == 0) printf("%ld losers\n", shmem_long_atomic_fetch(&losers, 0));
  shmem_finalize();
  return 0;
}
// With 4 PEs: 3 losers
