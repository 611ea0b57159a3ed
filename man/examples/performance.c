// SPDX-License-Identifier: MIT
// With 2 PEs: 1000 stores and one put have the same result
#include <shmemx.h>
#include <stdio.h>

enum { N = 1000 };
static long there[2][N];

int main(void) {
  shmem_init();
  const int next = (shmem_my_pe() + 1) % shmem_n_pes();
  long mine[N];
  for (int i = 0; i < N; ++i) mine[i] = i;
  for (int i = 0; i < 2; ++i) shmem_put(there[i], mine, N, next); // no page is new from here on
  shmem_barrier_all();

  double start = shmemx_wtime();
  for (int i = 0; i < N; ++i) shmem_p(&there[0][i], 2 * mine[i], next);
  shmem_quiet(); // the time of a put ends when the data has arrived
  const double single = shmemx_wtime() - start;

  for (int i = 0; i < N; ++i) mine[i] *= 2;
  start = shmemx_wtime();
  shmem_put(there[1], mine, N, next);
  shmem_quiet();
  const double whole = shmemx_wtime() - start;

  shmem_barrier_all();
  int same = 0;
  for (int i = 0; i < N; ++i) same += there[0][i] == there[1][i] && there[0][i] == 2L * i;
  if (shmem_my_pe() == 0) {
    fprintf(stderr, "%d stores: %.2f us, one put: %.2f us\n", N, single * 1e6, whole * 1e6);
    printf("%d stores and one put have the same result\n", same);
  }
  shmem_finalize();
  return 0;
}
