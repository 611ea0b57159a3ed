// SPDX-License-Identifier: MIT
// With 2 PEs: 10
#include <shmemx.h>
#include <stdio.h>

int main(void) {
  shmem_init();
  shmemx_trace_stop(); // nothing of what comes first
  static long sum;
  const long me = shmem_my_pe();
  shmem_sync_all();
  shmemx_trace_start();
  for (unsigned step = 0; step < 10; step++) {
    shmemx_trace_event(step);
    shmem_long_atomic_add(&sum, me, 0);
  }
  shmem_barrier_all();
  if (me == 0) printf("%ld\n", sum);
  shmem_finalize();
}
