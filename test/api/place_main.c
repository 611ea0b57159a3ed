// SPDX-License-Identifier: MIT
// PEs that are started in unusual places. place plain: all that needs passed descriptors works:
// heap, static data, a registered buffer. place child: a PE runs this program by system(), as steps
// before and after a computation do: a job of its own. place leaves: main has left by pthread_exit.
// place undumpable: a process with more rights than its user is so to the others. place comma: the
// program's locale has another decimal point.
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <shmem.h>
#include <shmemx.h>

#define CHECK(cond)                                                                                \
  do {                                                                                             \
    if (!(cond)) {                                                                                 \
      fprintf(stderr, "%s:%d: PE %d of %d: not true: %s\n", __FILE__, __LINE__, shmem_my_pe(),     \
              shmem_n_pes(), #cond);                                                               \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

static long sum, from;

static void job(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
  long *heap = shmem_malloc(1 << 20), *own = malloc(1 << 16);
  shmemx_buffer_t buffer;
  shmemx_buffer_register(own, 1 << 16, &buffer);
  shmem_long_atomic_add(&sum, me + 1, 0);
  shmem_long_p(&from, me, right);
  shmem_long_p(heap, me + 100, right);
  shmem_long_p(&own[5], me + 200, right);
  shmem_barrier_all();
  CHECK(me || sum == (long)n * (n + 1) / 2);
  CHECK(from == left);
  CHECK(heap[0] == left + 100);
  CHECK(own[5] == left + 200);
  shmemx_buffer_unregister(buffer);
  free(own);
  shmem_free(heap);
}

static void *all(void *p) {
  usleep(100000); // main has left by now
  job();
  shmem_finalize();
  return p;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "plain";
  if (strcmp(mode, "leaves") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, all, NULL) != 0) return 1;
    pthread_exit(NULL);
  }
  if (strcmp(mode, "undumpable") == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return 1;
  if (strcmp(mode, "comma") == 0 &&
      (!setlocale(LC_ALL, "") || strcmp(localeconv()->decimal_point, ",") != 0))
    return 1;
  job();
  if (strcmp(mode, "alone") == 0) CHECK(shmem_n_pes() == 1);
  if (strcmp(mode, "child") == 0) {
    char command[4096];
    snprintf(command, sizeof command, "'%s' alone", argv[0]);
    CHECK(shmem_n_pes() > 1);
    if (shmem_my_pe() == 0) CHECK(system(command) == 0);
    shmem_barrier_all();
    CHECK(system(command) == 0); // all at once
  }
  shmem_finalize();
  if (strcmp(mode, "child") == 0) {
    char command[4096];
    snprintf(command, sizeof command, "'%s' alone", argv[0]);
    if (system(command) != 0) return 1;
  }
  return 0;
}
