// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static double input[3], all[3];

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  if (me == 0)
    for (int i = 0; i < 3; i++) input[i] = i / 2.0; // read from a file, say
  shmem_broadcast(SHMEM_TEAM_WORLD, all, input, 3, 0);
  if (me == n - 1) printf("%g %g %g\n", all[0], all[1], all[2]);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 0 0.5 1
