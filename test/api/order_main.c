// SPDX-License-Identifier: MIT
// fence, quiet, pe_quiet and barriers: message passing in all the forms of the table in the
// specification; locks.
#include <time.h>

#include "typed.h"

enum { ROUNDS = 1500, WORDS = 9 };
static long static_data[WORDS];
static long flag, ack;

enum how { PUT, PUT_NBI, P, AMO, STORE, SIGNAL, HOWS };
enum order { FENCE, QUIET, PE_QUIET, CTX_FENCE, CTX_QUIET, CTX_PE_QUIET, ORDERS };

static void send(enum how how, shmem_ctx_t c, long *data, const long *out, int pe) {
  static uint64_t other;
  switch (how) {
  case PUT:
    shmem_ctx_long_put(c, data, out, WORDS, pe);
    break;
  case PUT_NBI:
    shmem_ctx_long_put_nbi(c, data, out, WORDS, pe);
    break;
  case P:
    for (int i = 0; i < WORDS; i++) shmem_ctx_long_p(c, data + i, out[i], pe);
    break;
  case AMO:
    for (int i = 0; i < WORDS; i++) shmem_ctx_long_atomic_set(c, data + i, out[i], pe);
    break;
  case SIGNAL:
    shmem_ctx_long_put_signal_nbi(c, data, out, WORDS, &other, 1, SHMEM_SIGNAL_ADD, pe);
    break;
  default: {
    volatile long *there = shmem_ptr(data, pe);
    for (int i = 0; there && i < WORDS; i++) there[i] = out[i];
    if (!there) shmem_ctx_long_put(c, data, out, WORDS, pe);
  }
  }
}

static void order(enum order order, shmem_ctx_t c, int pe) {
  switch (order) {
  case FENCE:
    shmem_fence();
    break;
  case QUIET:
    shmem_quiet();
    break;
  case PE_QUIET:
    shmem_pe_quiet(&pe, 1);
    break;
  case CTX_FENCE:
    shmem_ctx_fence(c);
    break;
  case CTX_QUIET:
    shmem_ctx_quiet(c);
    break;
  default:
    shmem_ctx_pe_quiet(c, &pe, 1);
  }
}

// Each PE passes messages to its right neighbour: data, an ordering call, a flag. A PE that sees
// the flag sees the data.
static void litmus(shmem_ctx_t own) {
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  long *heap = shmem_calloc(WORDS, sizeof *heap);
  flag = ack = 0;
  memset(static_data, 0, sizeof static_data);
  shmem_barrier_all();
  const long rounds = npes > 4 ? ROUNDS / 3 : ROUNDS;
  for (long r = 1; r <= rounds; r++) {
    const enum how how = (enum how)(r % HOWS);
    const enum order ord = (enum order)(r / HOWS % ORDERS);
    const shmem_ctx_t c = ord >= CTX_FENCE ? own : SHMEM_CTX_DEFAULT;
    long *data = r / 3 & 1 ? heap : static_data;
    long out[WORDS];
    for (int i = 0; i < WORDS; i++) out[i] = r * 100 + i + me * 7;
    send(how, c, data, out, right);
    order(ord, c, right);
    if (r & 1)
      shmem_ctx_long_p(c, &flag, r, right);
    else
      shmem_ctx_long_atomic_set(c, &flag, r, right);
    if (r % 3)
      shmem_long_wait_until(&flag, SHMEM_CMP_GE, r);
    else
      while (!shmem_long_test(&flag, SHMEM_CMP_GE, r)) {
      }
    for (int i = 0; i < WORDS; i++)
      CHECK(data[i] == r * 100 + i + left * 7, "round %ld, way %d, order %d: [%d] is %ld", r, how,
            ord, i, data[i]);
    shmem_ctx_quiet(c); // nbi puts read out until here
    shmem_long_p(&ack, r, left);
    shmem_long_wait_until(&ack, SHMEM_CMP_GE, r);
  }
  shmem_barrier_all();
  shmem_free(heap);
}

static void messages(void) {
  static const long options[] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE};
  for (size_t k = 0; k < COUNT(options); k++) {
    shmem_ctx_t c;
    CHECK(shmem_ctx_create(options[k], &c) == 0, "options %ld", options[k]);
    litmus(c);
    shmem_ctx_destroy(c);
  }
}

// quiet makes a put visible to all: a third PE that hears of it reads it at the second.
static void third_party(void) {
  static long value, told;
  value = told = 0;
  shmem_barrier_all();
  const int at = 1 % npes, reader = 2 % npes;
  for (long r = 1; r <= 500; r++) {
    if (me == 0) {
      shmem_long_put_nbi(&value, &r, 1, at);
      shmem_quiet();
      shmem_long_p(&told, r, reader);
    }
    if (me == reader) {
      shmem_long_wait_until(&told, SHMEM_CMP_EQ, r);
      CHECK(shmem_long_g(&value, at) == r, "round %ld", r);
      if (me != 0) shmem_long_p(&told, r, 0);
    }
    if (me == 0) shmem_long_wait_until(&told, SHMEM_CMP_EQ, r);
  }
  shmem_barrier_all();
}

static void completion(void) {
  enum { N = 50 };
  long *there = shmem_malloc(N * sizeof *there);
  for (int i = 0; i < N; i++) there[i] = me * 1000 + i;
  shmem_barrier_all();
  const int right = (me + 1) % npes;
  long got[N], fetched[N];
  shmem_ctx_t c;
  CHECK(shmem_ctx_create(0, &c) == 0, "ctx_create");
  for (int round = 0; round < 4; round++) {
    memset(got, 0xff, sizeof got);
    const shmem_ctx_t use = round & 1 ? c : SHMEM_CTX_DEFAULT;
    for (int i = 0; i < N; i++) {
      shmem_ctx_long_get_nbi(use, got + i, there + i, 1, right);
      shmem_ctx_long_atomic_fetch_nbi(use, fetched + i, there + i, right);
    }
    const int list[2] = {right, right};
    if (round & 2)
      shmem_ctx_pe_quiet(use, list, 2);
    else
      shmem_ctx_quiet(use);
    for (int i = 0; i < N; i++)
      CHECK(got[i] == right * 1000 + i && fetched[i] == got[i], "[%d] %ld %ld", i, got[i],
            fetched[i]);
  }
  shmem_pe_quiet(NULL, 0); // no target: the list is not looked at
  shmem_ctx_pe_quiet(c, NULL, 0);
  shmem_ctx_destroy(c);
  shmem_barrier_all();
  shmem_free(there);
}

static void invalid_context(void) {
  const int list[1] = {0};
  const shmem_ctx_session_config_t config = {10};
  shmem_ctx_fence(SHMEM_CTX_INVALID);
  shmem_ctx_quiet(SHMEM_CTX_INVALID);
  shmem_ctx_pe_quiet(SHMEM_CTX_INVALID, list, 1);
  shmem_ctx_session_start(SHMEM_CTX_INVALID, SHMEM_CTX_SESSION_BATCH, &config,
                          SHMEM_CTX_SESSION_TOTAL_OPS);
  shmem_ctx_session_stop(SHMEM_CTX_INVALID);
  shmem_ctx_destroy(SHMEM_CTX_INVALID);
  shmem_team_t team = SHMEM_TEAM_WORLD;
  CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0, "get_team of no context");
  CHECK(team == SHMEM_TEAM_INVALID, "and its team");
}

// barrier_all and shmem_barrier complete the default context, and no PE leaves before all came.
static void barriers(void) {
  static long here[PE_MAX], psync[SHMEM_BARRIER_SYNC_SIZE];
  for (size_t i = 0; i < COUNT(psync); i++) psync[i] = SHMEM_SYNC_VALUE;
  memset(here, 0, sizeof here);
  shmem_barrier_all();
  for (long r = 1; r <= 100; r++) {
    for (int pe = 0; pe < npes; pe++) shmem_long_put_nbi(&here[me], &r, 1, pe);
    if (r & 1)
      shmem_barrier_all();
    else
      shmem_barrier(0, 0, npes, psync);
    for (int pe = 0; pe < npes; pe++)
      CHECK(here[pe] == r, "round %ld: PE %d has %ld", r, pe, here[pe]);
    switch (r % 3) {
    case 0:
      shmem_sync_all();
      break;
    case 1:
      CHECK(shmem_team_sync(SHMEM_TEAM_WORLD) == 0, "team_sync");
      break;
    default:
      shmem_sync(0, 0, npes, psync);
    }
  }
  for (size_t i = 0; i < COUNT(psync); i++) CHECK(psync[i] == SHMEM_SYNC_VALUE, "pSync");
  shmem_barrier_all();
}

// sync makes plain stores visible to PEs that read them through shmem_ptr.
static void sync_stores(void) {
  long *mine = shmem_calloc(1, sizeof *mine);
  const int right = (me + 1) % npes;
  const volatile long *there = shmem_ptr(mine, right);
  for (long r = 1; r <= 500; r++) {
    *(volatile long *)mine = r;
    shmem_sync_all();
    if (there) CHECK(*there == r, "round %ld: %ld", r, *there);
    CHECK(shmem_team_sync(SHMEM_TEAM_WORLD) == 0, "team_sync");
  }
  shmem_barrier_all();
  shmem_free(mine);
}

enum { LOCKS = 5 };
static long locks[LOCKS], counts[LOCKS], holder[LOCKS];

// Counts without atomics under each of several locks; an nbi put is complete when the lock is let
// go.
static void exclusion(void) {
  const int rounds = npes > 4 ? 60 : 150;
  long *heap = shmem_calloc(LOCKS, sizeof *heap);
  for (int pass = 0; pass < 2; pass++) {
    long *lock = pass ? heap : locks;
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < LOCKS; i++) holder[i] = -1;
    shmem_barrier_all();
    long tries = 0;
    for (int r = 0; r < rounds; r++) {
      const int k = (r + me) % LOCKS, home = k % npes;
      if (r % 4 == 3)
        while (shmem_test_lock(lock + k)) tries++;
      else
        shmem_set_lock(lock + k);
      CHECK(shmem_long_g(holder + k, home) == -1, "lock %d is held twice", k);
      shmem_long_p(holder + k, me, home);
      const long now = shmem_long_g(counts + k, home) + 1;
      shmem_long_put_nbi(counts + k, &now, 1, home);
      shmem_quiet();
      CHECK(shmem_long_g(holder + k, home) == me, "lock %d is held twice", k);
      const long none = -1;
      shmem_long_put_nbi(holder + k, &none, 1, home); // completed by clear_lock
      shmem_clear_lock(lock + k);
    }
    shmem_barrier_all();
    long sum = 0;
    for (int k = 0; k < LOCKS; k++) sum += shmem_long_g(counts + k, k % npes);
    CHECK(sum == (long)rounds * npes, "%ld, want %ld; %ld tries", sum, (long)rounds * npes, tries);
    shmem_barrier_all();
  }
  shmem_free(heap);
}

static void nap(double seconds) {
  const struct timespec t = {0, (long)(seconds * 1e9)};
  nanosleep(&t, NULL);
}

// Served in the order in which they came: each PE queues up well after the one before it.
static void first_come(void) {
  static long lock, queued, served, order_of[PE_MAX];
  for (int round = 0; round < 2; round++) {
    queued = served = 0;
    shmem_barrier_all();
    const int turn = round ? npes - 1 - me : me; // the order in which PEs come
    const int first = round ? npes - 1 : 0;
    if (turn > 0) {
      while (shmem_long_atomic_fetch(&queued, 0) < turn) nap(1e-3);
      nap(30e-3); // until the one before is surely in the queue
      shmem_long_atomic_inc(&queued, 0);
    }
    shmem_set_lock(&lock);
    if (turn == 0) {
      shmem_long_atomic_inc(&queued, 0);
      while (shmem_long_atomic_fetch(&queued, 0) < npes) nap(1e-3);
      nap(30e-3);
      CHECK(me == first, "first");
    }
    const long at = shmem_long_atomic_fetch_inc(&served, 0);
    shmem_long_p(&order_of[at], turn, 0);
    shmem_clear_lock(&lock);
    shmem_barrier_all();
    for (int i = 0; i < npes && me == 0; i++)
      CHECK(order_of[i] == i, "number %ld was served as number %d", order_of[i], i);
    shmem_barrier_all();
  }
}

static void test_lock(void) {
  static long lock;
  shmem_barrier_all();
  if (me == 0) {
    CHECK(shmem_test_lock(&lock) == 0, "a free lock");
  }
  shmem_barrier_all();
  if (me != 0)
    for (int i = 0; i < 10; i++) CHECK(shmem_test_lock(&lock) == 1, "a lock that PE 0 holds");
  shmem_barrier_all();
  if (me == 0) shmem_clear_lock(&lock);
  shmem_barrier_all();
  if (me == npes - 1) {
    CHECK(shmem_test_lock(&lock) == 0, "free again");
    shmem_clear_lock(&lock);
  }
  shmem_barrier_all();
}

static const struct pe_test tests[] = {{"messages", messages},
                                       {"quiet and a third PE", third_party},
                                       {"nbi completion", completion},
                                       {"invalid context", invalid_context},
                                       {"barriers", barriers},
                                       {"plain stores and sync", sync_stores},
                                       {"lock: mutual exclusion", exclusion},
                                       {"lock: first come, first served", first_come},
                                       {"lock: test_lock", test_lock}};

int main(void) {
  const struct pe_list all = PE_LIST("", tests);
  return pe_run("order", &all, 1);
}
