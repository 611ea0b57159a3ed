// SPDX-License-Identifier: MIT
// Signals without data, the old names of wait, and a wait's promises of other data.
#include "typed.h"

extern const struct pe_list signal_lists[], wait_lists[], oldwait_lists[];
extern const size_t signal_count, wait_count, oldwait_count;

static uint64_t data_signal;

static void add_and_set(void) {
  uint64_t *sig = shmem_calloc(2, sizeof *sig);
  data_signal = 0;
  shmem_barrier_all();
  shmem_ctx_t c;
  CHECK(shmem_ctx_create(0, &c) == 0, "ctx_create");
  for (int r = 0; r < 100; r++) {
    for (int pe = 0; pe < npes; pe++) {
      (shmem_signal_add)(sig, (uint64_t)1 << 40, pe);
      shmem_ctx_signal_add(c, sig, 3, pe);
      shmem_ctx_signal_add(SHMEM_CTX_DEFAULT, &data_signal, UINT64_MAX, pe);
    }
  }
  const uint64_t calls = 100 * (uint64_t)npes;
  const uint64_t got =
      shmem_signal_wait_until(sig, SHMEM_CMP_EQ, calls * (((uint64_t)1 << 40) + 3));
  CHECK(got == calls * (((uint64_t)1 << 40) + 3), "%llx", (unsigned long long)got);
  CHECK(shmem_signal_wait_until(&data_signal, SHMEM_CMP_EQ, 0 - calls) == 0 - calls, "wrapped");
  shmem_ctx_quiet(c);
  shmem_barrier_all();
  const int right = (me + 1) % npes;
  (shmem_signal_set)(sig, 5, right);
  CHECK(shmem_signal_wait_until(sig, SHMEM_CMP_LT, 6) == 5, "set");
  shmem_barrier_all();
  shmem_ctx_signal_set(c, sig, UINT64_MAX, right);
  shmem_ctx_quiet(c);
  CHECK(shmem_signal_wait_until(sig, SHMEM_CMP_GT, UINT64_MAX - 1) == UINT64_MAX, "unsigned");
  CHECK(shmem_signal_fetch(sig) == UINT64_MAX, "fetch");
  CHECK(shmem_signal_wait_until(sig, SHMEM_CMP_NE, 5) == UINT64_MAX, "NE");
  shmem_ctx_destroy(c);
  shmem_barrier_all();
  shmem_free(sig);
}

// The value that a wait returns is one that satisfies it, while the signal goes on changing.
static void returned_value(void) {
  enum { ROUNDS = 20000 };
  uint64_t *sig = shmem_calloc(1, sizeof *sig);
  const int right = (me + 1) % npes;
  shmem_barrier_all();
  for (uint64_t r = 1; r <= ROUNDS; r++) {
    shmem_signal_set(SHMEM_CTX_DEFAULT, sig, r & 1 ? r : 0, right); // 1 0 3 0 5 0 ...
    const uint64_t now = shmem_signal_fetch(sig);
    CHECK(now == 0 || now & 1, "a value that nobody set: %llu", (unsigned long long)now);
    if (r % 100 == 1 && npes == 1) {
      const uint64_t got = shmem_signal_wait_until(sig, SHMEM_CMP_EQ, r);
      CHECK(got == r, "returns %llu", (unsigned long long)got);
    }
  }
  shmem_barrier_all();
  // The last thing set is 0; let the neighbour flicker while I wait for anything else.
  uint64_t *stop = shmem_calloc(1, sizeof *stop);
  const bool flicker = me % 2 == 1;
  if (npes > 1 && flicker) {
    while (shmem_signal_fetch(stop) == 0) {
      shmem_signal_set(SHMEM_CTX_DEFAULT, sig, 7, me - 1);
      shmem_signal_set(SHMEM_CTX_DEFAULT, sig, 0, me - 1);
    }
  } else if (me + 1 < npes) {
    for (int i = 0; i < 2000; i++) {
      const uint64_t got = shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 7);
      CHECK(got == 7, "wait for 7 returns %llu", (unsigned long long)got);
    }
    shmem_signal_set(SHMEM_CTX_DEFAULT, stop, 1, me + 1);
  }
  shmem_barrier_all();
  shmem_free(stop);
  shmem_free(sig);
}

static long old_flag;

static void old_names(void) {
  const int right = (me + 1) % npes;
  old_flag = 0;
  shmem_barrier_all();
  shmem_long_p(&old_flag, -7, right);
  (shmem_wait)(&old_flag, 0);
  CHECK(old_flag == -7, "%ld", old_flag);
  (shmem_wait_until)(&old_flag, SHMEM_CMP_LT, -6);
  shmem_wait_until(&old_flag, SHMEM_CMP_EQ, -7);
  shmem_barrier_all();
}

// put_signal carries its own data, fenced puts travel in front of it: 3000 messages through a ring
// of slots.
static void pipeline(void) {
  enum { SLOTS = 4, WORDS = 33, MESSAGES = 3000 };
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  long *slots = shmem_calloc(SLOTS * WORDS, sizeof *slots);
  long *extra = shmem_calloc(SLOTS, sizeof *extra);
  uint64_t *sig = shmem_calloc(SLOTS, sizeof *sig), *credit = shmem_calloc(1, sizeof *credit);
  long out[WORDS];
  uint64_t received = 0;
  for (uint64_t m = 0; m < MESSAGES + SLOTS; m++) {
    if (m < MESSAGES) {
      if (m >= SLOTS) shmem_signal_wait_until(credit, SHMEM_CMP_GE, m - SLOTS + 1);
      for (int i = 0; i < WORDS; i++) out[i] = (long)m * 1000 + i + me;
      shmem_long_p(extra + m % SLOTS, (long)m + me, right);
      shmem_fence();
      if (m & 1)
        shmem_long_put_signal(slots + m % SLOTS * WORDS, out, WORDS, sig + m % SLOTS, m + 1,
                              SHMEM_SIGNAL_SET, right);
      else
        shmem_long_put_signal_nbi(slots + m % SLOTS * WORDS, out, WORDS, sig + m % SLOTS, m + 1,
                                  SHMEM_SIGNAL_SET, right);
      shmem_quiet();
    }
    if (m + 1 < SLOTS) continue;
    if (received == MESSAGES) break;
    const size_t s = received % SLOTS;
    const uint64_t got = shmem_signal_wait_until(sig + s, SHMEM_CMP_GE, received + 1);
    CHECK(got == received + 1, "%llu", (unsigned long long)got);
    for (int i = 0; i < WORDS; i++)
      CHECK(slots[s * WORDS + (size_t)i] == (long)received * 1000 + i + left, "message %llu [%d]",
            (unsigned long long)received, i);
    CHECK(extra[s] == (long)received + left, "the put before the fence");
    received++;
    shmem_signal_add(SHMEM_CTX_DEFAULT, credit, 1, left);
  }
  CHECK(received == MESSAGES, "%llu", (unsigned long long)received);
  shmem_barrier_all();
  shmem_free(credit);
  shmem_free(sig);
  shmem_free(extra);
  shmem_free(slots);
}

static const struct pe_test tests[] = {{"signal_add, signal_set", add_and_set},
                                       {"returned value", returned_value},
                                       {"old names", old_names},
                                       {"pipeline", pipeline}};

int main(void) {
  struct pe_list all[96] = {PE_LIST("", tests)};
  size_t n = 1;
  for (size_t i = 0; i < signal_count; i++) all[n++] = signal_lists[i];
  for (size_t i = 0; i < wait_count; i++) all[n++] = wait_lists[i];
  for (size_t i = 0; i < oldwait_count; i++) all[n++] = oldwait_lists[i];
  return pe_run("signals and waiting", all, n);
}
