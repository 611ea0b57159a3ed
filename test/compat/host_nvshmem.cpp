// SPDX-License-Identifier: MIT
// The host's part of a program for NVSHMEM, in a source of its own, as its users write it.
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

int main() {
  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr);
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  long *number = static_cast<long *>(nvshmem_malloc(2 * sizeof(long)));
  if (!number) nvshmem_global_exit(2);
  nvshmem_long_p(number, 10L + me, (me + 1) % n);
  nvshmem_barrier_all();
  const long got = nvshmem_long_g(number, me), want = 10L + (me + n - 1) % n;
  nvshmem_long_p(number + 1, got, me);
  nvshmemx_long_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, number, number + 1, 1, nullptr);
  nvshmemx_barrier_all_on_stream(nullptr);
  nvshmemx_quiet_on_stream(nullptr);
  nvshmem_free(number);
  nvshmem_finalize();
  if (got != want) printf("PE %d: %ld, not %ld\n", me, got, want);
  return got != want;
}
