// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static int matrix[4][4]; // symmetric, by rows

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  const int column[4] = {me, me, me, me};

  shmem_int_iput(&matrix[0][me], column, 4, 1, 4, 0); // column me of PE 0's matrix
  shmem_barrier_all();
  if (me == 0) printf("%d %d %d %d\n", matrix[2][0], matrix[2][1], matrix[2][2], matrix[2][3]);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 0 1 2 3
