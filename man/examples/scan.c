// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static size_t count, begin;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  count = 10 + (size_t)me;
  shmem_size_sum_exscan(SHMEM_TEAM_WORLD, &begin, &count, 1);
  if (me == n - 1) printf("%zu to %zu\n", begin, begin + count - 1);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 33 to 45
