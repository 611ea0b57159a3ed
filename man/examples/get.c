// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long row[3]; // symmetric

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  for (int i = 0; i < 3; i++) row[i] = 10 * me + i;
  shmem_barrier_all(); // the rows are filled

  long theirs[3];
  shmem_get(theirs, row, 3, (me + 1) % n); // C11: the type comes from the pointer
  if (me == 0) printf("%ld %ld %ld\n", theirs[0], theirs[1], theirs[2]);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 10 11 12
