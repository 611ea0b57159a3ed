// SPDX-License-Identifier: MIT
// Every PE puts its number to the next one, and looks at what it has got.
#include <shmem.h>
#include <stdio.h>

static int from = -1; // symmetric: every PE has one

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), npes = shmem_n_pes(), before = (me + npes - 1) % npes;
  shmem_int_p(&from, me, (me + 1) % npes);
  shmem_barrier_all();
  printf("PE %d of %d: PE %d has put its number\n", me, npes, from);
  if (from != before) shmem_global_exit(1);
  shmem_finalize();
  return 0;
}
