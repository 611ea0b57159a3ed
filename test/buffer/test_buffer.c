// SPDX-License-Identifier: MIT
// Memory of the program's own that has been made symmetric: all uses of the heap's, with its bytes
// kept before and after.
#include "harness.h"
#include <pthread.h>
#include <sched.h>
#include <shmemx.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 5000 };

static int next(void) {
  return (me + 1) % npes;
}
static int last(void) {
  return (me + npes - 1) % npes;
}

// Every routine takes its addresses. a has N + 2 * npes long.
static void use(long *a) {
  uint64_t *sig = (uint64_t *)(a + N);
  for (int i = 0; i < N; i++) a[i] = -1;
  *sig = 0;
  shmem_barrier_all();
  long own[N], back[N];
  for (int i = 0; i < N; i++) own[i] = me * 100000L + i;
  shmem_long_put_signal(a, own, N, sig, 7, SHMEM_SIGNAL_SET, next());
  shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 7);
  for (int i = 0; i < N; i++)
    CHECK(a[i] == last() * 100000L + i, "a[%d] = %ld from PE %d", i, a[i], last());
  shmem_long_get(back, a, N, next());
  for (int i = 0; i < N; i++) CHECK(back[i] == own[i], "back[%d] = %ld", i, back[i]);
  shmem_barrier_all();
  shmem_long_p(a + 17, 42 + me, next());
  shmem_long_iput(a + 100, own, 3, 2, 50, next());
  shmem_quiet();
  CHECK(shmem_long_g(a + 17, next()) == 42 + me, "p, then g");
  shmem_barrier_all();
  for (int i = 0; i < 50; i++)
    CHECK(a[100 + 3 * i] == last() * 100000L + 2 * i, "iput[%d] = %ld", i, a[100 + 3 * i]);

  a[0] = 0;
  a[1] = me;
  shmem_barrier_all();
  for (int i = 0; i < 100; i++) shmem_long_atomic_inc(a, 0);
  CHECK(shmem_long_atomic_swap(a + 1, -1, next()) == next(), "swap");
  shmem_barrier_all();
  CHECK(shmem_long_atomic_fetch(a, 0) == 100L * npes, "%ld of %d counts", a[0], 100 * npes);

  // A waiter that sleeps is woken by a store to where it waits.
  *sig = 0;
  shmem_barrier_all();
  if (me == 0) usleep(200000);
  if (me == 0) shmem_uint64_p(sig, 9, next());
  if (me != 0 || npes == 1) shmem_uint64_wait_until(sig, SHMEM_CMP_EQ, 9);
  if (me != 0 && next() != 0) shmem_uint64_p(sig, 9, next());

  shmem_barrier_all();
  for (int i = 0; i < N; i++) a[i] = i + me;
  shmem_barrier_all();
  shmem_long_sum_reduce(SHMEM_TEAM_WORLD, a, a, N);
  for (int i = 0; i < N; i++)
    CHECK(a[i] == (long)npes * i + npes * (npes - 1) / 2, "sum[%d] = %ld", i, a[i]);
  if (me == npes - 1) a[5] = 55;
  shmem_barrier_all();
  shmem_long_broadcast(SHMEM_TEAM_WORLD, a + 8, a + 5, 1, npes - 1);
  CHECK(a[8] == 55, "broadcast of %ld", a[8]);
  a[0] = me;
  shmem_barrier_all();
  shmem_long_fcollect(SHMEM_TEAM_WORLD, a + 20, a, 1);
  for (int i = 0; i < npes; i++) CHECK(a[20 + i] == i, "fcollect[%d] = %ld", i, a[20 + i]);

  CHECK(shmem_ptr(a + 3, me) == a + 3, "own shmem_ptr");
  CHECK(shmem_addr_accessible(a, next()), "not accessible");
  long *there = shmem_ptr(a + 3, next());
  static long any; // which is mapped where buffers are
  CHECK(!there == !shmem_ptr(&any, next()), "shmem_ptr");
  CHECK(!there || *there == shmem_long_g(a + 3, next()), "what is there");
  shmem_barrier_all();
}

static const size_t bytes = (N + 128) * sizeof(long);

static void by_mmap(void) {
  // At another address on each PE, and another place in its page.
  size_t room = bytes + 65536;
  char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED, "mmap");
  shmemx_buffer_t h;
  shmemx_buffer_register(p + 64 * me, bytes, &h);
  use((long *)(p + 64 * me));
  shmemx_buffer_unregister(h);
  CHECK(!shmem_addr_accessible(p + 64 * me, next()), "still symmetric");
  munmap(p, room);
}

// Neighbours on a page, and what is beside them.
static void by_malloc(void) {
  enum { BUFFERS = 40, BYTES = 1000 };
  char *p[BUFFERS];
  shmemx_buffer_t h[BUFFERS];
  for (int i = 0; i < BUFFERS; i++) {
    p[i] = malloc(BYTES + 48 * (size_t)me);
    memset(p[i], i + 1, BYTES);
    shmemx_buffer_register(p[i], BYTES, h + i);
  }
  for (int gone = 0; gone < BUFFERS; gone++) {
    for (int i = gone; i < BUFFERS; i++) {
      CHECK(p[i][1] == i + 1, "buffer %d lost what was there", i);
      shmem_schar_p((signed char *)p[i], (signed char)(me + gone), next());
    }
    shmem_barrier_all();
    for (int i = gone; i < BUFFERS; i++)
      CHECK(p[i][0] == last() + gone, "buffer %d has %d after %d are gone", i, p[i][0], gone);
    shmem_barrier_all();
    shmemx_buffer_unregister(h[gone]);
    CHECK(p[gone][BYTES - 1] == gone + 1, "unregistering loses contents");
    free(p[gone]);
  }
  long *a = malloc(bytes);
  shmemx_buffer_register(a, bytes, h);
  use(a);
  shmemx_buffer_unregister(h[0]);
  free(a);
}

static void as_many_as_there_are(void) {
  enum { MOST = 1024 };
  static shmemx_buffer_t h[MOST];
  int *p = malloc(MOST * 64);
  for (int k = 0; k < MOST; k++) {
    const int i = k * 387 % MOST; // in another order than that of their addresses
    shmemx_buffer_register(p + 16 * i, 60, h + i);
  }
  for (int i = 0; i < MOST; i++) shmem_int_p(p + 16 * i + 14, i * 3 + me, next());
  shmem_barrier_all();
  for (int i = 0; i < MOST; i++)
    CHECK(p[16 * i + 14] == i * 3 + last(), "buffer %d: %d", i, p[16 * i + 14]);
  CHECK(!shmem_addr_accessible(p + 15, me), "between two buffers");
  shmem_barrier_all();
  for (int i = 0; i < MOST; i++) shmemx_buffer_unregister(h[i]);
  free(p);
}

// A thread goes on to store while the pages are moved to and fro.
static atomic_bool stop;
static void *count_up(void *p) {
  for (volatile unsigned long *n = p; !atomic_load(&stop);) ++n[0], ++n[1];
  return NULL;
}
static void while_a_thread_stores(void) {
  unsigned long *p = calloc(4096, sizeof *p);
  pthread_t t;
  stop = false;
  CHECK(pthread_create(&t, NULL, count_up, p + 2000) == 0, "pthread_create");
  for (int i = 0; i < 20; i++) {
    shmemx_buffer_t h;
    shmemx_buffer_register(p, 4096 * sizeof *p, &h);
    shmemx_buffer_unregister(h);
  }
  stop = true;
  pthread_join(t, NULL);
  CHECK(p[2000] == p[2001], "%lu stores, %lu arrived", p[2000], p[2001]);
  free(p);
}

static void fork_has_a_copy(void) {
  long *a = malloc(bytes);
  shmemx_buffer_t h;
  shmemx_buffer_register(a, bytes, &h);
  a[1] = 1;
  shmem_barrier_all();
  const pid_t child = fork();
  if (child == 0) {
    const bool seen = a[1] == 1;
    a[1] = 2;
    _exit(seen ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %d", status);
  CHECK(a[1] == 1, "the child's store is seen");
  shmem_barrier_all();
  use(a);
  shmemx_buffer_unregister(h);
  free(a);
}

// Buffers of teams that overlap, of which PEs have different numbers.
struct part {
  shmem_team_t team;
  int n, me;
};
static struct part part_of(int start, int stride, int size) {
  struct part p = {.team = SHMEM_TEAM_INVALID};
  shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &p.team);
  p.n = shmem_team_n_pes(p.team), p.me = shmem_team_my_pe(p.team);
  return p;
}
static int at(struct part p, int i) {
  return shmem_team_translate_pe(p.team, (i + p.n) % p.n, SHMEM_TEAM_WORLD);
}
static bool has(struct part p, int pe) {
  return shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, p.team) >= 0;
}
// Members use theirs, while the others go on. a has n + 8 long.
static void use_in_team(struct part p, long *a, int n) {
  const int to = at(p, p.me + 1), from = at(p, p.me - 1);
  uint64_t *sig = (uint64_t *)(a + n);
  long own[n];
  for (int i = 0; i < n; i++) own[i] = me * 100000L + i;
  *sig = 0;
  shmem_team_sync(p.team);
  shmem_long_put_signal(a, own, (size_t)n, sig, 7, SHMEM_SIGNAL_SET, to);
  shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 7);
  for (int i = 0; i < n; i++) CHECK(a[i] == from * 100000L + i, "a[%d] = %ld", i, a[i]);
  shmem_team_sync(p.team);
  a[0] = 0;
  shmem_team_sync(p.team);
  for (int i = 0; i < 10; i++) shmem_long_atomic_inc(a, at(p, 0));
  shmem_quiet();
  shmem_team_sync(p.team);
  CHECK(shmem_long_g(a, at(p, 0)) == 10 * p.n, "%ld counts", shmem_long_g(a, at(p, 0)));
  shmem_team_sync(p.team);
  for (int i = 0; i < n; i++) a[i] = i + p.me;
  shmem_team_sync(p.team);
  shmem_long_sum_reduce(p.team, a, a, (size_t)n);
  for (int i = 0; i < n; i++)
    CHECK(a[i] == (long)p.n * i + p.n * (p.n - 1) / 2, "sum[%d] = %ld", i, a[i]);
  // Locks of the team, whose homes differ.
  enum { LOCKS = 7 };
  long *const locks = a + n + 1;
  for (int k = 0; k < LOCKS; k++) a[k] = locks[k] = 0;
  shmem_team_sync(p.team);
  for (int k = 0; k < LOCKS; k++) {
    shmem_set_lock(locks + k);
    shmem_long_p(a + k, shmem_long_g(a + k, at(p, 0)) + 1, at(p, 0));
    shmem_clear_lock(locks + k);
  }
  shmem_team_sync(p.team);
  for (int k = 0; k < LOCKS; k++)
    CHECK(shmem_long_g(a + k, at(p, 0)) == p.n, "lock %d: %ld", k, shmem_long_g(a + k, at(p, 0)));
  shmem_team_sync(p.team);
  static long any; // which is mapped where buffers are
  for (int pe = 0; pe < npes; pe++) {
    CHECK(shmem_addr_accessible(a + 1, pe) == has(p, pe), "of PE %d", pe);
    CHECK(!shmem_ptr(a + 1, pe) == !(has(p, pe) && shmem_ptr(&any, pe)), "of PE %d", pe);
  }
  shmem_team_sync(p.team);
}
static void of_teams(void) {
  enum { LONGS = 700, BUFFERS = 3 };
  struct part parts[] = {part_of(0, 2, (npes + 1) / 2), part_of(1, 2, npes / 2),
                         part_of(0, 1, (npes + 1) / 2), part_of(npes - 1, -1, npes),
                         part_of(npes - 1, 1, 1)};
  long *p[COUNT(parts)][BUFFERS];
  shmemx_buffer_t h[COUNT(parts)][BUFFERS], all;
  long *world = malloc(bytes);
  for (size_t k = 0; k < COUNT(parts); k++) {
    if (k == 2) shmemx_buffer_register(world, bytes, &all);
    // Of the odd PEs more than of the even ones.
    for (size_t i = 0; i < BUFFERS - (k == 0) && parts[k].n > 0; i++) {
      p[k][i] = malloc((LONGS + 8) * sizeof(long));
      shmemx_team_buffer_register(parts[k].team, p[k][i], (LONGS + 8) * sizeof(long), &h[k][i]);
      use_in_team(parts[k], p[k][i], LONGS);
    }
  }
  use(world);
  for (size_t k = COUNT(parts); k--;)
    for (size_t i = 0; i < BUFFERS - (k == 0) && parts[k].n > 0; i++) {
      use_in_team(parts[k], p[k][i], LONGS);
      shmemx_buffer_unregister(h[k][i]);
      CHECK(!shmem_addr_accessible(p[k][i], me), "still symmetric");
      free(p[k][i]);
      if (i == 0 && k == 3) use(world);
    }
  shmemx_buffer_unregister(all);
  free(world);
  for (size_t k = 0; k < COUNT(parts); k++) shmem_team_destroy(parts[k].team);
}

// Buffers that are still registered then come back at finalize, see main.
static long *left, *left_in_team;

static void left_to_finalize(void) {
  shmemx_buffer_t h;
  left = malloc(bytes);
  left[9] = 99;
  shmemx_buffer_register(left, bytes, &h);
  for (int start = 0; start < 2; start++) { // each PE is in one of two
    const struct part half = part_of(start, 2, (npes + 1 - start) / 2);
    if (half.n <= 0) continue;
    left_in_team = malloc(bytes);
    left_in_team[9] = 98;
    shmemx_team_buffer_register(half.team, left_in_team, bytes, &h);
  }
}

int main(void) {
  static const struct pe_test tests[] = {{"by mmap", by_mmap},
                                         {"by malloc", by_malloc},
                                         {"1,024 of them", as_many_as_there_are},
                                         {"while a thread stores", while_a_thread_stores},
                                         {"fork", fork_has_a_copy},
                                         {"of teams", of_teams},
                                         {"left to finalize", left_to_finalize}};
  const struct pe_list lists[] = {PE_LIST("", tests)};
  const int status = pe_run("buffer", lists, COUNT(lists));
  const bool kept = left && left[9] == 99 && left_in_team[9] == 98;
  free(left), free(left_in_team);
  return kept ? status : 1;
}
