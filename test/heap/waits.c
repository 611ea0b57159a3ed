// SPDX-License-Identifier: MIT
// Signals, waits and tests on objects in every place.
#include "heap.h"

static void clear(int a, size_t n) {
  static const uint64_t zeros[64];
  fill((enum place)a, object[a][0], zeros, n * 8);
  shmem_barrier_all();
}

// Data and signal go right, each in its own place; the data is there once the signal is.
static void signals(void) {
  enum { N = 700 };
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  static int data[N], got[N];
  int round = 0;
  for (int a = 0; a < SYMMETRIC; a++)    // the signal
    for (int b = 0; b < SYMMETRIC; b++)  // dest
      for (int c = 0; c < PLACES; c++) { // source
        uint64_t *sig = (uint64_t *)object[a][0];
        int *dest = (int *)object[b][1], *source = (int *)(object[c][1] + ROOM / 2);
        clear(a, 2);
        for (uint64_t r = 1; r <= 4; r++, round++) {
          for (int i = 0; i < N; i++) data[i] = me * 100000 + round + i;
          fill((enum place)c, source, data, sizeof data);
          if (r % 2)
            shmem_int_put_signal(dest, source, N, sig, r, SHMEM_SIGNAL_SET, right);
          else
            shmem_int_put_signal_nbi(dest, source, N, sig, 1, SHMEM_SIGNAL_ADD, right);
          CHECK(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, r) == r, "signal");
          look_at((enum place)b, got, dest, sizeof got);
          for (int i = 0; i < N; i++)
            CHECK(got[i] == left * 100000 + round + i, "signal in %s, %s from %s: %d is %d",
                  place_names[a], place_names[b], place_names[c], i, got[i]);
          CHECK(shmem_signal_fetch(sig) == r, "signal_fetch");
          shmem_quiet();
          shmem_barrier_all();
        }
        shmem_signal_add(sig + 1, 5, right);
        shmem_signal_wait_until(sig + 1, SHMEM_CMP_GE, 5);
        shmem_barrier_all();
        shmem_signal_set(sig + 1, 77, right);
        shmem_signal_wait_until(sig + 1, SHMEM_CMP_EQ, 77);
        shmem_barrier_all();
      }
}

// Messages to and fro whose last word is their flag, which the receiver takes away.
static void flags_in_puts(void) {
  static const size_t sizes[] = {1, 2, 8, 9, 600};
  enum { MOST = 600, ROUNDS = 12 };
  static long message[MOST], got[MOST];
  const int other = npes % 2 && me == npes - 1 ? me : me ^ 1;
  for (int a = 0; a < SYMMETRIC; a++)
    for (int c = 0; c < PLACES; c++)
      for (size_t k = 0; k < COUNT(sizes); k++) {
        const size_t n = sizes[k];
        long *dest = (long *)object[a][0] + k % 2, *source = (long *)object[c][1];
        clear(a, 8);
        for (long i = 0; i < (long)n; i++) message[i] = 0;
        fill((enum place)a, dest, message, n * sizeof *dest);
        shmem_barrier_all();
        for (long round = 1; round <= ROUNDS; round++)
          for (int turn = 0; turn < 2; turn++) {
            if (other == me ? turn == 0 : (me & 1) == turn) {
              for (size_t i = 0; i < n; i++) message[i] = i == n - 1 ? 1 : round;
              fill((enum place)c, source, message, n * sizeof *dest);
              shmem_long_put(dest, source, n, other);
              if (other != me) continue;
            }
            if (other == me && turn == 1) continue;
            shmem_long_wait_until(&dest[n - 1], SHMEM_CMP_EQ, 1);
            look_at((enum place)a, got, dest, n * sizeof *dest);
            for (size_t i = 0; i + 1 < n; i++)
              CHECK(got[i] == round, "%s from %s, %zu words: word %zu of round %ld is %ld",
                    place_names[a], place_names[c], n, i, round, got[i]);
            shmem_long_p(&dest[n - 1], 0, me);
          }
        shmem_barrier_all();
      }
}

#define WAITS(T, NAME)                                                                             \
  static void NAME##_waits(void) {                                                                 \
    enum { N = 40 }; /* more than the library copies to its stack */                               \
    const int right = (me + 1) % npes;                                                             \
    for (int a = 0; a < SYMMETRIC; a++) {                                                          \
      T *x = (T *)object[a][0], values[N];                                                         \
      size_t at[N];                                                                                \
      int status[N] = {0};                                                                         \
      clear(a, N);                                                                                 \
      CHECK(!shmem_##NAME##_test(x, SHMEM_CMP_NE, 0), "test");                                     \
      CHECK(!shmem_##NAME##_test_all(x, N, NULL, SHMEM_CMP_EQ, 1), "test_all");                    \
      CHECK(shmem_##NAME##_test_any(x, N, NULL, SHMEM_CMP_EQ, 1) == SIZE_MAX, "test_any");         \
      CHECK(shmem_##NAME##_test_some(x, N, at, NULL, SHMEM_CMP_EQ, 1) == 0, "test_some");          \
      shmem_barrier_all();                                                                         \
      shmem_##NAME##_p(x + 7, 1, right);                                                           \
      shmem_##NAME##_wait_until(x + 7, SHMEM_CMP_GT, 0);                                           \
      CHECK(shmem_##NAME##_test(x + 7, SHMEM_CMP_EQ, 1), "%s", place_names[a]);                    \
      CHECK(shmem_##NAME##_wait_until_any(x, N, NULL, SHMEM_CMP_EQ, 1) == 7, "any");               \
      CHECK(shmem_##NAME##_test_any(x, N, NULL, SHMEM_CMP_EQ, 1) == 7, "test_any");                \
      CHECK(shmem_##NAME##_wait_until_some(x, N, at, NULL, SHMEM_CMP_EQ, 1) == 1 && at[0] == 7,    \
            "some");                                                                               \
      status[7] = 1;                                                                               \
      CHECK(shmem_##NAME##_test_any(x, N, status, SHMEM_CMP_EQ, 1) == SIZE_MAX, "status");         \
      shmem_barrier_all();                                                                         \
      for (int i = 0; i < N; i++) shmem_##NAME##_atomic_set(x + i, (T)(i + 2), right);             \
      for (int i = 0; i < N; i++) values[i] = (T)(i + 2);                                          \
      shmem_##NAME##_wait_until_all_vector(x, N, NULL, SHMEM_CMP_EQ, values);                      \
      shmem_##NAME##_wait_until_all(x, N, NULL, SHMEM_CMP_GE, 2);                                  \
      CHECK(shmem_##NAME##_test_all_vector(x, N, NULL, SHMEM_CMP_EQ, values), "all_vector");       \
      CHECK(shmem_##NAME##_test_some_vector(x, N, at, status, SHMEM_CMP_EQ, values) == N - 1,      \
            "some_vector");                                                                        \
      CHECK(shmem_##NAME##_wait_until_some_vector(x, N, at, NULL, SHMEM_CMP_EQ, values) == N,      \
            "wait some_vector");                                                                   \
      CHECK(shmem_##NAME##_wait_until_any_vector(x, N, NULL, SHMEM_CMP_EQ, values) < N, "any");    \
      CHECK(shmem_##NAME##_test_any_vector(x, N, NULL, SHMEM_CMP_NE, values) == SIZE_MAX, "none"); \
      shmem_barrier_all();                                                                         \
    }                                                                                              \
  }
WAITS(int, int)
WAITS(uint64_t, uint64)

static const struct pe_test tests[] = {{"signals", signals},
                                       {"flags in puts", flags_in_puts},
                                       {"4 bytes", int_waits},
                                       {"8 bytes", uint64_waits}};
const struct pe_list waits = PE_LIST("waits", tests);
