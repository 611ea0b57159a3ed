// SPDX-License-Identifier: MIT
// With 1 PEs: sum of 4 ranks: 6
#include <shmem.h>
#include <shmemx.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int work(int rank, int n, const shmemx_uniqueid_t *id) {
  shmemx_init_attr_t attr = SHMEMX_INIT_ATTR_INITIALIZER;
  attr.rank = rank;
  attr.n = n;
  attr.uniqueid = id;
  if (shmemx_init_attr(0, &attr)) {
    fprintf(stderr, "%s\n", shmemx_error_string());
    return 1;
  }
  static long sum;
  shmem_long_atomic_add(&sum, rank, 0);
  shmem_barrier_all();
  if (rank == 0) printf("sum of %d ranks: %ld\n", n, sum);
  shmem_finalize();
  return 0;
}

int main(void) { /* a driver and its workers */
  const int n = 4;
  shmemx_uniqueid_t id;
  if (shmemx_get_uniqueid(&id)) {
    fprintf(stderr, "%s\n", shmemx_error_string());
    return 1;
  }
  for (int rank = 0; rank < n; rank++)
    if (fork() == 0) exit(work(rank, n, &id));
  int status, failed = 0;
  while (wait(&status) > 0) failed |= status != 0;
  return failed;
}
