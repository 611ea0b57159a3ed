// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static int mine[8], all[64];

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  for (int i = 0; i < me; i++) mine[i] = me;
  shmem_int_collect(SHMEM_TEAM_WORLD, all, mine, (size_t)me); // PE 0 none, PE 1 one, ...
  if (me == 0) printf("%d %d %d %d %d %d\n", all[0], all[1], all[2], all[3], all[4], all[5]);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 1 2 2 3 3 3
