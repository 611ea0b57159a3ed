// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long from; // static data is symmetric

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  long *sum = shmem_calloc(1, sizeof *sum); // so is this, on every PE

  shmem_long_p(&from, me + 1, (me + 1) % n);              // store at the right neighbour,
  shmem_barrier_all();                                    // where it has come now,
  shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sum, &from, 1); // and add up what came
  if (me == 0) printf("%d PEs, sum %ld\n", n, *sum);

  shmem_free(sum);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 4 PEs, sum 10
