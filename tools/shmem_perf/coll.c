// SPDX-License-Identifier: MIT
// Collectives by size: on the world team where there are teams, else on the active set of all PEs,
// so that a row means the same for every library. Calls follow each other without a barrier; the
// root of a broadcast goes round, so that no PE can run ahead.
#include "perf.h"

#if HAVE_TEAMS

#define CALL(team_call, set_call) team_call
void coll_setup(int n_pes) {
  (void)n_pes;
}
bool coll_work_fits(size_t bytes) {
  (void)bytes;
  return true;
}
static void next_call(void) {}

#else

#define CALL(team_call, set_call) set_call

// A pSync may be used again once all PEs are out of the call that used it last. Every PE is a
// broadcast root once in n_pes calls, which proves just that: n_pes + 1 of them go round.
#define SYNC_WORDS                                                                                 \
  (SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE +                      \
   SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_ALLTOALLS_SYNC_SIZE)

static long *all_psync, *psync;
static void *work;
static size_t work_bytes, call_number;

void coll_setup(int n_pes) {
  const size_t words = ((size_t)n_pes + 1) * SYNC_WORDS;
  all_psync = shmem_malloc(words * sizeof *all_psync);
  for (work_bytes = 1 << 20; !(work = shmem_malloc(work_bytes)); work_bytes /= 2)
    if (work_bytes < 4096) break;
  if (!all_psync || !work) {
    fprintf(stderr, "error: no room for the collectives' work arrays\n");
    shmem_global_exit(2);
  }
  for (size_t i = 0; i < words; ++i) all_psync[i] = SHMEM_SYNC_VALUE;
  shmem_barrier_all();
}

// Whether a reduction of this size finds its pWrk big enough.
bool coll_work_fits(size_t bytes) {
  return bytes / 2 + 64 + SHMEM_REDUCE_MIN_WRKDATA_SIZE * sizeof(double) <= work_bytes;
}

static void next_call(void) {
  psync = all_psync + call_number++ % ((size_t)shmem_n_pes() + 1) * SYNC_WORDS;
}

#endif

#define WORDS (a->bytes / 8)
#define TO ((void *)a->target)
#define FROM ((const void *)a->source)
#define SET 0, 0, a->n_pes

#define COLLECTIVE(name, team_call, set_call)                                                      \
  static void name(struct arena *a, size_t count) {                                                \
    for (; count > 0; --count) {                                                                   \
      next_call();                                                                                 \
      CALL(team_call, set_call);                                                                   \
    }                                                                                              \
  }

static int broadcast_root;

COLLECTIVE(fcollect, shmem_fcollectmem(SHMEM_TEAM_WORLD, TO, FROM, a->bytes),
           shmem_fcollect64(TO, FROM, WORDS, SET, psync))
COLLECTIVE(collect, shmem_collectmem(SHMEM_TEAM_WORLD, TO, FROM, a->bytes),
           shmem_collect64(TO, FROM, WORDS, SET, psync))
COLLECTIVE(alltoall, shmem_alltoallmem(SHMEM_TEAM_WORLD, TO, FROM, a->bytes),
           shmem_alltoall64(TO, FROM, WORDS, SET, psync))
COLLECTIVE(alltoalls, shmem_long_alltoalls(SHMEM_TEAM_WORLD, TO, FROM, 2, 2, WORDS),
           shmem_alltoalls64(TO, FROM, 2, 2, WORDS, SET, psync))
COLLECTIVE(sum_long, shmem_long_sum_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_long_sum_to_all(TO, FROM, (int)WORDS, SET, work, psync))
COLLECTIVE(sum_double, shmem_double_sum_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_double_sum_to_all(TO, FROM, (int)WORDS, SET, work, psync))
COLLECTIVE(sum_float, shmem_float_sum_reduce(SHMEM_TEAM_WORLD, TO, FROM, 2 * WORDS),
           shmem_float_sum_to_all(TO, FROM, (int)(2 * WORDS), SET, work, psync))
COLLECTIVE(prod_double, shmem_double_prod_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_double_prod_to_all(TO, FROM, (int)WORDS, SET, work, psync))
COLLECTIVE(max_long, shmem_long_max_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_long_max_to_all(TO, FROM, (int)WORDS, SET, work, psync))
COLLECTIVE(min_long, shmem_long_min_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_long_min_to_all(TO, FROM, (int)WORDS, SET, work, psync))
COLLECTIVE(and_long, shmem_ulong_and_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_long_and_to_all(TO, FROM, (int)WORDS, SET, work, psync))
COLLECTIVE(or_long, shmem_ulong_or_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_long_or_to_all(TO, FROM, (int)WORDS, SET, work, psync))
COLLECTIVE(xor_long, shmem_ulong_xor_reduce(SHMEM_TEAM_WORLD, TO, FROM, WORDS),
           shmem_long_xor_to_all(TO, FROM, (int)WORDS, SET, work, psync))

static void broadcast(struct arena *a, size_t count) {
  for (; count > 0; --count) {
    next_call();
    broadcast_root = (broadcast_root + 1) % a->n_pes;
    CALL(shmem_broadcastmem(SHMEM_TEAM_WORLD, TO, FROM, a->bytes, broadcast_root),
         shmem_broadcast64(TO, FROM, WORDS, broadcast_root, SET, psync));
  }
}

#if HAVE_SCANS
COLLECTIVE(inscan, shmem_long_sum_inscan(SHMEM_TEAM_WORLD, TO, FROM, WORDS), )
COLLECTIVE(exscan, shmem_long_sum_exscan(SHMEM_TEAM_WORLD, TO, FROM, WORDS), )
#endif

// --- checks -------------------------------------------------------------------------------------

static bool check_broadcast(struct arena *a) {
  bool good = true;
  for (int i = 0; i < a->n_pes; ++i) {
    fill_pattern(a->source, a->bytes, a->me, i);
    memset(a->target, 0x5a, a->bytes);
    shmem_barrier_all();
    broadcast(a, 1);
    // The active-set routine leaves the root's target alone.
    if (HAVE_TEAMS || a->me != broadcast_root)
      good = good && has_pattern(a->target, a->bytes, broadcast_root, i);
    shmem_barrier_all();
  }
  return good;
}

static bool check_blocks(struct arena *a, void (*one)(struct arena *, size_t), bool personal) {
  const size_t blocks = personal ? (size_t)a->n_pes : 1;
  for (size_t b = 0; b < blocks; ++b)
    fill_pattern(a->source + b * a->bytes, a->bytes, a->me, personal ? (int)b : 0);
  memset(a->target, 0x5a, a->bytes * (size_t)a->n_pes);
  shmem_barrier_all();
  one(a, 1);
  bool good = true;
  for (int pe = 0; pe < a->n_pes; ++pe)
    good =
        good && has_pattern(a->target + (size_t)pe * a->bytes, a->bytes, pe, personal ? a->me : 0);
  shmem_barrier_all();
  return good;
}

static bool check_fcollect(struct arena *a) {
  return check_blocks(a, fcollect, false);
}
static bool check_collect(struct arena *a) {
  return check_blocks(a, collect, false);
}
static bool check_alltoall(struct arena *a) {
  return check_blocks(a, alltoall, true);
}

static bool check_alltoalls(struct arena *a) {
  long *to = (long *)a->target, *from = (long *)a->source;
  const size_t words = WORDS, n = (size_t)a->n_pes, me = (size_t)a->me;
  for (size_t i = 0; i < 2 * n * words; ++i) {
    from[i] = (long)(me * 1000003 + i);
    to[i] = -1;
  }
  shmem_barrier_all();
  alltoalls(a, 1);
  bool good = true;
  for (size_t pe = 0; pe < n; ++pe)
    for (size_t i = 0; i < words; ++i) {
      const size_t at = 2 * (pe * words + i);
      good = good && to[at] == (long)(pe * 1000003 + 2 * (me * words + i)) && to[at + 1] == -1;
    }
  shmem_barrier_all();
  return good;
}

// PE pe's operand for element i of a reduction: small, so that sums and products are exact.
static long given(int pe, size_t i) {
  return (long)((i * 7 + (size_t)pe * 3) % 11) + 1;
}

static long combine(char op, long a, long b) {
  switch (op) {
  case '*':
    return a * b;
  case '>':
    return a > b ? a : b;
  case '<':
    return a < b ? a : b;
  case '&':
    return a & b;
  case '|':
    return a | b;
  case '^':
    return a ^ b;
  default:
    return a + b;
  }
}

// PEs [0, last] make the expected value; no PE makes 0, as an exclusive scan has it.
static long expected(char op, int last, size_t i) {
  long value = 0;
  for (int pe = 0; pe <= last; ++pe)
    value = pe == 0 ? given(0, i) : combine(op, value, given(pe, i));
  return value;
}

static bool check_longs(struct arena *a, void (*one)(struct arena *, size_t), char op, int last) {
  long *to = (long *)a->target, *from = (long *)a->source;
  for (size_t i = 0; i < WORDS; ++i) from[i] = given(a->me, i), to[i] = -1;
  shmem_barrier_all();
  one(a, 1);
  bool good = true;
  for (size_t i = 0; i < WORDS; ++i) good = good && to[i] == expected(op, last, i);
  shmem_barrier_all();
  return good;
}

static bool check_doubles(struct arena *a, void (*one)(struct arena *, size_t), char op) {
  double *to = (double *)a->target, *from = (double *)a->source;
  // Products of powers of two are exact for any number of PEs that fits the exponent.
  for (size_t i = 0; i < WORDS; ++i)
    from[i] = op == '*' ? ((i + (size_t)a->me) % 3 ? 1 : 2) : (double)given(a->me, i);
  memset(to, 0, a->bytes);
  shmem_barrier_all();
  one(a, 1);
  bool good = true;
  for (size_t i = 0; i < WORDS; ++i) {
    double product = 1;
    for (int pe = 0; pe < a->n_pes; ++pe) product *= (i + (size_t)pe) % 3 ? 1 : 2;
    good = good && to[i] == (op == '*' ? product : (double)expected(op, a->n_pes - 1, i));
  }
  shmem_barrier_all();
  return good;
}

static bool check_sum_float(struct arena *a) {
  float *to = (float *)a->target, *from = (float *)a->source;
  for (size_t i = 0; i < 2 * WORDS; ++i) from[i] = (float)given(a->me, i), to[i] = -1;
  shmem_barrier_all();
  sum_float(a, 1);
  bool good = true;
  for (size_t i = 0; i < 2 * WORDS; ++i)
    good = good && to[i] == (float)expected('+', a->n_pes - 1, i);
  shmem_barrier_all();
  return good;
}

#define CHECK_LONGS(name, op)                                                                      \
  static bool check_##name(struct arena *a) {                                                      \
    return check_longs(a, name, op, a->n_pes - 1);                                                 \
  }

CHECK_LONGS(sum_long, '+')
CHECK_LONGS(max_long, '>')
CHECK_LONGS(min_long, '<')
CHECK_LONGS(and_long, '&')
CHECK_LONGS(or_long, '|')
CHECK_LONGS(xor_long, '^')
static bool check_sum_double(struct arena *a) {
  return check_doubles(a, sum_double, '+');
}
static bool check_prod_double(struct arena *a) {
  return check_doubles(a, prod_double, '*');
}
#if HAVE_SCANS
static bool check_inscan(struct arena *a) {
  return check_longs(a, inscan, '+', a->me);
}
static bool check_exscan(struct arena *a) {
  return check_longs(a, exscan, '+', a->me - 1);
}
#endif

static size_t each(size_t bytes, int n_pes) {
  return bytes * (size_t)n_pes;
}
static size_t twice_each(size_t bytes, int n_pes) {
  return 2 * bytes * (size_t)n_pes;
}
// SIZE_MAX: it does not fit at all.
static size_t reduced(size_t bytes, int n_pes) {
  (void)n_pes;
  return coll_work_fits(bytes) ? bytes : SIZE_MAX;
}

#define COLL(n, f, ...)                                                                            \
  {                                                                                                \
    .group = "coll", .name = n, .kind = ALL, .sized = true, .run = f, .check = check_##f,          \
    __VA_ARGS__                                                                                    \
  }

// Not more lines in a panel than a reader tells apart.
#define MOVES .panel = "collectives, moving data"
#define SUMS .panel = "collectives, sums and products"
#define OTHERS .panel = "collectives, other reductions"

const struct test coll_tests[] = {
    COLL("broadcast", broadcast, MOVES, .reference = "copy to"),
    COLL("fcollect", fcollect, MOVES, .footprint = each),
    COLL("collect", collect, MOVES, .footprint = each),
    COLL("alltoall", alltoall, MOVES, .footprint = each),
    COLL("alltoalls stride 2", alltoalls, MOVES, .footprint = twice_each),
    COLL("sum double", sum_double, SUMS, .footprint = reduced),
    COLL("sum float", sum_float, SUMS, .footprint = reduced),
    COLL("sum long", sum_long, SUMS, .footprint = reduced),
    COLL("prod double", prod_double, SUMS, .footprint = reduced),
    COLL("max long", max_long, OTHERS, .footprint = reduced),
    COLL("min long", min_long, OTHERS, .footprint = reduced),
    COLL("and long", and_long, OTHERS, .footprint = reduced),
    COLL("or long", or_long, OTHERS, .footprint = reduced),
    COLL("xor long", xor_long, OTHERS, .footprint = reduced),
#if HAVE_SCANS
    COLL("sum_inscan long", inscan, SUMS, .footprint = reduced),
    COLL("sum_exscan long", exscan, SUMS, .footprint = reduced),
#endif
    {.name = NULL},
};
