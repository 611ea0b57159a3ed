// SPDX-License-Identifier: MIT
// Faults and ends on several nodes, for ends.py. The last PE is on another node than PE 0.
// far exit STATUS: it calls shmem_global_exit; far die: it is killed; far busy: it computes for two
// seconds while PE 0 gets from it; far ahead: PE 0 broadcasts while that node's PEs compute for a
// second; far sleep: all wait to be killed; far talk: PE 0 counts there; far apart: at a signal,
// sent when the link is down, PE 0 puts by one context, and does not wait for that in another one's
// quiet, nor in that of its own node's PEs; far put: PE 0 puts; far early: it ends before
// shmem_init; far late: it comes there three seconds after the others. There are 4 PEs.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemx.h>

static long word = 42;
static int in_time;
static volatile sig_atomic_t down;

static void see_down(int signal) {
  down = signal;
}

static int me, last;

static int busy(void) {
  const double start = shmemx_wtime();
  if (me == last)
    while (shmemx_wtime() - start < 2) {
    }
  if (me == 0) {
    for (int i = 0; i < 20; i++)
      if (shmem_long_g(&word, last) != 42) return 3;
    shmem_long_atomic_inc(&word, last);
    in_time = shmemx_wtime() - start < 1;
    printf(in_time ? "in time\n" : "late\n");
  }
  shmem_barrier_all();
  return 0;
}

static int ahead(void) {
  enum { bytes = 64 << 10, times = 40 };
  char *a = shmem_malloc(2 * bytes);
  const double start = shmemx_wtime();
  if (me > last / 2)
    while (shmemx_wtime() - start < 1) {
    }
  for (int i = 0; i < times; i++) {
    memset(a, i, bytes);
    shmem_broadcastmem(SHMEM_TEAM_WORLD, a + bytes, a, bytes, 0);
    if (a[bytes] != i || a[2 * bytes - 1] != i) return 6;
  }
  if (me == 0) printf("%s\n", shmemx_wtime() - start > 0.8 ? "not ahead" : "ahead");
  shmem_barrier_all();
  return 0;
}

static int talk(void) {
  fprintf(stderr, "up\n");
  const double start = shmemx_wtime();
  for (long i = 0; shmemx_wtime() - start < 3 || i % 64; i++) {
    if (me == 0 && shmem_long_atomic_fetch_add(&word, 1, last) != 42 + i) return 4;
    usleep(1000);
  }
  shmem_barrier_all();
  if (me == 0) printf("talked\n");
  return 0;
}

static int apart(void) {
  static char from[64 << 10], to[64 << 10];
  double took[3] = {0, 0, 0}, before, now;
  shmem_ctx_t ctx[2];
  for (int c = 0; c < 2; c++)
    if (shmem_ctx_create(0, &ctx[c])) return 7;
  shmem_ctx_putmem(ctx[1], to, from, sizeof to, last); // the first one asks where this lies there
  shmem_ctx_quiet(ctx[1]);
  signal(SIGUSR1, see_down);
  fprintf(stderr, "up\n");
  while (!down) usleep(1000);
  if (me == 0) {
    shmem_ctx_putmem_nbi(ctx[0], to, from, sizeof to, last);
    shmem_ctx_long_p(ctx[0], &word, 43, last);
    before = shmemx_wtime();
    for (int c = 2; c >= 0; c--, before = now) {
      if (c == 2)
        shmem_ctx_pe_quiet(ctx[0], (const int[]){0, 1}, 2);
      else
        shmem_ctx_quiet(ctx[c]);
      took[c] = (now = shmemx_wtime()) - before;
    }
    if (shmem_ctx_long_g(ctx[1], &word, last) != 43) return 8;
  }
  for (int c = 0; c < 2; c++) shmem_ctx_destroy(ctx[c]);
  shmem_barrier_all();
  if (me == 0)
    printf("%s: quiet of the one that puts %.1f s, at its node %.1f s, of the other one %.1f s\n",
           took[0] > 1 && took[1] < 0.5 && took[2] < 0.5 ? "apart" : "not apart", took[0], took[2],
           took[1]);
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  const char *rank = getenv("PMIX_RANK");
  if (rank && atoi(rank) == 3) {
    if (strcmp(what, "early") == 0) return 0;
    if (strcmp(what, "late") == 0) sleep(3);
  }
  shmem_init();
  me = shmem_my_pe(), last = shmem_n_pes() - 1;
  int wrong = 0;
  if (me == 0 && (shmem_ptr(&word, last) || !shmem_addr_accessible(&word, last))) return 5;
  shmem_barrier_all();
  if (strcmp(what, "exit") == 0) {
    if (me == last) shmem_global_exit(atoi(argv[2]));
    shmem_long_wait_until(&word, SHMEM_CMP_EQ, 0);
  } else if (strcmp(what, "die") == 0) {
    if (me == last) raise(SIGKILL);
    shmem_barrier_all();
  } else if (strcmp(what, "busy") == 0) {
    if ((wrong = busy())) return wrong;
  } else if (strcmp(what, "put") == 0) {
    static long many[16];
    if (me == 0) shmem_long_put(many, many, 16, last);
    shmem_barrier_all();
  } else if (strcmp(what, "ahead") == 0) {
    if ((wrong = ahead())) return wrong;
  } else if (strcmp(what, "sleep") == 0) {
    fprintf(stderr, "up\n");
    pause();
  } else if (strcmp(what, "talk") == 0) {
    if ((wrong = talk())) return wrong;
  } else if (strcmp(what, "apart") == 0) {
    if ((wrong = apart())) return wrong;
  }
  shmem_finalize();
  return 0;
}
