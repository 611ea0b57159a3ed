// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long next_piece, done; // those of PE 0 count

int main(void) {
  shmem_init();
  long mine = 0;
  while (shmem_long_atomic_fetch_inc(&next_piece, 0) < 100) mine++; // the work of a piece
  shmem_long_atomic_add(&done, mine, 0);
  shmem_barrier_all();
  if (shmem_my_pe() == 0) printf("%ld pieces\n", done);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 100 pieces
