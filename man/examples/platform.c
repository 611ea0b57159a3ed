// SPDX-License-Identifier: MIT
// With 2 PEs: each has its neighbour's number
#include <shmemx.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  int *const box = shmem_malloc_with_hints(2 * sizeof *box, SHMEMX_MALLOC_DEVICE);
  if (!box) {
    if (me == 0) printf("no GPU for the platform %s\n", shmemx_platform());
    shmem_finalize();
    return 77;
  }
  shmem_int_p(box, me, me);
  shmem_barrier_all();
  shmemx_int_put_on_stream(box + 1, box, 1, (me + 1) % n, NULL);
  shmemx_barrier_all_on_stream(NULL);
  shmemx_stream_synchronize(NULL);
  const int right = shmem_int_g(box + 1, me) == (me + n - 1) % n;
  if (me == 0) puts(right ? "each has its neighbour's number" : "wrong");
  shmem_free(box);
  shmem_finalize();
}
