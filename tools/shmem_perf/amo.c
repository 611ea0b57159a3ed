// SPDX-License-Identifier: MIT
// Atomic memory operations on a word of another PE, beside the processor's own instruction.
#include "perf.h"

static volatile unsigned long sink;

static void raw_fetch_add(struct arena *a, size_t count) {
  long *word = (long *)a->there;
  unsigned long sum = 0; // wraps
  REPEAT(count, sum += __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST););
  sink = sum;
}

static void raw_compare_swap(struct arena *a, size_t count) {
  long *word = (long *)a->there;
  REPEAT(count, {
    long expected = -1;
    __atomic_compare_exchange_n(word, &expected, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  });
}

#define AMO(name, ...)                                                                             \
  static void name(struct arena *a, size_t count) {                                                \
    long *word = (long *)a->target;                                                                \
    const int pe = a->peer;                                                                        \
    unsigned long sum = 0; /* wraps */                                                             \
    REPEAT(count, __VA_ARGS__);                                                                    \
    shmem_quiet();                                                                                 \
    sink = sum;                                                                                    \
  }

AMO(fetch_add, sum += shmem_long_atomic_fetch_add(word, 1, pe);)
AMO(fetch_inc, sum += shmem_long_atomic_fetch_inc(word, pe);)
AMO(add, shmem_long_atomic_add(word, 1, pe);)
AMO(inc, shmem_long_atomic_inc(word, pe);)
AMO(fetch, sum += shmem_long_atomic_fetch(word, pe);)
AMO(set, shmem_long_atomic_set(word, 1, pe);)
AMO(swap, sum += shmem_long_atomic_swap(word, 1, pe);)
AMO(compare_swap, sum += shmem_long_atomic_compare_swap(word, -1, 0, pe);)

#define BIT_AMO(name, ...)                                                                         \
  static void name(struct arena *a, size_t count) {                                                \
    unsigned long *word = (unsigned long *)a->target;                                              \
    const int pe = a->peer;                                                                        \
    unsigned long sum = 0;                                                                         \
    REPEAT(count, __VA_ARGS__);                                                                    \
    shmem_quiet();                                                                                 \
    sink = sum;                                                                                    \
  }

BIT_AMO(fetch_or, sum += shmem_ulong_atomic_fetch_or(word, 1, pe);)
BIT_AMO(xor, shmem_ulong_atomic_xor(word, 1, pe);)

#if HAVE_TEAMS
#define WINDOW 64
static void fetch_add_nbi(struct arena *a, size_t count) {
  static long fetched[WINDOW];
  long *word = (long *)a->target;
  for (; count > 0; --count) {
    for (int i = 0; i < WINDOW; ++i) shmem_long_atomic_fetch_add_nbi(&fetched[i], word, 1, a->peer);
    shmem_quiet();
  }
}
#endif

// All PEs on one word of PE 0: the cost of contention.
static void fetch_add_contended(struct arena *a, size_t count) {
  unsigned long sum = 0; // wraps
  REPEAT(count, sum += shmem_long_atomic_fetch_add((long *)a->target, 1, 0););
  sink = sum;
}

// Every arithmetic operation once on known values, and all PEs adding to one word.
static bool check_amo(struct arena *a) {
  long *word = (long *)a->target;
  word[0] = 10;
  shmem_barrier_all();
  bool good = true;
  if (a->me == 0) {
    const int pe = a->peer;
    good = good && shmem_long_atomic_fetch_add(word, 5, pe) == 10;
    good = good && shmem_long_atomic_fetch_inc(word, pe) == 15;
    shmem_long_atomic_add(word, 4, pe);
    shmem_long_atomic_inc(word, pe);
    shmem_quiet();
    good = good && shmem_long_atomic_fetch(word, pe) == 21;
    good = good && shmem_long_atomic_swap(word, 7, pe) == 21;
    good = good && shmem_long_atomic_compare_swap(word, 8, 9, pe) == 7;
    good = good && shmem_long_atomic_compare_swap(word, 7, 11, pe) == 7;
    good = good && shmem_long_atomic_fetch(word, pe) == 11;
    shmem_long_atomic_set(word, 0, pe);
  }
  shmem_barrier_all();
  word[0] = 0;
  shmem_barrier_all();
  for (int i = 0; i < 1000; ++i) shmem_long_atomic_add(word, a->me + 1, 0);
  shmem_barrier_all();
  const long n = a->n_pes;
  good = good && shmem_long_g(word, 0) == 1000 * (n * (n + 1) / 2);
  shmem_barrier_all();
  return good;
}

// One bitwise operation: the value fetched, if it is fetched, and the one left.
static bool check_bits(struct arena *a, bool or) {
  unsigned long *bits = (unsigned long *)a->target;
  bits[0] = 6;
  shmem_barrier_all();
  bool good = true;
  if (a->me == 0) {
    if (or)
      good = shmem_ulong_atomic_fetch_or(bits, 9, a->peer) == 6;
    else
      shmem_ulong_atomic_xor(bits, 3, a->peer);
    shmem_quiet();
    good = good && shmem_ulong_atomic_fetch(bits, a->peer) == (or ? 15 : 5);
  }
  shmem_barrier_all();
  return good;
}

static bool check_fetch_or(struct arena *a) {
  return check_bits(a, true);
}
static bool check_xor(struct arena *a) {
  return check_bits(a, false);
}

#define AMO_TEST(n) .group = "amo", .name = n, .kind = PAIR

const struct test amo_tests[] = {
    {.group = "raw",
     .name = "lock xadd",
     .panel = "amo",
     .kind = PAIR,
     .raw = true,
     .run = raw_fetch_add},
    {.group = "raw",
     .name = "lock cmpxchg",
     .panel = "amo",
     .kind = PAIR,
     .raw = true,
     .run = raw_compare_swap},
    {AMO_TEST("fetch_add"), .reference = "lock xadd", .run = fetch_add, .check = check_amo},
    {AMO_TEST("fetch_inc"), .reference = "lock xadd", .run = fetch_inc},
    {AMO_TEST("add"), .reference = "lock xadd", .run = add},
    {AMO_TEST("inc"), .reference = "lock xadd", .run = inc},
    {AMO_TEST("fetch"), .reference = "load", .run = fetch},
    {AMO_TEST("set"), .reference = "store", .run = set},
    {AMO_TEST("swap"), .reference = "lock xadd", .run = swap},
    {AMO_TEST("compare_swap"), .reference = "lock cmpxchg", .run = compare_swap},
    {AMO_TEST("fetch_or"), .reference = "lock cmpxchg", .run = fetch_or, .check = check_fetch_or},
    {AMO_TEST("xor"), .reference = "lock xadd", .run = xor, .check = check_xor},
#if HAVE_TEAMS
    {AMO_TEST("fetch_add_nbi"), .panel = "rate", .reference = "lock xadd", .unit = OPS_PER_SECOND,
     .per_call = WINDOW, .run = fetch_add_nbi},
#endif
    {.group = "amo", .name = "fetch_add, all PEs on one", .kind = ALL, .run = fetch_add_contended},
    {.name = NULL},
};
