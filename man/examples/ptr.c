// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static int box;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), right = (me + 1) % shmem_n_pes();
  int *theirs = shmem_ptr(&box, right);
  if (!theirs || !shmem_addr_accessible(&box, right)) return 1; // on one node it never is null
  *theirs = me + 1;                                             // a plain store
  shmem_barrier_all();
  if (me == 0) printf("%d\n", box);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 4
