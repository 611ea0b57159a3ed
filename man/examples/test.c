// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long ready; // symmetric

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  shmem_long_atomic_set(&ready, 1, (me + 1) % n);
  long worked = 0;
  while (!shmem_long_test(&ready, SHMEM_CMP_EQ, 1)) worked++; // something useful
  shmem_barrier_all();
  if (me == 0) printf("%s\n", worked >= 0 ? "ready" : "");
  shmem_finalize();
  return 0;
}
// With 4 PEs: ready
