// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  long *table = shmem_calloc((size_t)n, sizeof *table); // one row, of all PEs
  long mine[2] = {me, me * me};

  shmem_long_put(&table[me], &mine[1], 1, 0); // into the table of PE 0
  shmem_barrier_all();                        // complete, and PE 0 knows
  if (me == 0) {
    for (int pe = 0; pe < n; pe++) printf("%ld ", table[pe]);
    printf("\n");
  }
  shmem_free(table);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 0 1 4 9
