// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  if (shmem_my_pe() == 0) printf("%d PEs\n", shmem_n_pes());
  shmem_finalize();
  return 0;
}
// With 3 PEs: 3 PEs
