// SPDX-License-Identifier: MIT
// Prints, from one PE, the costs of start-up and memory: time of init, of a barrier and of the job
// so far, and the resident, proportional and private memory of every PE. For test/bench/scaling.
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sample {
  long rss, pss, private_kb; // KiB; -1: the kernel does not tell
  double init;               // seconds
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The sum of the lines that begin with the key, in KiB.
static long kilobytes(const char *path, const char *key) {
  FILE *file = fopen(path, "r");
  if (!file) return -1;
  char line[256];
  long sum = -1, value;
  while (fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (colon && strncmp(line, key, strlen(key)) == 0 && sscanf(colon + 1, "%ld", &value) == 1)
      sum = (sum < 0 ? 0 : sum) + value;
  }
  fclose(file);
  return sum;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(void) {
  const double start = now();
  shmem_init();
  const double initialized = now();
  static struct sample mine;
  mine.init = initialized - start;
  mine.rss = kilobytes("/proc/self/status", "VmRSS");
  mine.pss = kilobytes("/proc/self/smaps_rollup", "Pss:");
  mine.private_kb = kilobytes("/proc/self/smaps_rollup", "Private_");

  // Long enough that a scheduler which put two PEs on one core has moved one; the caller takes this
  // time off again.
  const double settle_start = now();
  while (now() - settle_start < 0.05) continue;
  const double settled = now() - settle_start;

  enum { BATCHES = 15, BARRIERS = 20 };
  double barrier[BATCHES];
  for (int i = 0; i < BATCHES; ++i) {
    shmem_barrier_all();
    const double before = now();
    for (int j = 0; j < BARRIERS; ++j) shmem_barrier_all();
    barrier[i] = (now() - before) / BARRIERS;
  }
  qsort(barrier, BATCHES, sizeof *barrier, by_value);

  if (shmem_my_pe() == 0) {
    struct sample worst = mine, all = {0};
    const int n_pes = shmem_n_pes();
    for (int pe = 0; pe < n_pes; ++pe) {
      struct sample s;
      shmem_getmem(&s, &mine, sizeof s, pe);
      if (s.rss > worst.rss) worst.rss = s.rss;
      if (s.init > worst.init) worst.init = s.init;
      all.rss += s.rss;
      all.pss += s.pss;
      all.private_kb += s.private_kb;
    }
    printf("footprint pes=%d init=%.9f settle=%.9f barrier=%.9f rss_max=%ld rss=%ld pss=%ld "
           "private=%ld\n",
           n_pes, worst.init, settled, barrier[BATCHES / 2], worst.rss, all.rss / n_pes,
           all.pss / n_pes, all.private_kb / n_pes);
    fflush(stdout);
  }
  shmem_barrier_all();
  shmem_finalize();
  return 0;
}
