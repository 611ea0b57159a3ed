// SPDX-License-Identifier: MIT
// Uses device memory in every way while a call of HIP fails on PE 1. heap_victim CALLS
// (SHMEM_CPU_FAIL's form).
#include <shmem.h>
#include <shmemx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const char *rank = getenv("PMIX_RANK");
  if (argc > 1 && rank && strcmp(rank, "1") == 0) setenv("SHMEM_CPU_FAIL", argv[1], 1);
  fprintf(stderr, "pid %d\n", (int)getpid());
  shmem_init();
  const int me = shmem_my_pe(), other = (me + 1) % shmem_n_pes();
  enum { N = 4000 };
  int *x = shmem_malloc_with_hints(N * sizeof *x, SHMEMX_MALLOC_DEVICE),
      *y = shmem_calloc(N, sizeof *y);
  static int data[N];
  if (!x || !y) shmem_global_exit(9);
  shmem_int_put(x, data, N, other);
  shmem_int_put_nbi(x, data, N, other);
  shmem_quiet();
  shmem_int_iput(x, data, 2, 1, N / 2, other);
  shmem_int_atomic_inc(x, other);
  shmem_barrier_all();
  shmem_int_sum_reduce(SHMEM_TEAM_WORLD, x + N / 2, x, N / 2);
  if (shmem_n_pes() > 1) {
    shmem_team_t team;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, 0, &team);
    shmem_team_destroy(team);
  }
  shmem_finalize();
  return 0;
}
