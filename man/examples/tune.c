// SPDX-License-Identifier: MIT
// With 2 PEs: 0 1
#include <shmemx.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  int good = shmemx_tune("reduce * 8 65536 lines 16 256\n"
                         "reduce * 8 1048576 direct 32 512\n");
  int bad = shmemx_tune("reduce * 8 65536 quickly 16 256\n");
  if (shmem_my_pe() == 0) printf("%d %d\n", good, bad != 0);
  shmem_finalize();
}
