// SPDX-License-Identifier: MIT
// Atomics on objects in every place, with the old values stored in every place.
#include "heap.h"

#define EXTENDED(T, NAME)                                                                          \
  static void NAME##_extended(int a, int b) {                                                      \
    T *x = (T *)(object[a][0] + 64 * me), *to = (T *)object[b][1], r;                              \
    for (int pe = 0; pe < npes; pe++) {                                                            \
      shmem_##NAME##_atomic_set(x, (T)5, pe);                                                      \
      CHECK(shmem_##NAME##_atomic_fetch(x, pe) == (T)5, "set, %s", place_names[a]);                \
      CHECK(shmem_##NAME##_atomic_swap(x, (T)9, pe) == (T)5, "swap, %s", place_names[a]);          \
      shmem_##NAME##_atomic_swap_nbi(to, x, (T)13, pe);                                            \
      shmem_quiet();                                                                               \
      look_at((enum place)b, &r, to, sizeof r);                                                    \
      CHECK(r == (T)9, "swap_nbi, %s to %s", place_names[a], place_names[b]);                      \
      shmem_##NAME##_atomic_fetch_nbi(to, x, pe);                                                  \
      shmem_quiet();                                                                               \
      look_at((enum place)b, &r, to, sizeof r);                                                    \
      CHECK(r == (T)13, "fetch_nbi, %s to %s", place_names[a], place_names[b]);                    \
    }                                                                                              \
  }
#define STANDARD(T, NAME)                                                                          \
  EXTENDED(T, NAME)                                                                                \
  static void NAME##_standard(int a, int b) {                                                      \
    T *x = (T *)(object[a][0] + 64 * me), *to = (T *)object[b][1], r;                              \
    for (int pe = 0; pe < npes; pe++) {                                                            \
      shmem_##NAME##_atomic_set(x, (T)10, pe);                                                     \
      CHECK(shmem_##NAME##_atomic_compare_swap(x, (T)1, (T)2, pe) == (T)10, "cas, no");            \
      CHECK(shmem_##NAME##_atomic_compare_swap(x, (T)10, (T)20, pe) == (T)10, "cas, yes");         \
      CHECK(shmem_##NAME##_atomic_fetch_inc(x, pe) == (T)20, "fetch_inc, %s", place_names[a]);     \
      shmem_##NAME##_atomic_inc(x, pe);                                                            \
      shmem_##NAME##_atomic_add(x, (T)100, pe);                                                    \
      CHECK(shmem_##NAME##_atomic_fetch_add(x, (T)-3, pe) == (T)122, "adds, %s", place_names[a]);  \
      shmem_##NAME##_atomic_fetch_add_nbi(to, x, (T)1, pe);                                        \
      shmem_quiet();                                                                               \
      look_at((enum place)b, &r, to, sizeof r);                                                    \
      CHECK(r == (T)119, "fetch_add_nbi, %s to %s", place_names[a], place_names[b]);               \
      shmem_##NAME##_atomic_compare_swap_nbi(to, x, (T)120, (T)7, pe);                             \
      shmem_##NAME##_atomic_fetch_inc_nbi(to, x, pe);                                              \
      shmem_quiet();                                                                               \
      look_at((enum place)b, &r, to, sizeof r);                                                    \
      CHECK(r == (T)7, "compare_swap_nbi, %s to %s", place_names[a], place_names[b]);              \
    }                                                                                              \
  }
#define BITWISE(T, NAME)                                                                           \
  STANDARD(T, NAME)                                                                                \
  static void NAME##_bitwise(int a, int b) {                                                       \
    T *x = (T *)(object[a][0] + 64 * me), *to = (T *)object[b][1], r;                              \
    for (int pe = 0; pe < npes; pe++) {                                                            \
      shmem_##NAME##_atomic_set(x, (T)0xff0f, pe);                                                 \
      CHECK(shmem_##NAME##_atomic_fetch_and(x, (T)0xf0ff, pe) == (T)0xff0f, "fetch_and");          \
      CHECK(shmem_##NAME##_atomic_fetch_or(x, (T)0x0100, pe) == (T)0xf00f, "fetch_or");            \
      CHECK(shmem_##NAME##_atomic_fetch_xor(x, (T)0xffff, pe) == (T)0xf10f, "fetch_xor");          \
      shmem_##NAME##_atomic_and(x, (T)0x0ff0, pe);                                                 \
      shmem_##NAME##_atomic_or(x, (T)0x8000, pe);                                                  \
      shmem_##NAME##_atomic_xor(x, (T)0x8001, pe);                                                 \
      shmem_##NAME##_atomic_fetch_or_nbi(to, x, (T)0, pe);                                         \
      shmem_quiet();                                                                               \
      look_at((enum place)b, &r, to, sizeof r);                                                    \
      CHECK(r == (T)0x0ef1, "and, or, xor, %s to %s: %llx", place_names[a], place_names[b],        \
            (unsigned long long)r);                                                                \
    }                                                                                              \
  }
EXTENDED(float, float)
EXTENDED(double, double)
STANDARD(int, int)
STANDARD(long, long)
STANDARD(size_t, size)
STANDARD(ptrdiff_t, ptrdiff)
BITWISE(unsigned, uint)
BITWISE(int32_t, int32)
BITWISE(uint64_t, uint64)

static void alone(void) {
  for (int a = 0; a < SYMMETRIC; a++)
    for (int b = 0; b < PLACES; b++) {
      float_extended(a, b), double_extended(a, b);
      int_extended(a, b), int_standard(a, b);
      long_extended(a, b), long_standard(a, b);
      size_extended(a, b), size_standard(a, b);
      ptrdiff_extended(a, b), ptrdiff_standard(a, b);
      uint_extended(a, b), uint_standard(a, b), uint_bitwise(a, b);
      int32_extended(a, b), int32_standard(a, b), int32_bitwise(a, b);
      uint64_extended(a, b), uint64_standard(a, b), uint64_bitwise(a, b);
      shmem_barrier_all();
    }
}

// All at once, on one object.
static void together(void) {
  enum { ROUNDS = 50 };
  for (int a = 0; a < SYMMETRIC; a++) {
    long *x = (long *)object[a][0];
    const long zeros[3] = {0, 0, 0};
    fill((enum place)a, x, zeros, sizeof zeros);
    shmem_barrier_all();
    for (int r = 0; r < ROUNDS; r++) {
      shmem_long_atomic_inc(x, npes - 1);
      shmem_long_atomic_fetch_add(x + 1, 3, npes - 1);
      for (long old = shmem_long_atomic_fetch(x + 2, npes - 1), now;; old = now)
        if ((now = shmem_long_atomic_compare_swap(x + 2, old, old + 2, npes - 1)) == old) break;
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(x, npes - 1) == ROUNDS * npes, "inc, %s", place_names[a]);
    CHECK(shmem_long_g(x + 1, npes - 1) == 3 * ROUNDS * npes, "fetch_add, %s", place_names[a]);
    CHECK(shmem_long_g(x + 2, npes - 1) == 2 * ROUNDS * npes, "compare_swap, %s", place_names[a]);
    shmem_barrier_all();
  }
}

// The lock in one place guards an object in another.
static void locks(void) {
  enum { ROUNDS = 20 };
  for (int a = 0; a < SYMMETRIC; a++)
    for (int b = 0; b < SYMMETRIC; b++) {
      long *lock = (long *)object[a][0] + 3, *x = (long *)object[b][1];
      const long zero = 0;
      fill((enum place)a, lock, &zero, sizeof zero);
      fill((enum place)b, x, &zero, sizeof zero);
      shmem_barrier_all();
      for (int r = 0; r < ROUNDS; r++) {
        if (r % 2)
          shmem_set_lock(lock);
        else
          while (shmem_test_lock(lock)) continue;
        shmem_long_p(x, shmem_long_g(x, 0) + 1, 0);
        shmem_clear_lock(lock);
      }
      shmem_barrier_all();
      CHECK(shmem_long_g(x, 0) == ROUNDS * npes, "lock in %s, object in %s: %ld", place_names[a],
            place_names[b], shmem_long_g(x, 0));
      shmem_barrier_all();
    }
}

static const struct pe_test tests[] = {{"alone", alone}, {"together", together}, {"locks", locks}};
const struct pe_list atomics = PE_LIST("atomics", tests);
