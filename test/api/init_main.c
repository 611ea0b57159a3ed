// SPDX-License-Identifier: MIT
// Initialization and the end, many times in one process: no CMocka here, because its run would span
// an end of the library.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmem.h>

#define CHECK(cond, ...)                                                                           \
  do {                                                                                             \
    if (!(cond)) {                                                                                 \
      fprintf(stderr, "%s:%d: not true: %s: ", __FILE__, __LINE__, #cond);                         \
      fprintf(stderr, __VA_ARGS__);                                                                \
      fputc('\n', stderr);                                                                         \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static long box, counted;
static shmem_team_t early_team = SHMEM_TEAM_WORLD; // handles initialize static objects
static shmem_ctx_t early_ctx = SHMEM_CTX_DEFAULT;

static int on(void) {
  int value = -1;
  shmem_query_initialized(&value);
  return value != 0;
}

static void work(int round) {
  const int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n;
  long *heap = shmem_calloc(100, sizeof *heap);
  CHECK(heap, "calloc in round %d", round);
  for (int i = 0; i < 99; i++) CHECK(heap[i] == 0, "calloc in round %d", round); // [99]: see below
  shmem_long_p(&heap[99], me + round, right);
  shmem_long_p(&box, me - round, right);
  shmem_long_atomic_inc(&counted, 0);
  shmem_barrier_all();
  CHECK(heap[99] == (me + n - 1) % n + round, "heap in round %d: %ld", round, heap[99]);
  CHECK(box == (me + n - 1) % n - round, "data in round %d: %ld", round, box);
  CHECK(shmem_team_n_pes(early_team) == n, "team");
  shmem_ctx_quiet(early_ctx);
  shmem_team_t team;
  shmem_ctx_t ctx;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team) == 0, "split");
  CHECK(shmem_team_create_ctx(team, 0, &ctx) == 0, "ctx");
  CHECK(shmem_team_sync(team) == 0, "sync");
  // the last finalize frees heap, team and context
}

int main(int argc, char **argv) {
  const int level = argc > 1 ? atoi(argv[1]) : -1;
  CHECK(!on(), "before the first init");
  int me = -1, n = 0;
  for (int round = 0; round < 4; round++) {
    int provided = -1, again = -1, queried = -1;
    if (level < 0) {
      shmem_init();
      shmem_query_thread(&provided);
    } else {
      CHECK(shmem_init_thread(level, &provided) == 0, "level %d", level);
      CHECK(provided >= level, "level %d: %d is provided", level, provided);
    }
    CHECK(on(), "round %d", round);
    CHECK(provided >= SHMEM_THREAD_SINGLE && provided <= SHMEM_THREAD_MULTIPLE, "%d", provided);
    shmem_query_thread(&queried);
    CHECK(queried == provided, "%d and %d", queried, provided);
    CHECK(round == 0 || (me == shmem_my_pe() && n == shmem_n_pes()), "another place");
    me = shmem_my_pe();
    n = shmem_n_pes();
    CHECK(me >= 0 && me < n, "%d of %d", me, n);
    // inits are counted: the library goes with the last finalize only
    long *keep = shmem_malloc(sizeof *keep);
    *keep = 5;
    shmem_init();
    CHECK(shmem_init_thread(SHMEM_THREAD_SINGLE, &again) == 0 && again == provided, "%d", again);
    box = -1;
    shmem_barrier_all();
    if (me == n - 1)
      for (int pe = 0; pe < n; pe++) shmem_long_p(&box, 1234, pe);
    shmem_finalize(); // not the last: a barrier that completes puts
    CHECK(box == 1234, "%ld after a finalize that is like barrier_all", box);
    CHECK(on(), "one finalize of three");
    shmem_finalize();
    CHECK(on() && *keep == 5, "two finalizes of three");
    shmem_barrier_all();
    work(round);
    shmem_barrier_all();
    shmem_finalize();
    CHECK(!on(), "round %d: after the last finalize", round);
    CHECK(box == (me + n - 1) % n - round, "data stays after the end: %ld", box);
  }
  CHECK(me != 0 || counted == 4L * n, "%ld", counted);
  if (me == 0) puts("ok");
  return 0;
}
