// SPDX-License-Identifier: MIT
// Calls of every kind, for trace.py, which knows their events.
#include <pthread.h>
#include <shmem.h>
#include <shmemx.h>
#include <stdlib.h>
#include <string.h>

static void *many(void *n) {
  for (int i = 0; i < *(int *)n; i++) shmem_fence();
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
  const int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n;
  long *const data = shmem_malloc(100 * sizeof(long)), value = 1;
  uint64_t *const signal = shmem_calloc(1, sizeof *signal);
  double out[2] = {0, 0};
  if (argc > 1 && !strcmp(argv[1], "clocks")) { // which all leave when all have come
    for (int i = 0; i < 20; i++) shmem_barrier_all();
    shmem_finalize();
    return 0;
  }
  shmem_long_put(data, &value, 1, next);
  shmem_put(data, data + 50, 10, next);
  shmem_putmem(data, data + 50, 13, next);
  shmem_put128(data, data + 50, 2, next);
  shmem_long_g(data, next);
  shmem_double_get(out, (double *)data, 2, next);
  shmem_long_ibput(data, data + 50, 4, 4, 2, 3, next);
  shmem_long_atomic_fetch_add(data, 1, next);
  shmem_putmem_signal(data, data + 50, 24, signal, 1, SHMEM_SIGNAL_SET, next);
  shmem_signal_wait_until(signal, SHMEM_CMP_EQ, 1);
  shmem_quiet();

  // A context of a team, whose PE 0 is the last one of the world.
  shmem_team_t team = SHMEM_TEAM_INVALID;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, 1, 1, NULL, 0, &team);
  shmem_ctx_t ctx;
  if (me == n - 1 && shmem_team_create_ctx(team, 0, &ctx) == 0) {
    shmem_ctx_long_p(ctx, data, 7, 0);
    shmem_ctx_destroy(ctx);
  }
  shmem_long_sum_reduce(SHMEM_TEAM_WORLD, data, data + 50, 5);
  shmem_sync_all();

  shmemx_trace_stop();
  shmem_fence();
  shmem_pcontrol(1);
  shmemx_trace_event(17);
  shmem_pcontrol(0);
  shmem_fence();
  shmemx_trace_start();

  int fences = 5000;
  pthread_t thread;
  pthread_create(&thread, NULL, many, &fences);
  pthread_join(thread, NULL);
  if (argc > 1 && !strcmp(argv[1], "exit")) {
    shmem_barrier_all();
    shmem_pcontrol(2);
    shmem_global_exit(3);
  }
  if (argc > 1 && !strcmp(argv[1], "abort")) {
    shmem_pcontrol(2);
    shmem_barrier_all();
    abort();
  }
  shmem_finalize();
  shmem_init();
  shmem_barrier_all();
  shmem_finalize();
}
