// SPDX-License-Identifier: MIT
// Collectives beyond what each type needs: sizes around the places where an algorithm may change,
// the same bits everywhere, rounds without pause.
#include "coll_common.h"
#include "typed.h"
#include <shmemx.h>
#include <unistd.h>

extern const struct pe_list coll_lists[], aset_lists[];
extern const size_t coll_count, aset_count;

static const size_t sizes_of[] = {1,     7,     8,      9,      31,     64,      65,
                                  200,   255,   256,    512,    1000,   1024,    2047,
                                  2048,  4096,  4100,   8192,   16384,  16391,   32768,
                                  65536, 65541, 131072, 262144, 524288, 1048576, 3145728 - 5};

static unsigned char byte(int pe, size_t i, size_t salt) {
  return (unsigned char)((size_t)pe * 61 + i * 7 + (i >> 8) * 3 + salt);
}

static void large(void) {
  const size_t max = 3145728 + 64;
  // fcollect and alltoall of up to 1 MiB in all on each PE
  unsigned char *source = shmem_malloc(max), *dest = shmem_malloc(max);
  CHECK(source && dest, "no memory");
  for (size_t k = 0; k < coll_nteams; k++) {
    const struct pe_team *t = &coll_teams[k];
    if (t->me < 0 || (k > 2 && k != 5)) continue;
    for (size_t l = 0; l < COUNT(sizes_of); l++) {
      const size_t n = sizes_of[l];
      const int root = (int)(l % (size_t)t->n);
      for (size_t i = 0; i < n; i++) source[i] = byte(t->me, i, l);
      memset(dest, 0xee, n + 1);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmem_broadcastmem(t->team, dest, source, n, root) == 0, "broadcast");
      for (size_t i = 0; i < n; i++)
        CHECK(dest[i] == byte(root, i, l), "broadcast of %zu on %s: [%zu]", n, t->name, i);
      CHECK(dest[n] == 0xee, "broadcast of %zu goes on", n);
      const size_t total = n * (size_t)t->n;
      if (total > max - 1) continue;
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      memset(dest, 0xee, total + 1);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmem_fcollectmem(t->team, dest, source, n) == 0, "fcollect");
      for (int pe = 0; pe < t->n; pe++)
        for (size_t i = 0; i < n; i++)
          CHECK(dest[(size_t)pe * n + i] == byte(pe, i, l), "fcollect of %zu on %s: %d [%zu]", n,
                t->name, pe, i);
      CHECK(dest[total] == 0xee, "fcollect of %zu goes on", n);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      for (size_t i = 0; i < total; i++) source[i] = byte(t->me, i, l + 1);
      memset(dest, 0xee, total + 1);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmem_alltoallmem(t->team, dest, source, n) == 0, "alltoall");
      for (int pe = 0; pe < t->n; pe++)
        for (size_t i = 0; i < n; i++)
          CHECK(dest[(size_t)pe * n + i] == byte(pe, (size_t)t->me * n + i, l + 1),
                "alltoall of %zu on %s: %d [%zu]", n, t->name, pe, i);
      CHECK(dest[total] == 0xee, "alltoall of %zu goes on", n);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      // collect with one large part
      const size_t mine = t->me == root ? n : n % 13;
      size_t at = 0;
      for (size_t i = 0; i < mine; i++) source[i] = byte(t->me, i, l + 2);
      memset(dest, 0xee, total + 1);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmem_collectmem(t->team, dest, source, mine) == 0, "collect");
      for (int pe = 0; pe < t->n; pe++)
        for (size_t i = 0; i < (pe == root ? n : n % 13); i++, at++)
          CHECK(dest[at] == byte(pe, i, l + 2), "collect of %zu on %s: %d [%zu]", n, t->name, pe,
                i);
      CHECK(dest[at] == 0xee, "collect of %zu goes on", n);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
    }
  }
  shmem_barrier_all();
  shmem_free(dest);
  shmem_free(source);
}

static void large_reduce(void) {
  static const size_t lens[] = {1,    15,   63,   64,    65,    127,   128,
                                129,  500,  511,  512,   1000,  1023,  1024,
                                2047, 2049, 4096, 16384, 65536, 65537, 393216 + 3};
  const size_t max = 393216 + 4;
  double *source = shmem_malloc(max * sizeof *source), *dest = shmem_malloc(max * sizeof *dest);
  CHECK(source && dest, "no memory");
  for (size_t k = 0; k < coll_nteams; k++) {
    const struct pe_team *t = &coll_teams[k];
    if (t->me < 0 || k > 3) continue;
    for (size_t l = 0; l < COUNT(lens); l++) {
      const size_t n = lens[l];
      if (n > 20000 && k > 0) continue;
      const double want_pe = (double)t->n * (double)(t->n - 1) / 2;
      for (size_t i = 0; i < n; i++) source[i] = (double)t->me + (double)(i % 1000);
      dest[n < max ? n : 0] = -1;
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmem_double_sum_reduce(t->team, dest, source, n) == 0, "sum");
      for (size_t i = 0; i < n; i++)
        CHECK(dest[i] == want_pe + (double)t->n * (double)(i % 1000), "sum of %zu on %s: [%zu] %g",
              n, t->name, i, dest[i]);
      CHECK(shmem_double_max_reduce(t->team, source, source, n) == 0, "max");
      for (size_t i = 0; i < n; i++)
        CHECK(source[i] == (double)(t->n - 1) + (double)(i % 1000), "max of %zu on %s: [%zu] %g", n,
              t->name, i, source[i]);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
    }
  }
  shmem_barrier_all();
  shmem_free(dest);
  shmem_free(source);
}

// Sums of numbers of very different size depend on the order; all PEs must have the same bits all
// the same.
static void same_bits(void) {
  enum { N = 3000 };
  double *source = shmem_malloc(N * sizeof *source), *dest = shmem_malloc(N * sizeof *dest);
  uint64_t *ours = shmem_malloc(N * sizeof *ours), *first = shmem_malloc(N * sizeof *first);
  float *fsource = (float *)(void *)source, *fdest = (float *)(void *)dest;
  static const size_t lens[] = {1, 3, 8, 100, 1000, N};
  uint64_t seed = 99 + (uint64_t)me;
  for (size_t k = 0; k < coll_nteams; k++) {
    const struct pe_team *t = &coll_teams[k];
    if (t->me < 0) continue;
    for (size_t l = 0; l < 2 * COUNT(lens); l++) {
      const size_t n = lens[l / 2];
      const bool single = l & 1;
      for (size_t i = 0; i < n; i++) {
        const double v = ((double)(pe_random(&seed) >> 11) - 4e15) * (i % 3 ? 1e-12 : 1e7);
        if (single)
          fsource[i] = (float)v;
        else
          source[i] = v;
      }
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      const int rc = single ? shmem_float_sum_reduce(t->team, fdest, fsource, n)
                            : shmem_double_sum_reduce(t->team, dest, source, n);
      CHECK(rc == 0, "sum");
      memset(ours, 0, n * sizeof *ours);
      memcpy(ours, dest, n * (single ? sizeof *fdest : sizeof *dest));
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmem_uint64_broadcast(t->team, first, ours, n, 0) == 0, "broadcast");
      CHECK(memcmp(first, ours, n * sizeof *ours) == 0, "%s of %zu on %s: other bits than PE 0",
            single ? "float" : "double", n, t->name);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
    }
  }
  shmem_barrier_all();
  shmem_free(first);
  shmem_free(ours);
  shmem_free(dest);
  shmem_free(source);
}

// Hundreds of calls without anything between; a fast PE is rounds ahead of a slow one.
static void back_to_back(void) {
  enum { ROUNDS = 400 };
  long *in = shmem_calloc(8, sizeof *in), *out = shmem_calloc(ROUNDS * 4, sizeof *out);
  long *all = shmem_calloc((size_t)npes * ROUNDS, sizeof *all);
  shmem_barrier_all();
  const long rounds = npes > 4 ? ROUNDS / 4 : ROUNDS;
  for (long r = 0; r < rounds; r++) {
    in[0] = r + me;
    in[1] = -r;
    CHECK(shmem_long_broadcast(SHMEM_TEAM_WORLD, out + 4 * r, in, 1, (int)(r % npes)) == 0, "rc");
    in[0] = me ^ r;
    CHECK(shmem_long_fcollect(SHMEM_TEAM_WORLD, all + r * npes, in, 1) == 0, "rc");
    in[0] = r;
    CHECK(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, out + 4 * r + 1, in, 1) == 0, "rc");
    in[0] = me + 1;
    CHECK(shmem_long_sum_exscan(SHMEM_TEAM_WORLD, out + 4 * r + 2, in, 1) == 0, "rc");
  }
  for (long r = 0; r < rounds; r++) {
    CHECK(out[4 * r] == r + r % npes, "broadcast %ld", r);
    CHECK(out[4 * r + 1] == r * npes, "sum %ld", r);
    CHECK(out[4 * r + 2] == (long)me * (me + 1) / 2, "exscan %ld", r);
    for (long pe = 0; pe < npes; pe++) CHECK(all[r * npes + pe] == (pe ^ r), "fcollect %ld", r);
  }
  shmem_barrier_all();
  shmem_free(all);
  shmem_free(out);
  shmem_free(in);
}

// Broadcasts of all sizes with nothing between: each root goes on as soon as its source may change,
// and comes round to its places in the outbox many times while one PE is late. The team's share is
// used by one team after the other.
static void broadcasts_in_a_row(void) {
  static const size_t sizes[] = {8, 56, 57, 4, 128, 129, 1000, 8, 8, 3000, 8192, 8, 8193, 0, 20000};
  enum { CASTS = 300, ROOM = 20000 };
  unsigned char *source = shmem_malloc(ROOM), *dest = shmem_malloc(CASTS * 2048);
  for (int again = 0; again < 3; again++) {
    shmem_team_t team;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &team) == 0,
          "split");
    const int here = shmem_team_my_pe(team);
    size_t at[CASTS + 1] = {0};
    int casts = 0;
    for (; casts < CASTS; casts++) {
      const size_t n = sizes[(casts + casts / 40) % (int)COUNT(sizes)];
      if (at[casts] + n > CASTS * 2048) break;
      at[casts + 1] = at[casts] + n;
    }
    memset(dest, 0, CASTS * 2048);
    shmem_barrier_all();
    for (int r = 0; r < casts; r++) {
      const int root = r / 7 * 3 % npes;
      const size_t n = at[r + 1] - at[r];
      if (r % 50 == 20 && r / 50 % npes == me) usleep(3000);
      if (here == root)
        for (size_t i = 0; i < n; i++) source[i] = (unsigned char)(r * 7 + (int)i + again);
      CHECK(shmem_broadcastmem(team, dest + at[r], source, n, root) == 0, "rc");
      if (here == root) memset(source, 0xee, n);
    }
    for (int r = 0; r < casts; r++)
      for (size_t i = 0; i < at[r + 1] - at[r]; i++)
        CHECK(dest[at[r] + i] == (unsigned char)(r * 7 + (int)i + again),
              "broadcast %d of %zu bytes: byte %zu", r, at[r + 1] - at[r], i);
    shmem_barrier_all();
    shmem_team_destroy(team);
  }
  shmem_free(dest);
  shmem_free(source);
}

// Two teams that share PEs take turns; a team collective waits for its own members only.
static void other_teams(void) {
  if (npes < 3) return;
  static long in, out;
  for (int r = 0; r < 100; r++) {
    for (size_t k = 0; k < coll_nteams; k++) {
      const struct pe_team *t = &coll_teams[(k + (size_t)r) % coll_nteams];
      if (t->me < 0) continue;
      in = t->me + r;
      CHECK(shmem_long_sum_reduce(t->team, &out, &in, 1) == 0, "sum");
      CHECK(out == (long)t->n * (t->n - 1) / 2 + (long)r * t->n, "%s: %ld", t->name, out);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
    }
  }
}

static const struct pe_test start[] = {{"make teams", coll_make_teams}};
// A PE outside of the set returns at once, with nothing done: those inside come only when PE 0 has
// called everything. Programs rely on it; SHMEM_CHECK ends them.
static void outside(void) {
  if (npes < 2 || getenv("SHMEM_CHECK")) return;
  enum { N = 2 };
  static long psync[SHMEM_SYNC_SIZE], go, source[PE_MAX * N], dest[PE_MAX * N], sum[N], work[N + 1];
  const int start = 1, size = npes - 1;
  for (size_t i = 0; i < COUNT(psync); i++) psync[i] = SHMEM_SYNC_VALUE;
  for (size_t i = 0; i < COUNT(dest); i++) source[i] = me, dest[i] = -1;
  go = 0;
  shmem_barrier_all();
  if (me == 0) {
    shmem_barrier(start, 0, size, psync);
    shmem_sync(start, 0, size, psync);
    shmem_broadcast32(dest, source, N, 0, start, 0, size, psync);
    shmem_broadcast64(dest, source, N, 0, start, 0, size, psync);
    shmem_collect32(dest, source, N, start, 0, size, psync);
    shmem_collect64(dest, source, N, start, 0, size, psync);
    shmem_fcollect32(dest, source, N, start, 0, size, psync);
    shmem_fcollect64(dest, source, N, start, 0, size, psync);
    shmem_alltoall32(dest, source, N, start, 0, size, psync);
    shmem_alltoall64(dest, source, N, start, 0, size, psync);
    shmem_alltoalls32(dest, source, 1, 1, N, start, 0, size, psync);
    shmem_alltoalls64(dest, source, 1, 1, N, start, 0, size, psync);
    shmem_long_sum_to_all(dest, source, N, start, 0, size, work, psync);
    shmem_long_prod_to_all(dest, source, N, start, 0, size, work, psync);
    shmem_long_min_to_all(dest, source, N, start, 0, size, work, psync);
    shmem_long_max_to_all(dest, source, N, start, 0, size, work, psync);
    shmem_long_and_to_all(dest, source, N, start, 0, size, work, psync);
    shmem_long_or_to_all(dest, source, N, start, 0, size, work, psync);
    shmem_long_xor_to_all(dest, source, N, start, 0, size, work, psync);
    for (size_t i = 0; i < COUNT(dest); i++) CHECK(dest[i] == -1, "[%zu] = %ld", i, dest[i]);
    for (int pe = 0; pe < npes; pe++) shmem_long_p(&go, 1, pe);
  } else {
    shmem_long_wait_until(&go, SHMEM_CMP_EQ, 1);
    shmem_barrier(start, 0, size, psync);
    shmem_fcollect64(dest, source, N, start, 0, size, psync);
    shmem_long_sum_to_all(sum, source, N, start, 0, size, work, psync);
    for (int i = 0; i < size * N; i++) CHECK(dest[i] == start + i / N, "[%d] = %ld", i, dest[i]);
    CHECK(sum[0] == (long)npes * (npes - 1) / 2, "%ld", sum[0]);
  }
  shmem_barrier_all();
}

// The root's dest is its source, of all sizes at which the algorithm changes; others receive.
static void in_place(void) {
  enum { N = 1 << 17 };
  static unsigned char data[N];
  for (size_t n = 1; n <= N; n *= 2)
    for (int root = 0; root<npes; root += npes> 2 ? npes - 1 : 1) {
      for (size_t i = 0; i < n; i++) data[i] = byte(me, i, n);
      shmem_barrier_all();
      CHECK(shmem_broadcastmem(SHMEM_TEAM_WORLD, data, data, n, root) == 0, "broadcast");
      for (size_t i = 0; i < n; i++)
        CHECK(data[i] == byte(root, i, n), "%zu bytes from %d: [%zu]", n, root, i);
      shmem_barrier_all();
    }
}

// A member's block for another, in units: nothing here and there, nothing at all from one of them,
// a lot from another; and its place in source.
static size_t units_of(int from, int to, int round) {
  return (from + round) % 4 == 1   ? 0
         : (from + round) % 4 == 3 ? (size_t)(to + 1) * 700
                                   : (size_t)((from * 5 + to * 3 + round) % 17);
}
static size_t offset_of(int from, int to, int round) {
  size_t at = 0;
  for (int i = 0; i < to; i++) at += units_of(from, i, round) + 1;
  return at;
}
// Without a barrier from round to round, in some of which one member has a unit too little room.
static void uneven(void) {
  enum { most = 24 }; // bytes of a unit
  const size_t max = (size_t)(npes + 2) * (size_t)(npes + 2) * 700 * most;
  unsigned char *source = shmem_malloc(max), *dest = shmem_malloc(max);
  CHECK(source && dest, "no memory");
  static size_t counts[PE_MAX], offsets[PE_MAX], got_counts[PE_MAX], got_offsets[PE_MAX + 1];
  for (size_t k = 0; k < coll_nteams; k++) {
    const struct pe_team *t = &coll_teams[k];
    for (int round = 0; t->me >= 0 && round < 12; round++) {
      const size_t unit = round % 3 ? (size_t)(round % 3 * 12) : sizeof(int);
      size_t total = 0;
      for (int i = 0; i < t->n; i++) {
        counts[i] = units_of(t->me, i, round), offsets[i] = offset_of(t->me, i, round);
        total += units_of(i, t->me, round);
      }
      for (size_t i = 0; i < offset_of(t->me, t->n, round) * unit; i++)
        source[i] = byte(t->me, i, (size_t)round);
      const size_t capacity = total && (t->me + round) % 3 == 0 ? total - 1 : total;
      memset(dest, 0xee, (total + 1) * unit);
      const int rc = unit == sizeof(int)
                         ? shmemx_alltoallv(t->team, (int *)dest, got_counts, got_offsets, capacity,
                                            (const int *)source, counts, offsets)
                         : shmemx_alltoallvmem(t->team, dest, got_counts, got_offsets, capacity,
                                               source, counts, offsets, unit);
      CHECK(rc == 0, "alltoallv");
      CHECK(got_offsets[t->n] == total, "alltoallv on %s: %zu units, want %zu", t->name,
            got_offsets[t->n], total);
      size_t end = 0;
      for (int m = 0; m < t->n; m++) {
        const size_t n = units_of(m, t->me, round), from = offset_of(m, t->me, round) * unit;
        CHECK(got_counts[m] == n && got_offsets[m] == end, "alltoallv on %s: %zu at %zu from %d",
              t->name, got_counts[m], got_offsets[m], m);
        for (size_t i = 0; i < n * unit; i++)
          CHECK(dest[end * unit + i] ==
                    (end + n <= capacity ? byte(m, from + i, (size_t)round) : 0xee),
                "alltoallv on %s, round %d: %zu units of %zu from %d, room for %zu of %zu: [%zu]",
                t->name, round, n, unit, m, capacity, total, i);
        end += n;
      }
      for (size_t i = 0; i < unit; i++)
        CHECK(dest[total * unit + i] == 0xee, "alltoallv on %s goes on", t->name);
    }
  }
  shmem_barrier_all();
  shmem_free(dest);
  shmem_free(source);
}

// Rows of all members' columns become columns of all rows, and these are rows again.
static void transposed(void) {
  enum { rows = 5, most = 300 };
  static int mine[PE_MAX * rows * most], all[PE_MAX * rows * most], back[PE_MAX * rows * most];
  for (size_t k = 0; k < coll_nteams; k++) {
    const struct pe_team *t = &coll_teams[k];
    for (int n = 1; t->me >= 0 && n <= most; n += n == 1 ? 6 : 293) {
      const int row = t->n * n;
      for (int i = 0; i < rows * row; i++) mine[i] = 100000 * t->me + i, back[i] = -1;
      memset(all, 0xee, sizeof all);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmemx_alltoall2d(t->team, all, mine, rows * n, n, n, row, (size_t)n, rows) == 0,
            "alltoall2d");
      for (int m = 0; m < t->n; m++)
        for (int i = 0; i < rows * n; i++)
          CHECK(all[m * rows * n + i] == 100000 * m + i / n * row + t->me * n + i % n,
                "alltoall2d of %d on %s: [%d] of %d is %d", n, t->name, i, m,
                all[m * rows * n + i]);
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      CHECK(shmemx_alltoall2dmem(t->team, back, all, 4 * n, 4 * row, 4 * rows * n, 4 * n,
                                 4 * (size_t)n, rows) == 0,
            "alltoall2d");
      CHECK(memcmp(back, mine, sizeof(int) * (size_t)(rows * row)) == 0,
            "alltoall2d of %d on %s, there and back", n, t->name);
    }
  }
}

static const struct pe_test tests[] = {{"large sizes", large},
                                       {"alltoallv", uneven},
                                       {"alltoall2d", transposed},
                                       {"large reductions", large_reduce},
                                       {"the same bits on all PEs", same_bits},
                                       {"outside an active set", outside},
                                       {"broadcast in place", in_place},
                                       {"back to back", back_to_back},
                                       {"broadcasts in a row", broadcasts_in_a_row},
                                       {"teams in turns", other_teams},
                                       {"free teams", coll_free_teams}};

int main(void) {
  struct pe_list all[96] = {PE_LIST("", start)};
  size_t n = 1;
  for (size_t i = 0; i < coll_count; i++) all[n++] = coll_lists[i];
  for (size_t i = 0; i < aset_count; i++) all[n++] = aset_lists[i];
  all[n++] = (struct pe_list)PE_LIST("", tests);
  return pe_run("collectives", all, n);
}
