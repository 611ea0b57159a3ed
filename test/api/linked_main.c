// SPDX-License-Identifier: MIT
// A program that brings the prototypes of routines that the library only exports, as old ones do,
// and one that measures time as with other libraries.
#include <shmemx.h>
#include <stdio.h>
#include <unistd.h>

int my_pe(void), num_pes(void);
void shmem_set_cache_inv(void), shmem_set_cache_line_inv(void *);
void shmem_clear_cache_inv(void), shmem_clear_cache_line_inv(void *);
void shmem_udcflush(void), shmem_udcflush_line(void *);

static long word = 5;

int main(void) {
  shmem_init();
  const int me = my_pe(), n = num_pes(), right = (me + 1) % n;
  shmem_set_cache_inv();
  shmem_set_cache_line_inv(&word);
  const long before = shmem_long_swap(&word, me, right);
  shmem_udcflush();
  shmem_udcflush_line(&word);
  shmem_clear_cache_line_inv(&word);
  shmem_clear_cache_inv();
  shmem_barrier_all();
  const double start = shmemx_wtime();
  usleep(20000);
  const double slept = shmemx_wtime() - start;
  const int bad = slept < 0.02 || slept > 10 || me != shmem_my_pe() || n != shmem_n_pes() ||
                  before != 5 || word != (me + n - 1) % n;
  if (bad) fprintf(stderr, "PE %d of %d: %ld before, %ld after\n", me, n, before, word);
  shmem_finalize();
  return bad;
}
