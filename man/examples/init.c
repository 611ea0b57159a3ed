// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

int main(void) {
  int provided, up;
  if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided)) return 1;
  if (shmem_my_pe() == 0) {
    shmem_query_initialized(&up);
    printf("level %d of %d, up %d\n", provided, SHMEM_THREAD_MULTIPLE, up);
  }
  shmem_finalize();
  return 0;
}
// With 2 PEs: level 3 of 3, up 1
