// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  shmem_team_t even; // PEs 0, 2, 4, ...; SHMEM_TEAM_INVALID on the others
  if (shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, NULL, 0, &even))
    shmem_global_exit(1);
  if (shmem_team_my_pe(even) == 1)
    printf("PE %d of %d, PE %d of the world\n", shmem_team_my_pe(even), shmem_team_n_pes(even),
           shmem_team_translate_pe(even, 1, SHMEM_TEAM_WORLD));
  if (me % 2 == 0) shmem_team_sync(even);
  shmem_team_destroy(even); // nothing happens where it is SHMEM_TEAM_INVALID
  shmem_finalize();
  return 0;
}
// With 4 PEs: PE 1 of 2, PE 2 of the world
