// SPDX-License-Identifier: MIT
// cores [LEVEL [thread]]: prints "PE: cores" that it may run on after init at that thread level,
// and "after: cores" after finalize; with a thread of its own before.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A symbol of programs that are linked with an OpenMP runtime; it need not be called.
#ifdef LIKE_OPENMP
int omp_get_max_threads(void);
int omp_get_max_threads(void) {
  return 1;
}
#endif

static void print_cores(const char *what, int number) {
  char line[8192];
  int n = number < 0 ? snprintf(line, sizeof line, "%s:", what)
                     : snprintf(line, sizeof line, "%d:", number);
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) abort();
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &cores)) n += snprintf(line + n, sizeof line - (size_t)n, " %d", i);
  puts(line);
}

static void *nothing(void *argument) {
  sleep(60);
  return argument;
}

int main(int argc, char **argv) {
  pthread_t thread;
  int provided;
  if (argc > 2 && pthread_create(&thread, NULL, nothing, NULL) != 0) abort();
  if (argc > 1)
    shmem_init_thread(atoi(argv[1]), &provided);
  else
    shmem_init();
  print_cores("", shmem_my_pe());
  shmem_finalize();
  print_cores("after", -1);
  return 0;
}
