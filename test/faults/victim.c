// SPDX-License-Identifier: MIT
// Does something wrong on purpose. victim death PHASE HOW: PE 1 dies while the others are in PHASE;
// victim exit STATUS: PE 1 calls shmem_global_exit; victim wrong MISTAKE: a call with a wrong
// argument; victim stream MISTAKE: one of those for a stream; victim note WHAT: a fault after which
// a program goes on; victim sleep: all wait to be killed.
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmemx.h>

static int me = -1, npes;
static long lock, flag, in = 1, out;
static int number, numbers[4];
static uint64_t sig;

static void nap(double seconds) {
  const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static void say_pid(void) {
  char line[64];
  const int n = snprintf(line, sizeof line, "pid %d\n", (int)getpid());
  if (write(STDERR_FILENO, line, (size_t)n) != n) abort();
}

static void die(const char *how) {
  struct timespec t;
  nap(0.15); // the others are there by now
  clock_gettime(CLOCK_MONOTONIC, &t);
  char line[64];
  const int n =
      snprintf(line, sizeof line, "dies %.6f\n", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
  if (write(STDERR_FILENO, line, (size_t)n) != n) abort();
  if (strcmp(how, "exit0") == 0) exit(0);
  if (strcmp(how, "exit3") == 0) exit(3);
  if (strcmp(how, "_exit0") == 0) _exit(0);
  if (strcmp(how, "_exit3") == 0) _exit(3);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "segv") == 0) raise(SIGSEGV);
  kill(getpid(), SIGKILL);
}

// A launcher's environment tells the rank before the library does.
static int early_rank(void) {
  static const char *const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
  for (size_t i = 0; i < 3; i++)
    if (getenv(names[i])) return atoi(getenv(names[i]));
  return 0;
}

static void death(const char *phase, const char *how) {
  if (strcmp(phase, "init") == 0) {
    say_pid();
    if (early_rank() == 1) die(how);
  }
  shmem_init();
  me = shmem_my_pe();
  npes = shmem_n_pes();
  if (strcmp(phase, "init") != 0) say_pid();
  if (strcmp(phase, "lock") == 0 && me == 1) shmem_set_lock(&lock);
  shmem_barrier_all();
  if (me == 1) die(how);
  if (strcmp(phase, "barrier") == 0) shmem_barrier_all();
  if (strcmp(phase, "second") == 0)
    for (;;) shmem_barrier_all();
  if (strcmp(phase, "sync") == 0) shmem_team_sync(SHMEM_TEAM_WORLD);
  if (strcmp(phase, "wait") == 0) shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
  if (strcmp(phase, "reduce") == 0) shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &out, &in, 1);
  if (strcmp(phase, "lock") == 0) shmem_set_lock(&lock);
  if (strcmp(phase, "malloc") == 0 && shmem_malloc(100)) puts("a block");
  if (strcmp(phase, "finalize") == 0) shmem_finalize();
  // Computing, and then the end of main. With exit(0), which finalizes, a PE may be ahead of the
  // others.
  const bool long_work = strcmp(phase, "compute") == 0 && strcmp(how, "exit0") != 0;
  if (strcmp(phase, "finalize") != 0) nap(long_work ? 20 : 0.1);
}

static void global_exit(int status) {
  shmem_init();
  me = shmem_my_pe();
  say_pid();
  printf("text of PE %d", me); // in a buffer of stdio
  shmem_barrier_all();
  if (me == 0) shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
  if (me == 1) {
    nap(0.1);
    shmem_global_exit(status);
  }
  for (volatile bool busy = true; busy;) {
  }
}

// A mistake is a row of a table: which PE makes it and when, its name, and its calls. Those of one
// PE are PE 1's; the others wait in vain.
enum Moment { early, all, one, end };
#define IS(name) (strcmp(what, name) == 0)
#define ROW(when, name, ...)                                                                       \
  if (now == when && IS(name)) {                                                                   \
    __VA_ARGS__;                                                                                   \
  }

static long *heap; // 8 of them, symmetric
static shmem_ctx_t ctx;
static shmem_team_t team;
static void *ours; // 64 bytes that are not

static void *inside(void *p, size_t bytes) {
  return (char *)p + bytes;
}

static void mistakes(enum Moment now, const char *what) {
  static long psync[SHMEM_SYNC_SIZE];
  int stack[4] = {0};
  ROW(early, "before-init", shmem_int_p(&number, 1, 0))
  ROW(all, "root", shmem_long_broadcast(SHMEM_TEAM_WORLD, &out, &in, 1, npes))
  ROW(all, "reduce-overlap", shmem_long_sum_reduce(SHMEM_TEAM_WORLD, heap + 1, heap, 4))
  ROW(all, "reduce-dest", shmem_long_sum_reduce(SHMEM_TEAM_WORLD, ours, &in, 1))
  ROW(all, "team-gone", shmem_team_destroy(team); shmem_team_sync(team))
  ROW(all, "free-foreign", shmem_free(ours))
  ROW(all, "free-twice", shmem_free(heap); shmem_free(heap))
  ROW(all, "free-inside", shmem_free(heap + 1))
  ROW(all, "active-set", shmem_barrier(0, 0, npes + 1, psync))
  ROW(all, "outside", shmem_long_sum_to_all(&out, &in, 1, 0, 0, 1, heap, psync);
      shmem_barrier_all())
  ROW(all, "malloc-alike", if (!shmem_malloc((size_t)(100 + me))) puts("no block"))
  ROW(all, "after-finalize", shmem_finalize(); shmem_int_p(&number, 1, 0))
  ROW(one, "pe", shmem_int_p(&number, 1, npes))
  ROW(one, "pe-negative", number = shmem_int_g(&number, -1))
  ROW(one, "pe-data", shmem_long_atomic_inc(&flag, npes + 5))
  ROW(one, "stack", shmem_int_put(stack, numbers, 4, 0))
  ROW(one, "malloc", shmem_long_get(heap, ours, 1, 0))
  ROW(one, "amo-stack", shmem_int_atomic_inc(stack, 0))
  ROW(one, "peer-address", shmem_long_p(shmem_ptr(heap, 0), 1, 0))
  ROW(one, "cmp", shmem_int_wait_until(&number, 77, 0))
  ROW(one, "sig-op", shmem_putmem_signal(numbers, stack, 4, &sig, 1, 99, 0))
  ROW(one, "team-invalid", shmem_team_sync(SHMEM_TEAM_INVALID))
#define LIST(n, ...)                                                                               \
  shmemx_team_create(SHMEM_TEAM_WORLD, (const int[]){__VA_ARGS__}, n, NULL, 0, &team)
  ROW(one, "list-empty", LIST(0, 1))
  ROW(one, "list-long", LIST(npes + 1, 0, 1, 2))
  ROW(one, "list-null", shmemx_team_create(SHMEM_TEAM_WORLD, NULL, 1, NULL, 0, &team))
  ROW(one, "list-pe", LIST(2, 1, npes))
  ROW(one, "list-twice", LIST(2, 1, 1))
  ROW(one, "list-other", LIST(1, 0))
  ROW(one, "list-parent", shmemx_team_create(SHMEM_TEAM_INVALID, &me, 1, NULL, 0, &team))
  ROW(all, "list-order", LIST(2, me, 1 - me))
  // under SHMEM_CHECK
  ROW(one, "null-dest", shmem_int_put(NULL, stack, 4, 0))
  ROW(one, "null-source", shmem_int_get(stack, NULL, 4, 0))
  ROW(one, "misaligned", shmem_int_put(inside(numbers, 1), stack, 1, 0))
  ROW(one, "misaligned-amo", shmem_long_atomic_inc(inside(heap, 4), 0))
  ROW(one, "overlap", shmem_long_put(heap, heap + 1, 4, me))
  ROW(one, "past-end", shmem_putmem(heap, stack, (size_t)1 << 40, 0))
  ROW(one, "stride", shmem_int_iput(numbers, stack, 0, 1, 2, 0))
  ROW(one, "ctx-invalid", shmem_ctx_int_p(SHMEM_CTX_INVALID, &number, 1, 0))
  ROW(one, "ctx-gone", shmem_ctx_destroy(ctx); shmem_ctx_int_p(ctx, &number, 1, 0))
  ROW(one, "ctx-pe", shmem_ctx_int_p(ctx, &number, 1, npes))
  ROW(one, "ivar", shmem_int_wait_until(stack, SHMEM_CMP_EQ, 0))
  ROW(one, "sig-addr", shmem_putmem_signal(numbers, stack, 4, ours, 1, SHMEM_SIGNAL_SET, 0))
  ROW(one, "lock", shmem_set_lock(ours))
  // No mistakes: these end well.
  ROW(end, "good", shmem_int_put(numbers, stack, 4, 0); shmem_int_put(NULL, NULL, 0, 0);
      shmem_long_atomic_inc(heap, me); shmem_ctx_int_p(ctx, &number, 4, me); shmem_ctx_quiet(ctx);
      shmem_long_sum_reduce(team, &out, &in, 1); shmem_ctx_destroy(ctx); shmem_team_destroy(team);
      shmem_free(heap); shmem_finalize(); exit(0))
  ROW(end, "extra-barrier", if (me == 0) shmem_barrier_all(); shmem_finalize(); exit(0))
}

#define UNEVEN(dest, capacity, counts)                                                             \
  shmemx_int_alltoallv_on_stream(SHMEM_TEAM_WORLD, dest, each, each, capacity, small, counts,      \
                                 each, NULL)
// The null stream is the default one.
static void mistakes_on_stream(enum Moment now, const char *what) {
  uint64_t *const word = (void *)heap;
  int *const small = (void *)heap;
  size_t *const each = (void *)heap;
  ROW(early, "before-init", shmemx_int_p_on_stream(&number, 1, 0, NULL))
  ROW(early, "collective-before-init", shmemx_barrier_all_on_stream(NULL))
  ROW(all, "root", shmemx_long_broadcast_on_stream(SHMEM_TEAM_WORLD, heap, heap, 1, npes, NULL))
  ROW(all, "reduce-overlap",
      shmemx_long_sum_reduce_on_stream(SHMEM_TEAM_WORLD, heap + 1, heap, 4, NULL))
  ROW(all, "collect-in-place",
      shmemx_long_fcollect_on_stream(SHMEM_TEAM_WORLD, heap, heap, 1, NULL))
  ROW(all, "many-teams", shmemx_long_sum_reduce_on_stream(team, heap, heap, 1, NULL))
  ROW(all, "team-gone", shmem_team_destroy(team);
      shmemx_long_sum_reduce_on_stream(team, heap, heap, 1, NULL))
  ROW(all, "after-finalize", shmem_finalize(); shmemx_quiet_on_stream(NULL))
  ROW(one, "pe", shmemx_putmem_on_stream(heap, heap, 4, npes, NULL))
  ROW(one, "pe-negative", shmemx_long_atomic_inc_on_stream(heap, -1, NULL))
  ROW(one, "pe-strided", shmemx_ibget64_on_stream(heap, heap, 1, 1, 1, 2, npes + 1, NULL))
  ROW(one, "host-dest", shmemx_int_put_on_stream(numbers, numbers, 4, 0, NULL))
  ROW(one, "host-source", shmemx_long_get_on_stream(heap, &in, 1, 0, NULL))
  ROW(one, "host-amo", shmemx_long_atomic_add_on_stream(&out, 1, 0, NULL))
  ROW(one, "host-collective", shmemx_long_alltoall_on_stream(SHMEM_TEAM_WORLD, heap, &in, 1, NULL))
  ROW(one, "host-signal",
      shmemx_putmem_signal_on_stream(heap, heap, 4, &sig, 1, SHMEM_SIGNAL_SET, 0, NULL))
  ROW(one, "host-wait", shmemx_signal_wait_until_on_stream(&sig, SHMEM_CMP_EQ, 0, NULL))
  ROW(one, "past-end", shmemx_putmem_on_stream(heap, heap, (size_t)1 << 40, 0, NULL))
  ROW(one, "null-source", shmemx_int_put_on_stream(small, NULL, 4, 0, NULL))
  ROW(one, "null-dest", shmemx_int_iget_on_stream(NULL, small, 1, 1, 4, 0, NULL))
  ROW(one, "sig-op", shmemx_putmem_signal_on_stream(heap + 1, heap, 4, word, 1, 99, 0, NULL))
  ROW(one, "cmp", shmemx_signal_wait_until_on_stream(word, 77, 0, NULL))
  ROW(one, "stride", shmemx_int_iput_on_stream(small, small, 0, 1, 2, 0, NULL))
  ROW(one, "block", shmemx_int_ibput_on_stream(small, small, 4, 3, 4, 2, 0, NULL))
  ROW(one, "collective-stride",
      shmemx_int_alltoalls_on_stream(SHMEM_TEAM_WORLD, small, small, 1, -1, 1, NULL))
  ROW(one, "rows",
      shmemx_int_alltoall2d_on_stream(SHMEM_TEAM_WORLD, small, small, 9, 2, 9, 9, 3, 2, NULL))
  ROW(one, "uneven-dest", UNEVEN(numbers, 4, each))
  ROW(one, "uneven-counts", UNEVEN(small, 4, NULL))
  ROW(one, "uneven-unit",
      shmemx_alltoallvmem_on_stream(SHMEM_TEAM_WORLD, small, each, each, 1, small, each, each, 0,
                                    NULL))
  ROW(one, "uneven-capacity", UNEVEN(small, SIZE_MAX / 2, each))
  ROW(one, "uneven-end", UNEVEN(small, (size_t)1 << 38, each))
  ROW(one, "team", shmemx_team_sync_on_stream(SHMEM_TEAM_INVALID, NULL))
  ROW(one, "team-collective",
      shmemx_long_sum_reduce_on_stream(SHMEM_TEAM_INVALID, heap, heap, 1, NULL))
  // under SHMEM_CHECK
  ROW(one, "block-end", shmemx_putmem_on_stream(heap + 1, heap, 64, 0, NULL))
  ROW(one, "misaligned", shmemx_int_put_on_stream(inside(heap, 1), small, 1, 0, NULL))
  ROW(one, "misaligned-amo", shmemx_long_atomic_inc_on_stream(inside(heap, 4), 0, NULL))
  ROW(one, "reduce-end", shmemx_long_sum_reduce_on_stream(SHMEM_TEAM_WORLD, heap, heap, 9, NULL))
  // No mistake; shmem_free waits for the GPU, as hipFree does.
  ROW(end, "good", shmemx_int_put_on_stream(NULL, NULL, 0, 0, NULL);
      shmemx_int_iput_on_stream(NULL, NULL, 1, 1, 0, 0, NULL);
      shmemx_long_put_on_stream(heap, heap + 1, 1, me, NULL);
      shmemx_long_sum_reduce_on_stream(SHMEM_TEAM_WORLD, heap, heap, 8, NULL);
      shmemx_long_broadcast_on_stream(SHMEM_TEAM_WORLD, heap, heap, 8, npes - 1, NULL);
      shmemx_long_fcollect_on_stream(SHMEM_TEAM_WORLD, heap + 1, heap, 1, NULL);
      shmemx_signal_add_on_stream(word, 1, 0, NULL); shmemx_barrier_all_on_stream(NULL);
      shmem_free(heap); shmem_finalize(); exit(0))
}

// 77: there is no device heap.
static void wrong(void (*table)(enum Moment, const char *), const char *what) {
  const bool on_stream = table == mistakes_on_stream;
  table(early, what);
  shmem_init();
  me = shmem_my_pe();
  npes = shmem_n_pes();
  heap = on_stream ? shmem_malloc_with_hints(64, SHMEMX_MALLOC_DEVICE) : shmem_malloc(64);
  if (!heap) exit(77);
  if (!on_stream) shmem_ctx_create(0, &ctx);
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &team);
  ours = malloc(64);
  shmem_barrier_all();
  table(end, what);
  table(all, what);
  if (me != 1) {
    shmem_barrier_all();
    shmem_barrier_all();
  }
  table(one, what);
  fprintf(stderr, "nobody noticed\n");
  _exit(0);
}

// Twice, for lines that must come once.
static void note(const char *what) {
  shmem_init();
  me = shmem_my_pe();
  heap = shmem_malloc(64);
  bool good = heap;
  for (int k = 0; k < 2; k++) {
    if (IS("align")) good &= !shmem_align(24, 100);
    if (IS("align-huge")) good &= !shmem_align((size_t)1 << 30, 100);
    if (IS("hints")) good &= shmem_malloc_with_hints(100, 1L << 40) != NULL;
    if (IS("hints-both"))
      good &= shmem_malloc_with_hints(100, SHMEMX_MALLOC_DEVICE | SHMEMX_MALLOC_HOST) != NULL;
    if (IS("in-place")) good &= !shmem_long_broadcast(SHMEM_TEAM_WORLD, heap, heap, 8, 1);
    if (IS("malloc")) good &= !shmem_malloc(900000000);
    if (IS("calloc")) good &= !shmem_calloc(9, 100000000);
    if (IS("realloc")) good &= !shmem_realloc(heap, 900000000);
    if (IS("aligned")) good &= !shmem_align(4096, 900000000);
    if (IS("device")) good &= !shmem_malloc_with_hints(900000000, SHMEMX_MALLOC_DEVICE);
    if (IS("nothing")) good &= !shmem_malloc(0);
  }
  shmem_finalize();
  exit(!good);
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "death") == 0) death(argv[2], argv[3]);
  if (argc == 3 && strcmp(argv[1], "exit") == 0) global_exit(atoi(argv[2]));
  if (argc == 3 && strcmp(argv[1], "wrong") == 0) wrong(mistakes, argv[2]);
  if (argc == 3 && strcmp(argv[1], "stream") == 0) wrong(mistakes_on_stream, argv[2]);
  if (argc == 3 && strcmp(argv[1], "note") == 0) note(argv[2]);
  if (argc == 2 && strcmp(argv[1], "sleep") == 0) {
    shmem_init();
    say_pid();
    nap(30);
  }
  return 0;
}
