// SPDX-License-Identifier: MIT
// Barrier, sync, fence, quiet, locks, and the time for a flag or for data with a signal to be
// noticed by the PE that waits for it.
#include "perf.h"

static void barrier_all(struct arena *a, size_t count) {
  (void)a;
  REPEAT(count, shmem_barrier_all(););
}

static void sync_all(struct arena *a, size_t count) {
  (void)a;
  REPEAT(count, shmem_sync_all(););
}

static void quiet(struct arena *a, size_t count) {
  (void)a;
  REPEAT(count, shmem_quiet(););
}

static void fence(struct arena *a, size_t count) {
  (void)a;
  REPEAT(count, shmem_fence(););
}

static void lock(struct arena *a, size_t count) {
  REPEAT(count, shmem_set_lock(a->lock); shmem_clear_lock(a->lock););
}

// A call is a round trip of two flags; the row shows one way.
static void raw_ping(struct arena *a, size_t count) {
  volatile uint64_t *mine = a->flag, *theirs = a->flag_there;
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    *theirs = round;
    while (*mine < round) continue;
  }
}

static void raw_pong(struct arena *a, size_t count) {
  volatile uint64_t *mine = a->flag, *theirs = a->flag_there;
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    while (*mine < round) continue;
    *theirs = round;
  }
}

static void ping(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    shmem_uint64_p(a->flag, round, a->peer);
    shmem_uint64_wait_until(a->flag, SHMEM_CMP_GE, round);
  }
}

static void pong(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    shmem_uint64_wait_until(a->flag, SHMEM_CMP_GE, round);
    shmem_uint64_p(a->flag, round, a->peer);
  }
}

// The same by a put of memory, which a network may store otherwise than a value.
static void put_ping(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    shmem_putmem(a->flag, &round, sizeof round, a->peer);
    shmem_uint64_wait_until(a->flag, SHMEM_CMP_GE, round);
  }
}

static void put_pong(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    shmem_uint64_wait_until(a->flag, SHMEM_CMP_GE, round);
    shmem_putmem(a->flag, &round, sizeof round, a->peer);
  }
}

// Data and its signal: one call where there is one, else put, fence and an atomic set.
static void send_signal(struct arena *a, uint64_t value) {
#if HAVE_SIGNALS
  shmem_putmem_signal(a->target, a->source, a->bytes, a->flag, value, SHMEM_SIGNAL_SET, a->peer);
#else
  shmem_putmem(a->target, a->source, a->bytes, a->peer);
  shmem_fence();
  shmem_ulong_atomic_set((unsigned long *)a->flag, value, a->peer);
#endif
}

static void wait_signal(struct arena *a, uint64_t value) {
#if HAVE_SIGNALS
  shmem_signal_wait_until(a->flag, SHMEM_CMP_GE, value);
#else
  shmem_uint64_wait_until(a->flag, SHMEM_CMP_GE, value);
#endif
}

static void signal_ping(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    send_signal(a, round);
    wait_signal(a, round);
  }
}

static void signal_pong(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    wait_signal(a, round);
    send_signal(a, round);
  }
}

static void raw_signal_ping(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    memcpy(a->there, a->source, a->bytes);
    __atomic_store_n(a->flag_there, round, __ATOMIC_RELEASE);
    while (__atomic_load_n(a->flag, __ATOMIC_ACQUIRE) < round) continue;
  }
}

static void raw_signal_pong(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    const uint64_t round = ++a->flag_count;
    while (__atomic_load_n(a->flag, __ATOMIC_ACQUIRE) < round) continue;
    memcpy(a->there, a->source, a->bytes);
    __atomic_store_n(a->flag_there, round, __ATOMIC_RELEASE);
  }
}

// One after the other to a PE that waits for just this signal, and answers at the end of a batch.
static void signal_stream(struct arena *a, size_t count) {
  REPEAT(count, send_signal(a, ++a->flag_count););
  shmem_uint64_wait_until(a->flag, SHMEM_CMP_GE, a->flag_count);
}

static void signal_stream_end(struct arena *a, size_t count) {
  a->flag_count += count;
  wait_signal(a, a->flag_count);
  shmem_uint64_p(a->flag, a->flag_count, a->peer);
}

// To a PE that waits for something else, and may be asleep.
static void signal_elsewhere(struct arena *a, size_t count) {
  REPEAT(count, send_signal(a, 1););
  shmem_quiet();
}

// Data must be there when its signal is, a few times over.
static bool check_signal(struct arena *a) {
  bool good = true;
  *a->flag = 0;
  shmem_barrier_all();
  for (int round = 1; a->n_pes > 1 && a->me <= 1 && round <= 20; ++round) {
    if (a->me == 0) {
      fill_pattern(a->source, a->bytes, 0, round);
      send_signal(a, (uint64_t)round);
      wait_signal(a, (uint64_t)round); // the answer, so that the target may be written again
    } else {
      wait_signal(a, (uint64_t)round);
      good = good && has_pattern(a->target, a->bytes, 0, round);
      send_signal(a, (uint64_t)round);
    }
  }
  shmem_barrier_all();
  return good;
}

// After a barrier every PE has every other's put.
static bool check_barrier(struct arena *a) {
  uint64_t *slot = (uint64_t *)a->target;
  bool good = true;
  for (uint64_t round = 1; round <= 20; ++round) {
    for (int pe = 0; pe < a->n_pes; ++pe) shmem_uint64_p(&slot[a->me], round, pe);
    shmem_barrier_all();
    for (int pe = 0; pe < a->n_pes; ++pe) good = good && slot[pe] == round;
    shmem_barrier_all();
  }
  return good;
}

// A counter that only the lock protects.
static bool check_lock(struct arena *a) {
  long *word = a->lock, *counter = a->lock + 16;
  if (a->me == 0) *counter = 0;
  shmem_barrier_all();
  for (int i = 0; i < 20; ++i) {
    shmem_set_lock(word);
    shmem_long_p(counter, shmem_long_g(counter, 0) + 1, 0);
    shmem_quiet();
    shmem_clear_lock(word);
  }
  shmem_barrier_all();
  const bool good = shmem_long_g(counter, 0) == 20L * a->n_pes;
  shmem_barrier_all();
  return good;
}

// Of a heap that grows the first block behind what it has, and its end.
static void malloc_free(struct arena *a, size_t count) {
  while (count--) shmem_free(shmem_malloc(a->bytes));
}
static bool check_malloc(struct arena *a) {
  char *p = shmem_malloc(a->bytes);
  if (!p) return false;
  shmem_putmem(p, a->source, a->bytes, (a->me + 1) % a->n_pes);
  shmem_free(p);
  return true;
}

static size_t word_each(size_t bytes, int n_pes) {
  (void)bytes;
  return 8 * (size_t)n_pes;
}

const struct test sync_tests[] = {
    {.group = "raw",
     .name = "ping-pong",
     .panel = "sync",
     .kind = PAIR,
     .raw = true,
     .per_call = 2,
     .run = raw_ping,
     .partner = raw_pong},
    {.group = "raw",
     .name = "signal ping-pong",
     .panel = "signal",
     .kind = PAIR,
     .raw = true,
     .sized = true,
     .per_call = 2,
     .run = raw_signal_ping,
     .partner = raw_signal_pong},
    {.group = "sync",
     .name = "p + wait_until ping-pong",
     .reference = "ping-pong",
     .kind = PAIR,
     .per_call = 2,
     .run = ping,
     .partner = pong},
    {.group = "sync",
     .name = "put 8 + wait_until ping-pong",
     .reference = "ping-pong",
     .kind = PAIR,
     .per_call = 2,
     .run = put_ping,
     .partner = put_pong},
    {.group = "sync",
     .name = "barrier_all",
     .kind = ALL,
     .footprint = word_each,
     .run = barrier_all,
     .check = check_barrier},
    {.group = "sync", .name = "sync_all", .kind = ALL, .run = sync_all},
    {.group = "sync", .name = "quiet", .kind = PAIR, .run = quiet},
    {.group = "sync", .name = "fence", .kind = PAIR, .run = fence},
    {.group = "sync",
     .name = "set_lock + clear_lock",
     .kind = PAIR,
     .run = lock,
     .check = check_lock},
    {.group = "memory",
     .name = "malloc + free",
     .kind = ALL,
     .sized = true,
     .run = malloc_free,
     .check = check_malloc},
    {.group = "signal",
     .name = "put_signal ping-pong",
     .reference = "signal ping-pong",
     .kind = PAIR,
     .sized = true,
     .per_call = 2,
     .run = signal_ping,
     .partner = signal_pong,
     .check = check_signal},
    {.group = "signal",
     .name = "put_signal",
     .reference = "copy to",
     .unit = BYTES_PER_SECOND,
     .kind = PAIR,
     .sized = true,
     .run = signal_stream,
     .partner = signal_stream_end,
     .check = check_signal},
    {.group = "signal",
     .name = "put_signal, others wait",
     .reference = "copy to",
     .unit = BYTES_PER_SECOND,
     .kind = PAIR,
     .sized = true,
     .run = signal_elsewhere,
     .check = check_signal},
    {.name = NULL},
};
