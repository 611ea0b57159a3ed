// SPDX-License-Identifier: MIT
// Threads with the least stack there is: 16 KiB, of which the C library takes the thread-local
// memory of everything that was loaded when the program started. They put, wait and take part in
// collectives, short and long.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 1 << 16, PES = 8 };

static long lock, count, box, flag, in[LONG], out[PES * LONG];
static uint64_t signal_word;
static int failures;

#define CHECK(cond)                                                                                \
  if (!(cond)) failures++, fprintf(stderr, "PE %d: %s\n", shmem_my_pe(), #cond)

static void collectives(size_t n) {
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  for (size_t i = 0; i < n; i++) in[i] = me + 1;
  shmem_sync_all();
  CHECK(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, out, in, n) == 0);
  CHECK(out[n - 1] == npes * (npes + 1) / 2);
  shmem_sync_all();
  CHECK(shmem_long_broadcast(SHMEM_TEAM_WORLD, out, in, n, npes - 1) == 0);
  CHECK(out[n - 1] == npes);
  shmem_sync_all();
  CHECK(shmem_long_fcollect(SHMEM_TEAM_WORLD, out, in, n / npes) == 0);
  shmem_sync_all();
  CHECK(shmem_long_collect(SHMEM_TEAM_WORLD, out, in, n / npes - (me == 0)) == 0);
  shmem_sync_all();
  CHECK(shmem_long_alltoall(SHMEM_TEAM_WORLD, out, in, n / npes) == 0);
  CHECK(out[0] == 1);
  shmem_sync_all();
  CHECK(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, out, in, n) == 0);
  CHECK(out[0] == (me + 1) * (me + 2) / 2);
  shmem_barrier_all();
}

static void *work(void *stream) {
  const int me = shmem_my_pe(), npes = shmem_n_pes(), right = (me + 1) % npes;
  shmem_long_p(&box, 7, right);
  shmem_long_put(out, in, LONG, right);
  shmem_fence();
  shmem_long_atomic_inc(&flag, right);
  shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
  CHECK(box == 7 && shmem_long_g(&box, right) >= 0);
  shmem_putmem_signal(out, in, sizeof in, &signal_word, 1, SHMEM_SIGNAL_ADD, right);
  shmem_signal_wait_until(&signal_word, SHMEM_CMP_GE, 1);
  collectives(PES * 2);
  collectives(LONG);
  shmem_set_lock(&lock);
  count = shmem_long_g(&count, 0);
  shmem_long_p(&count, count + 1, 0);
  shmem_clear_lock(&lock);
  shmem_team_t team;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &team) == 0);
  CHECK(shmem_team_n_pes(team) == npes);
  shmem_team_destroy(team);
  shmem_ctx_t ctx;
  CHECK(shmem_ctx_create(0, &ctx) == 0);
  shmem_ctx_destroy(ctx);
  void *p = shmem_malloc(1 << 20);
  CHECK(p);
  shmem_free(p);
  CHECK(fprintf(stream, "PE %d of %d\n", me, npes) > 0);
  return NULL;
}

int main(int argc, char **argv) {
  size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : PTHREAD_STACK_MIN;
  const long least = sysconf(_SC_THREAD_STACK_MIN); // more where a signal saves large registers
  if (least > 0 && (size_t)least > bytes) bytes = (size_t)least;
  int provided;
  shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  CHECK(pthread_attr_setstacksize(&attr, bytes) == 0);
  pthread_t thread;
  const int error = pthread_create(&thread, &attr, work, stdout);
  if (error) {
    fprintf(stderr, "a thread with %zu bytes of stack: %s\n", bytes, strerror(error));
    shmem_global_exit(1);
  }
  pthread_join(thread, NULL);
  if (shmem_my_pe() == 0) CHECK(count == shmem_n_pes());
  if (failures) shmem_global_exit(1);
  shmem_finalize();
  return 0;
}
