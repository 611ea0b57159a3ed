// SPDX-License-Identifier: MIT
// With 3 PEs: 6
#include <shmemx.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  shmem_init();
  long *mine = calloc(1000, sizeof *mine);
  mine[0] = shmem_my_pe() + 1;
  shmemx_buffer_t buffer;
  shmemx_buffer_register(mine, 1000 * sizeof *mine, &buffer);
  shmem_long_sum_reduce(SHMEM_TEAM_WORLD, mine, mine, 1000);
  if (shmem_my_pe() == 0) printf("%ld\n", mine[0]);
  shmemx_buffer_unregister(buffer);
  free(mine);
  shmem_finalize();
  return 0;
}
