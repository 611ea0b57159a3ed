// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  if (shmem_my_pe() == 0) {
    printf("found\n"); // one PE has the answer: the others need not go on
    shmem_global_exit(0);
  }
  for (;;) shmem_quiet();
}
// With 2 PEs: found
