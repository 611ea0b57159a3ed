// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long counter;  // static data: symmetric
static uint64_t full; // a signal

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
  long *block = shmem_calloc(100, sizeof *block); // on the heap of shmem_malloc: symmetric
  long mine[100];                                 // private: source of a put, dest of a get
  for (int i = 0; i < 100; ++i) mine[i] = me;
  shmem_put(block, mine, 100, next);
  shmem_fence(); // the block arrives before the signal
  shmem_signal_add(&full, 1, next);
  shmem_signal_wait_until(&full, SHMEM_CMP_EQ, 1);
  shmem_atomic_add(&counter, block[99], 0); // the previous PE's number
  shmem_barrier_all();                      // all sums have arrived
  long *there = shmem_ptr(block, next);     // a plain pointer, NULL on another node
  if (me == 0) printf("%ld %ld\n", counter, there ? there[0] : shmem_g(block, next));
  shmem_free(block);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 6 0
