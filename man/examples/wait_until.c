// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static int flag[64]; // of PE 0: one for each PE

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  if (me != 0) {
    shmem_int_atomic_set(&flag[me], 10 * me, 0);
  } else {
    int status[64] = {1}, sum = 0; // not that of PE 0
    for (int left = n - 1; left > 0; left--) {
      size_t i = shmem_int_wait_until_any(flag, (size_t)n, status, SHMEM_CMP_NE, 0);
      sum += flag[i];
      status[i] = 1; // has been seen
    }
    printf("sum %d\n", sum);
  }
  shmem_finalize();
  return 0;
}
// With 4 PEs: sum 60
