// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static int from[64], to[64];

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  for (int pe = 0; pe < n; pe++) from[pe] = 10 * me + pe; // a row
  shmem_alltoall(SHMEM_TEAM_WORLD, to, from, 1);          // becomes a column
  if (me == 1) printf("%d %d %d\n", to[0], to[1], to[2]);
  shmem_finalize();
  return 0;
}
// With 3 PEs: 1 11 21
