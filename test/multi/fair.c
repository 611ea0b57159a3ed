// SPDX-License-Identifier: MIT
// Two PEs on one core that wait for each other in loops of their own. Where a failed look keeps the
// core, a round takes one or two ticks of the scheduler, 4 to 16 ms; it must take less than 1.
#include "harness.h"
#include <sched.h>

enum { ROUNDS = 50, TRIES = 6 };
static long flag, lock, never[8];
static uint64_t sig;
static double took;

#define UNTIL(name, ...)                                                                           \
  static void name(long round) {                                                                   \
    size_t index;                                                                                  \
    (void)index;                                                                                   \
    while (!(__VA_ARGS__)) continue;                                                               \
  }
UNTIL(test, shmem_long_test(&flag, SHMEM_CMP_EQ, round))
UNTIL(test_all, shmem_long_test_all(&flag, 1, NULL, SHMEM_CMP_EQ, round))
UNTIL(test_any, shmem_long_test_any(&flag, 1, NULL, SHMEM_CMP_EQ, round) == 0)
UNTIL(test_some, shmem_long_test_some(&flag, 1, &index, NULL, SHMEM_CMP_EQ, round) == 1)
UNTIL(atomic_fetch, shmem_long_atomic_fetch(&flag, me) == round)
UNTIL(ctx_atomic_fetch, shmem_ctx_long_atomic_fetch(SHMEM_CTX_DEFAULT, &flag, me) == round)
UNTIL(g, shmem_long_g(&flag, me) == round)
UNTIL(compare_swap, shmem_long_atomic_compare_swap(&flag, round, -round, me) == round)
UNTIL(signal_fetch, shmem_signal_fetch(&sig) == (uint64_t)round)
UNTIL(wait_until, (shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round), true))
// As a program looks for messages of many senders.
static void probe(long round) {
  for (int i = 0; !shmem_long_test(&flag, SHMEM_CMP_EQ, round); i++)
    if (shmem_long_test(&never[i % COUNT(never)], SHMEM_CMP_NE, 0)) abort();
}

static void send(long round) {
  shmem_long_p(&flag, round, 1 - me);
  shmem_uint64_p(&sig, (uint64_t)round, 1 - me);
}
static void ping_pong(void (*wait)(long)) {
  flag = 0;
  sig = 0;
  shmem_barrier_all();
  for (long round = 1; round <= ROUNDS; round++) {
    if (me == 1) wait(round);
    send(round);
    if (me == 0) wait(round);
  }
}
static void locks(void (*unused)(long)) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    if (me == 0) shmem_set_lock(&lock);
    shmem_barrier_all();
    if (me == 1)
      while (shmem_test_lock(&lock)) continue;
    shmem_clear_lock(&lock);
    shmem_barrier_all();
  }
}

static const struct way {
  const char *name;
  void (*rounds)(void (*)(long)), (*wait)(long);
} ways[] = {
#define WAY(name)                                                                                  \
  { #name, ping_pong, name }
    WAY(test),         WAY(test_all),         WAY(test_any), WAY(test_some),
    WAY(atomic_fetch), WAY(ctx_atomic_fetch), WAY(g),        WAY(compare_swap),
    WAY(signal_fetch), WAY(wait_until),       WAY(probe),    {"test_lock", locks, NULL}};

// The best of some: the machine may be busy with something else.
static void fair(void) {
  for (size_t i = 0; i < COUNT(ways); i++) {
    double best = 1e9;
    for (int try = 0; try < TRIES && best > 1e-3; try++) {
      shmem_barrier_all();
      const double start = pe_seconds();
      ways[i].rounds(ways[i].wait);
      took = (pe_seconds() - start) / ROUNDS;
      shmem_double_max_reduce(SHMEM_TEAM_WORLD, &took, &took, 1);
      if (took < best) best = took;
      shmem_barrier_all();
    }
    if (me == 0) print_message("%s: %.1f us a round\n", ways[i].name, best * 1e6);
    CHECK(best < 1e-3, "%s: %.1f ms a round", ways[i].name, best * 1e3);
  }
}

int main(void) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  int core = 0;
  while (!CPU_ISSET(core, &all)) core++;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
  static const struct pe_test tests[] = {{"fair", fair}};
  const struct pe_list lists[] = {PE_LIST("", tests)};
  return pe_run("fair", lists, COUNT(lists));
}
