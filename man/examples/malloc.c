// SPDX-License-Identifier: MIT
#include <shmemx.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  double *a = shmem_calloc(1000, sizeof *a);
  double *b = shmem_malloc_with_hints(1000 * sizeof *b, SHMEMX_MALLOC_HOST);
  if (!a || !b) shmem_global_exit(1); // null on all PEs alike
  a = shmem_realloc(a, 2000 * sizeof *a);
  if (a && shmem_my_pe() == 0) printf("%g\n", a[999]);
  shmem_free(b);
  shmem_free(a);
  shmem_finalize();
  return 0;
}
// With 2 PEs: 0
