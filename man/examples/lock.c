// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long lock; // 0: free
static int total; // of PE 0, guarded by the lock

int main(void) {
  shmem_init();
  for (int i = 0; i < 10; i++) {
    shmem_set_lock(&lock);
    shmem_int_p(&total, shmem_int_g(&total, 0) + 1, 0);
    shmem_clear_lock(&lock); // also completes the put
  }
  shmem_barrier_all();
  if (shmem_my_pe() == 0) printf("%d\n", total);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 40
