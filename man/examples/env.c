// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  shmem_init();
  const size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
  void *block = shmem_malloc(mib << 20); // NULL when SHMEM_SYMMETRIC_SIZE is too small
  if (shmem_my_pe() == 0) printf("%zu MiB %s\n", mib, block ? "fit" : "do not fit");
  shmem_free(block);
  shmem_finalize();
  return 0;
}
// With 2 PEs: 1 MiB fit
