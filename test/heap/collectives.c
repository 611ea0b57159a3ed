// SPDX-License-Identifier: MIT
// Collectives with dest and source in every pair of places, of few bytes and of many.
#include "heap.h"
#include <complex.h>
#include <pthread.h>

static unsigned char data[ROOM], got[ROOM], want[ROOM];

#define EACH_PAIR                                                                                  \
  for (int a = 0; a < SYMMETRIC; a++)                                                              \
    for (int b = 0; b < SYMMETRIC; b++)

static void check_dest(int a, int b, size_t n, const char *what) {
  look_at((enum place)a, got, object[a][0], n);
  for (size_t i = 0; i < n; i++)
    CHECK(got[i] == want[i], "%s, %s from %s, %zu bytes: byte %zu is %u, want %u", what,
          place_names[a], place_names[b], n, i, got[i], want[i]);
  shmem_barrier_all();
}

static void moving(void) {
  const size_t sizes[] = {1, 40, 1000, 30000};
  int round = 0;
  EACH_PAIR for (size_t k = 0; k < COUNT(sizes); k++, round++) {
    const size_t n = sizes[k], all = n * (size_t)npes;
    unsigned char *dest = object[a][0], *source = object[b][1];
    make(data, all, me, round);
    fill((enum place)b, source, data, all);
    shmem_barrier_all();
    const int root = round % npes;
    shmem_broadcastmem(SHMEM_TEAM_WORLD, dest, source, n, root);
    make(want, all, root, round);
    check_dest(a, b, n, "broadcast");

    shmem_fcollectmem(SHMEM_TEAM_WORLD, dest, source, n);
    for (int pe = 0; pe < npes; pe++) make(want + (size_t)pe * n, n, pe, round);
    check_dest(a, b, all, "fcollect");

    shmem_collectmem(SHMEM_TEAM_WORLD, dest, source, n + (size_t)me);
    size_t at = 0;
    for (int pe = 0; pe < npes; at += n + (size_t)pe, pe++) {
      make(data, n + (size_t)pe < all ? all : n + (size_t)pe, pe, round);
      memcpy(want + at, data, n + (size_t)pe);
    }
    if (npes == 1 || n >= (size_t)npes) check_dest(a, b, at, "collect");
    shmem_barrier_all();

    shmem_alltoallmem(SHMEM_TEAM_WORLD, dest, source, n);
    for (int pe = 0; pe < npes; pe++) {
      make(data, all, pe, round);
      memcpy(want + (size_t)pe * n, data + (size_t)me * n, n);
    }
    check_dest(a, b, all, "alltoall");

    const size_t m = n < 500 ? n : 500;
    look_at((enum place)a, want, dest, 2 * m * (size_t)npes);
    shmem_barrier_all();
    shmem_alltoallsmem(SHMEM_TEAM_WORLD, dest, source, 2, 1, m);
    for (int pe = 0; pe < npes; pe++) {
      make(data, all, pe, round);
      for (size_t i = 0; i < m; i++) want[2 * ((size_t)pe * m + i)] = data[(size_t)me * m + i];
    }
    check_dest(a, b, 2 * m * (size_t)npes - 1, "alltoalls");
  }
}

// A PE that has nothing to collect may have its source anywhere. The root of an active set keeps
// its dest.
static void uneven(void) {
  enum { N = 5000 };
  static long psync[SHMEM_BCAST_SYNC_SIZE];
  EACH_PAIR {
    unsigned char *dest = object[a][0], *source = object[b][1];
    make(data, N, me, a);
    fill((enum place)b, source, data, N);
    make(data, N, me, b + 10);
    fill((enum place)a, dest, data, N);
    shmem_barrier_all();
    shmem_broadcast32(dest, source, N / 4, npes - 1, 0, 0, npes, psync);
    if (me == npes - 1)
      memcpy(want, data, N);
    else
      make(want, N, npes - 1, a);
    check_dest(a, b, N, "active set's broadcast");

    size_t at = 0;
    for (int pe = 1; pe < npes; pe += 2, at += N) make(want + at, N, pe, a);
    if (me % 2)
      shmem_collectmem(SHMEM_TEAM_WORLD, dest, source, N);
    else
      shmem_collectmem(SHMEM_TEAM_WORLD, dest, NULL, 0);
    check_dest(a, b, at, "collect of every other PE's");
  }
}

// value(pe, i) is small enough for exact products and sums in any type.
#define REDUCTIONS(T, NAME, OPS)                                                                   \
  static T NAME##_value(int pe, size_t i) {                                                        \
    return (T)((int)(((size_t)pe * 3 + i * 7) % 5) + 1);                                           \
  }                                                                                                \
  static void NAME##_reductions(void) {                                                            \
    const size_t sizes[] = {1, 9, 3001};                                                           \
    T *mine = (T *)data, *seen = (T *)got;                                                         \
    EACH_PAIR for (size_t k = 0; k < COUNT(sizes); k++) for (int in_place = 0; in_place < 2;       \
                                                             in_place++) {                         \
      const size_t n = sizes[k];                                                                   \
      if (in_place && a != b) continue;                                                            \
      T *source = (T *)object[b][1], *dest = in_place ? source : (T *)object[a][0];                \
      OPS                                                                                          \
    }                                                                                              \
  }
#define REDUCE(T, NAME, op, first, step)                                                           \
  {                                                                                                \
    for (size_t i = 0; i < n; i++) mine[i] = NAME##_value(me, i);                                  \
    fill((enum place)b, source, mine, n * sizeof(T));                                              \
    shmem_barrier_all();                                                                           \
    CHECK(shmem_##NAME##_##op(SHMEM_TEAM_WORLD, dest, source, n) == 0, #op);                       \
    look_at((enum place)a, seen, dest, n * sizeof(T));                                             \
    for (size_t i = 0; i < n; i++) {                                                               \
      T acc = first;                                                                               \
      for (int pe = 0; pe < npes; pe++) {                                                          \
        const T v = NAME##_value(pe, i);                                                           \
        acc = step;                                                                                \
      }                                                                                            \
      CHECK(seen[i] == acc, #NAME " " #op ", %s from %s: %zu of %zu", place_names[a],              \
            place_names[b], i, n);                                                                 \
    }                                                                                              \
    shmem_barrier_all();                                                                           \
  }
#define ARITHMETIC(T, NAME)                                                                        \
  REDUCE(T, NAME, sum_reduce, (T)0, (T)(acc + v))                                                  \
  REDUCE(T, NAME, prod_reduce, (T)1, (T)(acc * v))
#define ORDERED(T, NAME)                                                                           \
  ARITHMETIC(T, NAME)                                                                              \
  REDUCE(T, NAME, max_reduce, (T)0, acc > v ? acc : v)                                             \
  REDUCE(T, NAME, min_reduce, (T)100, acc < v ? acc : v)                                           \
  REDUCE(T, NAME, sum_inscan, (T)0, (T)(pe <= me ? acc + v : acc))                                 \
  REDUCE(T, NAME, sum_exscan, (T)0, (T)(pe < me ? acc + v : acc))
#define BITWISE(T, NAME)                                                                           \
  ORDERED(T, NAME)                                                                                 \
  REDUCE(T, NAME, and_reduce, (T) ~(T)0, (T)(acc & v))                                             \
  REDUCE(T, NAME, or_reduce, (T)0, (T)(acc | v))                                                   \
  REDUCE(T, NAME, xor_reduce, (T)0, (T)(acc ^ v))
REDUCTIONS(signed char, schar, ORDERED(signed char, schar))
REDUCTIONS(unsigned char, uchar, BITWISE(unsigned char, uchar))
REDUCTIONS(short, short, ORDERED(short, short))
REDUCTIONS(uint16_t, uint16, BITWISE(uint16_t, uint16))
REDUCTIONS(int, int, ORDERED(int, int))
REDUCTIONS(uint32_t, uint32, BITWISE(uint32_t, uint32))
REDUCTIONS(long long, longlong, ORDERED(long long, longlong))
REDUCTIONS(uint64_t, uint64, BITWISE(uint64_t, uint64))
REDUCTIONS(float, float, ORDERED(float, float))
REDUCTIONS(double, double, ORDERED(double, double))
REDUCTIONS(long double, longdouble, ORDERED(long double, longdouble))
REDUCTIONS(double _Complex, complexd, ARITHMETIC(double _Complex, complexd))
REDUCTIONS(float _Complex, complexf, ARITHMETIC(float _Complex, complexf))

// A team that runs backwards combines in its own order; signed bits by the active-set form.
static void teams(void) {
  enum { N = 2000 };
  shmem_team_t team = SHMEM_TEAM_INVALID;
  if (npes > 1) shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &team);
  static long psync[SHMEM_REDUCE_SYNC_SIZE];
  static int work[N];
  EACH_PAIR {
    float *dest = (float *)object[a][0], *source = (float *)object[b][1], *mine = (float *)data;
    for (int i = 0; i < N; i++) mine[i] = 1.0f / (float)(me + i + 1);
    fill((enum place)b, source, mine, N * sizeof(float));
    shmem_barrier_all();
    if (team != SHMEM_TEAM_INVALID) {
      shmem_float_sum_reduce(team, dest, source, N);
      look_at((enum place)a, got, dest, N * sizeof(float));
      for (int i = 0; i < N; i++) {
        float acc = 1.0f / (float)(npes + i);
        for (int m = 1; m < npes; m++) acc += 1.0f / (float)(npes - m + i);
        CHECK(((float *)got)[i] == acc, "%s from %s: element %d", place_names[a], place_names[b],
              i);
      }
      shmem_barrier_all();
    }
    int *d = (int *)object[a][0], *s = (int *)object[b][1], *m = (int *)data;
    for (int i = 0; i < N; i++) m[i] = -1 - (1 << me % 20);
    fill((enum place)b, s, m, N * sizeof(int));
    shmem_barrier_all();
    shmem_int_and_to_all(d, s, N, 0, 0, npes, work, psync);
    look_at((enum place)a, got, d, N * sizeof(int));
    int all = -1;
    for (int pe = 0; pe < npes; pe++) all &= -1 - (1 << pe % 20);
    for (int i = 0; i < N; i++) CHECK(((int *)got)[i] == all, "and_to_all: element %d", i);
    shmem_barrier_all();
  }
  if (team != SHMEM_TEAM_INVALID) shmem_team_destroy(team);
}

// Collectives of two teams at once, by a thread each: neither may wait behind the other's. And the
// team of the node, which is the world to kernels.
enum { LENGTH = 3000 };
struct half {
  shmem_team_t team;
  long *dest, *source;
  int factor, wrong;
};
static void *sum_often(void *of) {
  struct half *h = of;
  for (int round = 0; round < 20; round++) {
    h->wrong += shmem_long_sum_reduce(h->team, h->dest, h->source, LENGTH) != 0;
    h->wrong += shmem_team_sync(h->team);
  }
  return NULL;
}
static void at_once(void) {
  struct half halves[2] = {{.factor = 1}, {.factor = 10}};
  long *mine = (long *)data, *seen = (long *)got;
  for (int k = 0; k < 2; k++) {
    struct half *h = &halves[k];
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &h->team);
    h->dest = (long *)object[DEVICE][k];
    h->source = h->dest + LENGTH;
    for (long i = 0; i < LENGTH; i++) mine[i] = (me + 1 + i) * h->factor;
    fill(DEVICE, h->source, mine, LENGTH * sizeof(long));
  }
  shmem_barrier_all();
  pthread_t other;
  CHECK(pthread_create(&other, NULL, sum_often, &halves[1]) == 0, "no thread");
  sum_often(&halves[0]);
  pthread_join(other, NULL);
  shmem_long_sum_reduce(SHMEM_TEAM_SHARED, halves[1].source, halves[0].dest, LENGTH);
  for (int k = 0; k < 2; k++) {
    const struct half *h = &halves[k];
    CHECK(h->wrong == 0, "team %d: %d calls failed", k, h->wrong);
    const long all = npes * (npes + 1) / 2;
    look_at(DEVICE, seen, h->dest, LENGTH * sizeof(long));
    for (long i = 0; i < LENGTH; i++)
      CHECK(seen[i] == (all + npes * i) * h->factor, "team %d: element %ld is %ld", k, i, seen[i]);
    if (k == 0) continue;
    look_at(DEVICE, seen, h->source, LENGTH * sizeof(long));
    for (long i = 0; i < LENGTH; i++)
      CHECK(seen[i] == (all + npes * i) * shmem_team_n_pes(SHMEM_TEAM_SHARED),
            "of the node: element %ld is %ld", i, seen[i]);
  }
  shmem_barrier_all();
  for (int k = 0; k < 2; k++) shmem_team_destroy(halves[k].team);
}

static const struct pe_test tests[] = {
    {"moving", moving},
    {"uneven", uneven},
    {"schar", schar_reductions},
    {"uchar", uchar_reductions},
    {"short", short_reductions},
    {"uint16", uint16_reductions},
    {"int", int_reductions},
    {"uint32", uint32_reductions},
    {"longlong", longlong_reductions},
    {"uint64", uint64_reductions},
    {"float", float_reductions},
    {"double", double_reductions},
    {"longdouble", longdouble_reductions},
    {"complexd", complexd_reductions},
    {"complexf", complexf_reductions},
    {"teams", teams},
    {"at once", at_once},
};
const struct pe_list collectives = PE_LIST("collectives", tests);
