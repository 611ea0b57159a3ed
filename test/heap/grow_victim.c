// SPDX-License-Identifier: MIT
// grow_victim BYTES [PE CALLS]: asks for a block; status 9 where there is none, on all PEs. CALLS
// are what PE has for SHMEM_CPU_FAIL.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  fprintf(stderr, "pid %d\n", (int)getpid());
  if (argc > 3 && !strcmp(getenv("PMIX_RANK"), argv[2])) setenv("SHMEM_CPU_FAIL", argv[3], 1);
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
  // Where it failed once, it works the next time.
  if (!p && argc > 3) {
    p = shmem_malloc(bytes);
    if (!p) return 7;
    memset(p, shmem_my_pe() + 1, bytes);
    shmem_barrier_all();
    if (shmem_char_g(p + bytes - 1, 1 - shmem_my_pe()) != 2 - shmem_my_pe()) return 6;
    shmem_free(p);
    p = NULL;
  }
  shmem_finalize();
  return p ? 0 : 9;
}
