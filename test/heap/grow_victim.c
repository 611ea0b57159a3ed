// SPDX-License-Identifier: MIT
// grow_victim BYTES: asks for a block; status 9 where there is none, on all PEs.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  fprintf(stderr, "pid %d\n", (int)getpid());
  shmem_init();
  const size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  char *p = shmem_malloc(bytes);
  if (p) {
    const int other = (shmem_my_pe() + 1) % shmem_n_pes();
    shmem_char_p(p + bytes - 1, 'x', other);
    shmem_barrier_all();
    if (p[bytes - 1] != 'x') return 8;
  }
  shmem_free(p);
  shmem_finalize();
  return p ? 0 : 9;
}
