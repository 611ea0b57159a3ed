// SPDX-License-Identifier: MIT
#include <shmemx.h>
#include <stdio.h>

enum { N = 2, ROWS = 2, HEADS = 4 }; // of each PE: tokens of the sequence, and all heads

static int mine[ROWS * HEADS], all[N * ROWS * (HEADS / N)];

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  for (int i = 0; i < ROWS * HEADS; i++) mine[i] = 100 * (ROWS * me + i / HEADS) + i % HEADS;
  // All tokens, but only the heads of this PE
  shmemx_int_alltoall2d(SHMEM_TEAM_WORLD, all, mine, ROWS * (HEADS / N), HEADS / N, HEADS / N,
                        HEADS, HEADS / N, ROWS);
  if (me == 1)
    for (int i = 0; i < N * ROWS * (HEADS / N); i++) printf("%d ", all[i]);
  shmem_finalize();
  return 0;
}
// With 2 PEs: 2 3 102 103 202 203 302 303
