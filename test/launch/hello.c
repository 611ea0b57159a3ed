// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

int main(int argc, char **argv) {
  (void)argv;
  shmem_init();
  if (argc > 1 && shmem_my_pe() == 1) shmem_global_exit(5);
  if (argc > 1) shmem_barrier_all(); // the others are still here when PE 1 ends the job
  printf("%d of %d: %s\n", shmem_my_pe(), shmem_n_pes(), WORDS);
  shmem_finalize();
  return 0;
}
