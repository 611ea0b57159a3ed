// SPDX-License-Identifier: MIT
// Put and get of every kind, between any two places, against a copy of what must be there.
#include "heap.h"

static unsigned char before[ROOM], want[ROOM], data[ROOM], got[ROOM];
static const size_t sizes[] = {0, 1, 3, 4, 8, 17, 64, 1000, 4096, 100003};

// One transfer of n bytes with this PE's neighbours in a ring; both sides are misaligned by skew.
enum kind { PUT, GET, PUT_NBI, GET_NBI, CTX_PUT, CTX_GET_NBI, KINDS };

static void transfer(enum kind kind, shmem_ctx_t ctx, unsigned char *dest,
                     const unsigned char *source, size_t n, int pe) {
  switch (kind) {
  case PUT:
    shmem_putmem(dest, source, n, pe);
    break;
  case GET:
    shmem_getmem(dest, source, n, pe);
    break;
  case PUT_NBI:
    shmem_putmem_nbi(dest, source, n, pe);
    shmem_quiet();
    break;
  case GET_NBI:
    shmem_getmem_nbi(dest, source, n, pe);
    shmem_quiet();
    break;
  case CTX_PUT:
    shmem_ctx_uchar_put(ctx, dest, source, n, pe);
    break;
  default:
    shmem_ctx_uchar_get_nbi(ctx, dest, source, n, pe);
    shmem_ctx_quiet(ctx);
  }
}

static void check_bytes(enum place place, const unsigned char *p, size_t n, const char *what,
                        enum place other) {
  look_at(place, got, p, n);
  for (size_t i = 0; i < n; i++)
    CHECK(got[i] == want[i], "%s, %s with %s, %zu bytes: byte %zu is %u, want %u", what,
          place_names[place], place_names[other], n, i, got[i], want[i]);
}

static void contiguous(void) {
  shmem_ctx_t ctx;
  CHECK(shmem_ctx_create(0, &ctx) == 0, "ctx_create");
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  int round = 0;
  for (int a = 0; a < SYMMETRIC; a++)
    for (int b = 0; b < PLACES; b++)
      for (int kind = 0; kind < KINDS; kind++)
        for (size_t k = 0; k < COUNT(sizes); k++, round++) {
          const bool put = kind == PUT || kind == PUT_NBI || kind == CTX_PUT;
          const size_t n = sizes[k], skew = (size_t)round % 5;
          // The symmetric side at a peer is in a, the other here in b; all of dest is known before.
          unsigned char *dest = object[put ? a : b][0], *source = object[put ? b : a][1];
          make(before, n + 64, 99, round);
          fill(put ? (enum place)a : (enum place)b, dest, before, n + 64);
          make(data, n + 8, me, round);
          fill(put ? (enum place)b : (enum place)a, source, data, n + 8);
          shmem_barrier_all();
          transfer(kind, ctx, dest + skew, source + 3, n, right);
          shmem_barrier_all();
          memcpy(want, before, n + 64);
          make(data, n + 8, put ? left : right, round);
          memcpy(want + skew, data + 3, n);
          check_bytes(put ? (enum place)a : (enum place)b, dest, n + 64, put ? "put" : "get",
                      put ? (enum place)b : (enum place)a);
        }
  shmem_ctx_destroy(ctx);
}

#define ELEMENTS(T, NAME)                                                                          \
  static void NAME##_elements(void) {                                                              \
    const int right = (me + 1) % npes, left = (me + npes - 1) % npes;                              \
    for (int a = 0; a < SYMMETRIC; a++)                                                            \
      for (int b = 0; b < PLACES; b++) {                                                           \
        T *x = (T *)object[a][0], *y = (T *)object[b][1], v = (T)(me + 11), w = (T)(me + 22), r;   \
        shmem_barrier_all();                                                                       \
        shmem_##NAME##_p(x + 1, v, right);                                                         \
        fill((enum place)b, y, &w, sizeof w);                                                      \
        shmem_##NAME##_put(x + 2, y, 1, right);                                                    \
        shmem_barrier_all();                                                                       \
        CHECK(shmem_##NAME##_g(x + 1, me) == (T)(left + 11), "p, %s", place_names[a]);             \
        CHECK(shmem_##NAME##_g(x + 2, right) == (T)(me + 22), "put of one, %s from %s",            \
              place_names[a], place_names[b]);                                                     \
        shmem_##NAME##_get(y + 3, x + 1, 1, right);                                                \
        look_at((enum place)b, &r, y + 3, sizeof r);                                               \
        CHECK(r == v, "get of one, %s from %s", place_names[b], place_names[a]);                   \
        shmem_barrier_all();                                                                       \
      }                                                                                            \
  }
ELEMENTS(char, char)
ELEMENTS(short, short)
ELEMENTS(int, int)
ELEMENTS(double, double)
ELEMENTS(long double, longdouble)

// Strided ones move elements of 4 bytes and blocks of 3 of them.
static void strided(void) {
  enum { N = 40, BLOCK = 3, DST = 5, SST = 4 };
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  int32_t start[N * DST], mine[N * SST], theirs[N * SST], expect[N * DST], seen[N * DST];
  for (int a = 0; a < SYMMETRIC; a++)
    for (int b = 0; b < PLACES; b++)
      for (int form = 0; form < 4; form++) {
        const bool put = form == 0 || form == 2, blocks = form >= 2;
        const enum place to = (enum place)(put ? a : b), from = (enum place)(put ? b : a);
        int32_t *dest = (int32_t *)object[to][0], *source = (int32_t *)object[from][1];
        const int who = put ? left : right;
        for (int i = 0; i < N * DST; i++) start[i] = -i - 1;
        for (int i = 0; i < N * SST; i++) mine[i] = me * 1000 + i, theirs[i] = who * 1000 + i;
        fill(to, dest, start, sizeof start);
        fill(from, source, mine, sizeof mine);
        shmem_barrier_all();
        if (form == 0) shmem_int32_iput(dest, source, DST, SST, N, right);
        if (form == 1) shmem_int32_iget(dest, source, DST, SST, N, right);
        if (form == 2) shmem_int32_ibput(dest, source, DST, SST, BLOCK, N, right);
        if (form == 3) shmem_int32_ibget(dest, source, DST, SST, BLOCK, N, right);
        shmem_barrier_all();
        memcpy(expect, start, sizeof start);
        for (int i = 0; i < N; i++)
          for (int k = 0; k < (blocks ? BLOCK : 1); k++) expect[i * DST + k] = theirs[i * SST + k];
        look_at(to, seen, dest, sizeof seen);
        for (int i = 0; i < N * DST; i++)
          CHECK(seen[i] == expect[i], "form %d, %s from %s: element %d is %d, want %d", form,
                place_names[to], place_names[from], i, seen[i], expect[i]);
      }
}

// Many non-blocking ones, then one quiet; and fence between two to one place.
static void pipelined(void) {
  enum { N = 200 };
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  for (int a = 0; a < SYMMETRIC; a++) {
    long *dest = (long *)object[a][0], values[N];
    for (long i = 0; i < N; i++) values[i] = me * 10000 + i;
    for (int i = 0; i < N; i++) shmem_long_put_nbi(dest + i, values + i, 1, right);
    shmem_quiet();
    shmem_barrier_all();
    long seen[N];
    look_at((enum place)a, seen, dest, sizeof seen);
    for (long i = 0; i < N; i++)
      CHECK(seen[i] == left * 10000 + i, "%s: %ld is %ld", place_names[a], i, seen[i]);
    shmem_barrier_all();
    const long one = 1, two = 2;
    shmem_long_put_nbi(dest, &one, 1, right);
    shmem_fence();
    shmem_long_put_nbi(dest, &two, 1, right);
    shmem_barrier_all();
    CHECK(shmem_long_g(dest, me) == 2, "%s: fence", place_names[a]);
    shmem_barrier_all();
  }
}

// A context of a team counts in the team.
static void team_context(void) {
  shmem_team_t team;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &team) == 0 ||
            npes == 1,
        "split");
  if (npes == 1) return;
  shmem_ctx_t ctx;
  CHECK(shmem_team_create_ctx(team, 0, &ctx) == 0, "team_create_ctx");
  const int my = shmem_team_my_pe(team);
  CHECK(my == npes - 1 - me, "my_pe %d", my);
  for (int a = 0; a < SYMMETRIC; a++) {
    int *x = (int *)object[a][0];
    shmem_barrier_all();
    shmem_ctx_int_p(ctx, x, 70 + my, (my + 1) % npes);
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
    CHECK(shmem_ctx_int_g(ctx, x, my) == 70 + (my + npes - 1) % npes, "%s", place_names[a]);
    CHECK(shmem_ctx_int_atomic_fetch_add(ctx, x + 1, 0, my) == shmem_int_g(x + 1, me), "rank");
    shmem_barrier_all();
  }
  shmem_team_t of;
  CHECK(shmem_ctx_get_team(ctx, &of) == 0 && of == team, "ctx_get_team");
  shmem_ctx_destroy(ctx);
  shmem_team_destroy(team);
}

static const struct pe_test tests[] = {
    {"contiguous", contiguous},     {"elements of 1 byte", char_elements},
    {"2 bytes", short_elements},    {"4 bytes", int_elements},
    {"8 bytes", double_elements},   {"16 bytes", longdouble_elements},
    {"strided", strided},           {"pipelined", pipelined},
    {"team context", team_context},
};
const struct pe_list transfers = PE_LIST("transfers", tests);
