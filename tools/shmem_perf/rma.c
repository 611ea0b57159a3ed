// SPDX-License-Identifier: MIT
// Put, get, p and g: latency, message rate and bandwidth, beside plain loads, stores and memcpy on
// the same memory.
#include "perf.h"

static volatile uint64_t sink; // results go here, so that they are wanted

#define WINDOW 64 // non-blocking calls between two quiets

// --- raw ----------------------------------------------------------------------------------------

static void raw_store(struct arena *a, size_t count) {
  volatile uint64_t *to = (volatile uint64_t *)a->there;
  uint64_t value = 1;
  REPEAT(count, *to = value; COMPILER_BARRIER(););
}

static void raw_load(struct arena *a, size_t count) {
  // Each address depends on the value before, which is 0: latency, not rate, as for g.
  const volatile uint64_t *from = (const volatile uint64_t *)a->there;
  uint64_t sum = 0;
  REPEAT(count, sum = from[sum]; COMPILER_BARRIER(););
  sink = sum;
}

static bool zero_target(struct arena *a) {
  memset(a->target, 0, 64);
  shmem_barrier_all();
  return true;
}

static void raw_copy_to(struct arena *a, size_t count) {
  REPEAT(count, memcpy(a->there, a->source, a->bytes); COMPILER_BARRIER(););
}

static void raw_copy_from(struct arena *a, size_t count) {
  REPEAT(count, memcpy(a->source, a->there, a->bytes); COMPILER_BARRIER(););
}

// --- one call -----------------------------------------------------------------------------------

static void one_p(struct arena *a, size_t count) {
  REPEAT(count, shmem_uint64_p((uint64_t *)a->target, 1, a->peer););
  shmem_quiet();
}

static void one_g(struct arena *a, size_t count) {
  uint64_t sum = 0;
  REPEAT(count, sum += shmem_uint64_g((const uint64_t *)a->target, a->peer););
  sink = sum;
}

static void put(struct arena *a, size_t count) {
  REPEAT(count, shmem_putmem(a->target, a->source, a->bytes, a->peer););
  shmem_quiet();
}

static void get(struct arena *a, size_t count) {
  REPEAT(count, shmem_getmem(a->target, a->source, a->bytes, a->peer););
}

static void put_quiet(struct arena *a, size_t count) {
  REPEAT(count, shmem_putmem(a->target, a->source, a->bytes, a->peer); shmem_quiet(););
}

static void get_nbi_quiet(struct arena *a, size_t count) {
  REPEAT(count, shmem_getmem_nbi(a->target, a->source, a->bytes, a->peer); shmem_quiet(););
}

static void iput(struct arena *a, size_t count) {
  uint64_t *to = (uint64_t *)a->target;
  const uint64_t *from = (const uint64_t *)a->source;
  const size_t n = a->bytes / sizeof *to;
  REPEAT(count, shmem_uint64_iput(to, from, 2, 2, n, a->peer););
  shmem_quiet();
}

static void put_nbi_rate(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    REPEAT(WINDOW, shmem_putmem_nbi(a->target, a->source, a->bytes, a->peer););
    shmem_quiet();
  }
}

static void get_nbi_rate(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    REPEAT(WINDOW, shmem_getmem_nbi(a->target, a->source, a->bytes, a->peer););
    shmem_quiet();
  }
}

// --- both directions ----------------------------------------------------------------------------

// Both sides move the same amount at the same time. PE 0's clock stops when it is done and knows
// that the other is; flag_count makes every exchange of flags a new one.
static void meet(struct arena *a) {
  const uint64_t round = ++a->flag_count;
  shmem_uint64_p(a->flag, round, a->peer);
  shmem_uint64_wait_until(a->flag, SHMEM_CMP_GE, round);
}

static void put_both(struct arena *a, size_t count) {
  put(a, count);
  meet(a);
}

static void get_both(struct arena *a, size_t count) {
  get(a, count);
  meet(a);
}

static void raw_copy_both(struct arena *a, size_t count) {
  raw_copy_to(a, count);
  const uint64_t round = ++a->flag_count;
  __atomic_store_n(a->flag_there, round, __ATOMIC_RELEASE);
  while (__atomic_load_n(a->flag, __ATOMIC_ACQUIRE) < round) continue;
}

// --- checks -------------------------------------------------------------------------------------

// The data of one put from each PE to its partner; nothing lies beyond its end.
static bool put_arrives(struct arena *a, void (*one)(struct arena *, size_t)) {
  fill_pattern(a->source, a->bytes, a->me, 1);
  const size_t beyond = least(64, a->room - a->bytes);
  memset(a->target, 0x5a, a->bytes + beyond);
  shmem_barrier_all();
  if (a->me <= 1) one(a, 1);
  shmem_barrier_all();
  if (a->me > 1) return true;
  bool good = has_pattern(a->target, a->bytes, a->peer, 1);
  for (size_t i = 0; i < beyond; ++i) good = good && a->target[a->bytes + i] == 0x5a;
  return good;
}

static bool get_arrives(struct arena *a, void (*one)(struct arena *, size_t)) {
  fill_pattern(a->source, a->bytes, a->me, 2);
  memset(a->target, 0x5a, a->bytes);
  shmem_barrier_all();
  if (a->me <= 1) one(a, 1);
  const bool good = a->me > 1 || has_pattern(a->target, a->bytes, a->peer, 2);
  shmem_barrier_all();
  return good;
}

static bool check_put(struct arena *a) {
  return put_arrives(a, put);
}
static bool check_put_nbi(struct arena *a) {
  return put_arrives(a, put_nbi_rate);
}
static bool check_get(struct arena *a) {
  return get_arrives(a, get);
}
static bool check_get_nbi(struct arena *a) {
  return get_arrives(a, get_nbi_quiet);
}

static bool check_raw_copy(struct arena *a) {
  return put_arrives(a, raw_copy_to);
}

static bool check_iput(struct arena *a) {
  uint64_t *to = (uint64_t *)a->target, *from = (uint64_t *)a->source;
  const size_t n = a->bytes / sizeof *to;
  for (size_t i = 0; i < 2 * n; ++i) {
    from[i] = i * 3 + (uint64_t)a->me + 1;
    to[i] = 0;
  }
  shmem_barrier_all();
  if (a->me <= 1) iput(a, 1);
  shmem_barrier_all();
  bool good = true;
  for (size_t i = 0; a->me <= 1 && i < 2 * n; ++i)
    good = good && to[i] == (i % 2 ? 0 : i * 3 + (uint64_t)a->peer + 1);
  return good;
}

static bool check_p_g(struct arena *a) {
  uint64_t *word = (uint64_t *)a->target;
  *word = 0;
  shmem_barrier_all();
  if (a->me <= 1) shmem_uint64_p(word, 40 + (uint64_t)a->me, a->peer);
  shmem_barrier_all();
  bool good = a->me > 1 || *word == 40 + (uint64_t)a->peer;
  if (a->me <= 1) good = good && shmem_uint64_g(word, a->peer) == 40 + (uint64_t)a->me;
  shmem_barrier_all();
  return good;
}

static size_t doubled(size_t bytes, int n_pes) {
  (void)n_pes;
  return 2 * bytes;
}

#define PAIR_TEST(g, n) .group = g, .name = n, .kind = PAIR

const struct test rma_tests[] = {
    {PAIR_TEST("raw", "store"), .panel = "latency", .raw = true, .run = raw_store},
    {PAIR_TEST("raw", "load"), .panel = "latency", .raw = true, .run = raw_load,
     .check = zero_target},
    {PAIR_TEST("raw", "copy to"), .panel = "bandwidth", .raw = true, .unit = BYTES_PER_SECOND,
     .sized = true, .run = raw_copy_to, .check = check_raw_copy},
    {PAIR_TEST("raw", "copy from"), .panel = "bandwidth", .raw = true, .unit = BYTES_PER_SECOND,
     .sized = true, .run = raw_copy_from},
    {PAIR_TEST("raw", "copy both ways"), .panel = "bandwidth", .raw = true,
     .unit = BYTES_PER_SECOND, .sized = true, .per_call = 2, .run = raw_copy_both,
     .partner = raw_copy_both},

    {PAIR_TEST("latency", "p"), .reference = "store", .run = one_p, .check = check_p_g},
    {PAIR_TEST("latency", "g"), .reference = "load", .run = one_g, .check = check_p_g},
    {PAIR_TEST("latency", "put 8"), .reference = "store", .run = put, .check = check_put},
    {PAIR_TEST("latency", "get 8"), .reference = "load", .run = get, .check = check_get},
    {PAIR_TEST("latency", "put 8 + quiet"), .reference = "store", .run = put_quiet,
     .check = check_put},
    {PAIR_TEST("latency", "get_nbi 8 + quiet"), .reference = "load", .run = get_nbi_quiet,
     .check = check_get_nbi},

    {PAIR_TEST("rate", "put_nbi 8"), .reference = "store", .unit = OPS_PER_SECOND,
     .per_call = WINDOW, .run = put_nbi_rate, .check = check_put_nbi},
    {PAIR_TEST("rate", "get_nbi 8"), .reference = "load", .unit = OPS_PER_SECOND,
     .per_call = WINDOW, .run = get_nbi_rate, .check = check_get_nbi},

    {PAIR_TEST("bandwidth", "put"), .reference = "copy to", .unit = BYTES_PER_SECOND, .sized = true,
     .run = put, .check = check_put},
    {PAIR_TEST("bandwidth", "get"), .reference = "copy from", .unit = BYTES_PER_SECOND,
     .sized = true, .run = get, .check = check_get},
    {PAIR_TEST("bandwidth", "put both ways"), .reference = "copy both ways",
     .unit = BYTES_PER_SECOND, .sized = true, .per_call = 2, .run = put_both, .partner = put_both,
     .check = check_put},
    {PAIR_TEST("bandwidth", "get both ways"), .reference = "copy both ways",
     .unit = BYTES_PER_SECOND, .sized = true, .per_call = 2, .run = get_both, .partner = get_both,
     .check = check_get},
    {PAIR_TEST("bandwidth", "iput stride 2"), .reference = "copy to", .unit = BYTES_PER_SECOND,
     .sized = true, .footprint = doubled, .run = iput, .check = check_iput},
    {.name = NULL},
};
