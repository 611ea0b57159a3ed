// SPDX-License-Identifier: MIT
// Teams from lists: any order, gaps, splits of them, contexts, overlap, life and death.
#include "typed.h"
#include <shmemx.h>
#include <unistd.h>

// The k-th order of all PEs: each k shuffles them in another way, the same on all PEs.
static void shuffle(int *pes, int n, unsigned k) {
  for (int i = 0; i < n; i++) pes[i] = i;
  for (int i = n - 1; i > 0; i--) {
    k = k * 1664525 + 1013904223;
    const int j = (int)((k >> 8) % (unsigned)(i + 1)), was = pes[i];
    pes[i] = pes[j], pes[j] = was;
  }
}
static int find(const int *pes, int n, int pe) {
  for (int i = 0; i < n; i++)
    if (pes[i] == pe) return i;
  return -1;
}
static shmem_team_t make(const int *pes, int n) {
  shmem_team_t t = SHMEM_TEAM_INVALID;
  CHECK(shmemx_team_create(SHMEM_TEAM_WORLD, pes, n, NULL, 0, &t) == 0, "create");
  CHECK(t != SHMEM_TEAM_INVALID, "handle");
  return t;
}

// The facts of a team from a list, and its collectives, of few and of many bytes. pes has the
// members in the world.
enum { most = 5000 };
static long *source, *dest; // most * npes each
static void use(shmem_team_t t, const int *pes, int n) {
  const int at = find(pes, n, me);
  CHECK(shmem_team_my_pe(t) == at && shmem_team_n_pes(t) == n, "%d of %d", shmem_team_my_pe(t),
        shmem_team_n_pes(t));
  for (int i = 0; i < n; i++)
    CHECK(shmem_team_translate_pe(t, i, SHMEM_TEAM_WORLD) == pes[i], "member %d", i);
  for (int pe = 0; pe < npes; pe++)
    CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, t) == find(pes, n, pe), "PE %d", pe);
  const size_t sizes[] = {1, 3, 40, 700, most};
  for (size_t s = 0; s < COUNT(sizes); s++) {
    const size_t m = sizes[s];
    for (size_t k = 0; k < m * (size_t)n; k++) source[k] = 1000 * at + (long)k;
    shmem_team_sync(t);
    shmem_long_fcollect(t, dest, source, m);
    for (size_t i = 0; i < (size_t)n; i++)
      for (size_t k = 0; k < m; k++)
        CHECK(dest[i * m + k] == 1000 * (long)i + (long)k, "fcollect of %zu: [%zu][%zu] = %ld", m,
              i, k, dest[i * m + k]);
    shmem_team_sync(t);
    shmem_long_alltoall(t, dest, source, m);
    for (size_t i = 0; i < (size_t)n; i++)
      for (size_t k = 0; k < m; k++)
        CHECK(dest[i * m + k] == 1000 * (long)i + (long)((size_t)at * m + k),
              "alltoall of %zu: [%zu][%zu] = %ld", m, i, k, dest[i * m + k]);
    shmem_team_sync(t);
    const int root = n / 2;
    memset(dest, -1, m * sizeof *dest);
    shmem_team_sync(t);
    shmem_long_broadcast(t, dest, source, m, root);
    for (size_t k = 0; k < m; k++)
      CHECK(dest[k] == 1000 * root + (long)k, "broadcast of %zu: [%zu] = %ld", m, k, dest[k]);
    shmem_team_sync(t);
    shmem_long_sum_reduce(t, dest, source, m);
    for (size_t k = 0; k < m; k++)
      CHECK(dest[k] == 500l * n * (n - 1) + n * (long)k, "sum of %zu: [%zu] = %ld", m, k, dest[k]);
    shmem_team_sync(t);
    shmem_long_sum_exscan(t, dest, source, m);
    for (size_t k = 0; k < m; k++)
      CHECK(dest[k] == 500l * at * (at - 1) + at * (long)k, "exscan of %zu: [%zu] = %ld", m, k,
            dest[k]);
    shmem_team_sync(t);
    // Of blocks whose sizes differ.
    const size_t mine = m / (size_t)(at + 1);
    shmem_long_collect(t, dest, source, mine);
    for (size_t i = 0, from = 0; i < (size_t)n; from += m / ++i)
      for (size_t k = 0; k < m / (i + 1); k++)
        CHECK(dest[from + k] == 1000 * (long)i + (long)k, "collect of %zu: %zu of %zu is %ld", m, k,
              i, dest[from + k]);
    shmem_team_sync(t);
    const size_t half = m / 2;
    shmem_long_alltoalls(t, dest, source, 2, 1, half);
    for (size_t i = 0; i < (size_t)n; i++)
      for (size_t k = 0; k < half; k++)
        CHECK(dest[2 * (i * half + k)] == 1000 * (long)i + (long)((size_t)at * half + k),
              "alltoalls of %zu: %zu of %zu is %ld", half, k, i, dest[2 * (i * half + k)]);
    shmem_team_sync(t);
  }
  // A context's PEs are those of the team.
  shmem_ctx_t c = SHMEM_CTX_INVALID;
  CHECK(shmem_team_create_ctx(t, 0, &c) == 0, "create_ctx");
  shmem_ctx_long_p(c, dest + at, at, (at + 1) % n);
  shmem_ctx_quiet(c);
  shmem_team_sync(t);
  const int before = (at + n - 1) % n;
  CHECK(dest[before] == before, "p gave %ld", dest[before]);
  CHECK(shmem_ctx_long_g(c, dest + at, (at + 1) % n) == at, "g");
  CHECK(shmem_ctx_long_atomic_fetch(c, dest + at, (at + 1) % n) == at, "fetch");
  shmem_team_t again = SHMEM_TEAM_INVALID;
  CHECK(shmem_ctx_get_team(c, &again) == 0 && again == t, "get_team");
  shmem_team_sync(t);
  shmem_ctx_destroy(c);
}

static void shuffled(void) {
  int *pes = malloc((size_t)npes * sizeof *pes);
  for (unsigned k = 0; k < 4; k++) {
    shuffle(pes, npes, k);
    shmem_team_t t = make(pes, npes);
    use(t, pes, npes);
    shmem_team_destroy(t);
  }
  free(pes);
}

// The other PEs do not call, and go on.
static void gaps(void) {
  int *pes = malloc((size_t)npes * sizeof *pes);
  for (unsigned k = 0; k < 8; k++)
    for (int n = 1; n <= npes; n += 1 + npes / 3) {
      shuffle(pes, npes, 77 + k);
      if (find(pes, n, me) < 0) continue;
      shmem_team_t t = make(pes, n);
      use(t, pes, n);
      shmem_team_destroy(t);
    }
  free(pes);
}

static void one_alone(void) {
  shmem_team_t t = make(&me, 1);
  use(t, &me, 1);
  shmem_team_destroy(t);
}

// Lists of a parent that has a list itself, and splits of it: the numbers are the parent's.
static void nested(void) {
  int *pes = malloc(3 * (size_t)npes * sizeof *pes), *inner = pes + npes, *world = inner + npes;
  shuffle(pes, npes, 5);
  shmem_team_t parent = make(pes, npes), t = SHMEM_TEAM_INVALID, x, y;
  const int at = shmem_team_my_pe(parent), n = (npes + 1) / 2;
  shuffle(inner, npes, 6);
  for (int i = 0; i < npes; i++) world[i] = pes[inner[i]];
  if (find(inner, n, at) >= 0) {
    CHECK(shmemx_team_create(parent, inner, n, NULL, 0, &t) == 0, "create");
    use(t, world, n);
    shmem_team_destroy(t);
  }
  // Backwards, by twos.
  CHECK(shmem_team_split_strided(parent, npes - 1, -2, n, NULL, 0, &t) == 0, "split");
  for (int i = 0; i < n; i++) world[i] = pes[npes - 1 - 2 * i];
  CHECK((t != SHMEM_TEAM_INVALID) == (find(world, n, me) >= 0), "member of the split");
  if (t != SHMEM_TEAM_INVALID) {
    use(t, world, n);
    shmem_team_t half = SHMEM_TEAM_INVALID; // a split of the split
    const int m = (n + 1) / 2;
    CHECK(shmem_team_split_strided(t, 0, 2, m, NULL, 0, &half) == 0, "split");
    for (int i = 0; i < m; i++) world[i] = pes[npes - 1 - 4 * i];
    if (half != SHMEM_TEAM_INVALID) use(half, world, m);
    shmem_team_destroy(half);
  }
  shmem_team_destroy(t);
  const int range = npes > 2 ? 3 : 1, row = at / range, column = at % range;
  CHECK(shmem_team_split_2d(parent, range, NULL, 0, &x, NULL, 0, &y) == 0, "split_2d");
  int k = 0;
  for (int i = row * range; i < npes && i < (row + 1) * range; i++) world[k++] = pes[i];
  use(x, world, k);
  k = 0;
  for (int i = column; i < npes; i += range) world[k++] = pes[i];
  use(y, world, k);
  shmem_team_destroy(x);
  shmem_team_destroy(y);
  shmem_team_destroy(parent);
  free(pes);
}

// Each PE with its neighbours in a ring: PE i makes teams i - 1 and i, the last PE the other way
// round, so that no PE waits for itself. All teams live at once.
static void overlapping(void) {
  if (npes < 3) return;
  shmem_team_t t[2];
  int pes[2][2];
  for (int k = 0; k < 2; k++) {
    const int left = (me + npes - (me == npes - 1 ? k : 1 - k)) % npes;
    pes[k][0] = (left + 1) % npes, pes[k][1] = left;
    t[k] = make(pes[k], 2);
  }
  for (int i = 0; i < 20; i++)
    for (int k = 0; k < 2; k++) shmem_team_sync(t[k]);
  use(t[0], pes[0], 2);
  use(t[1], pes[1], 2);
  shmem_team_destroy(t[0]);
  shmem_team_destroy(t[1]);
}

// Two orders of the same PEs are two teams.
static void orders(void) {
  int *pes = malloc((size_t)npes * sizeof *pes);
  shmem_team_t t[3];
  for (unsigned k = 0; k < 3; k++) {
    shuffle(pes, npes, k);
    t[k] = make(pes, npes);
  }
  for (unsigned k = 0; k < 3; k++) {
    shuffle(pes, npes, k);
    use(t[k], pes, npes);
    shmem_team_destroy(t[k]);
  }
  free(pes);
}

// No share is lost: a node has room for 1024.
static void many(void) {
  int *pes = malloc((size_t)npes * sizeof *pes);
  for (unsigned k = 0; k < 2000; k++) {
    shuffle(pes, npes, k % 7);
    const int n = 1 + (int)(k % (unsigned)npes);
    if (find(pes, n, me) < 0) continue;
    shmem_team_t t = make(pes, n);
    if (k % 3 == 0) shmem_team_sync(t);
    shmem_team_destroy(t);
  }
  free(pes);
}

// Where there is no room, all members hear so, and the next one that has room is made.
static void too_many(void) {
  int *pes = malloc((size_t)npes * sizeof *pes);
  static shmem_team_t t[1100];
  shuffle(pes, npes, 3);
  int n = 0;
  while (n < 1100 && shmemx_team_create(SHMEM_TEAM_WORLD, pes, npes, NULL, 0, &t[n]) == 0) n++;
  CHECK(n >= 1000 && n <= 1022, "%d teams", n);
  CHECK(t[n] == SHMEM_TEAM_INVALID, "handle");
  for (int i = 0; i < 100; i++)
    CHECK(shmemx_team_create(SHMEM_TEAM_WORLD, pes, npes, NULL, 0, &t[n]) != 0, "full");
  use(t[n - 1], pes, npes);
  for (int i = 0; i < n; i++) shmem_team_destroy(t[i]);
  shmem_barrier_all(); // the last member of each has left
  t[0] = make(pes, npes);
  use(t[0], pes, npes);
  shmem_team_destroy(t[0]);
  free(pes);
}

// A member that comes late holds its own team up, and no other: the others' reductions end before.
static void late(void) {
  if (npes < 3) return;
  shmem_barrier_all();
  int last[] = {npes - 1, 0}, others[] = {1, 0};
  if (me == npes - 1) usleep(300000);
  if (me < 2) { // while the late one sleeps
    shmem_team_t t = make(others, 2);
    use(t, others, 2);
    shmem_team_destroy(t);
  }
  if (me == 0 || me == npes - 1) {
    shmem_team_t t = make(last, 2);
    use(t, last, 2);
    shmem_team_destroy(t);
  }
}

static void config(void) {
  shmem_team_t t;
  shmem_team_config_t c = {3}, got = {0};
  CHECK(shmemx_team_create(SHMEM_TEAM_WORLD, &me, 1, &c, SHMEM_TEAM_NUM_CONTEXTS, &t) == 0,
        "create");
  CHECK(shmem_team_get_config(t, SHMEM_TEAM_NUM_CONTEXTS, &got) == 0 && got.num_contexts == 3, "%d",
        got.num_contexts);
  shmem_team_destroy(t);
}

// A buffer that the team's members have, and others do not.
static void buffers(void) {
  int *pes = malloc((size_t)npes * sizeof *pes);
  shuffle(pes, npes, 9);
  const int n = (npes + 1) / 2, at = find(pes, n, me);
  if (at >= 0) {
    shmem_team_t t = make(pes, n);
    long *mine = calloc(512, sizeof *mine);
    shmemx_buffer_t handle;
    shmemx_team_buffer_register(t, mine, 512 * sizeof *mine, &handle);
    shmem_long_p(mine + 7, 100 + at, pes[(at + 1) % n]);
    shmem_quiet();
    shmem_team_sync(t);
    CHECK(mine[7] == 100 + (at + n - 1) % n, "%ld", mine[7]);
    for (int i = 0; i < 100; i++) mine[i] = at + i;
    shmem_team_sync(t);
    shmem_long_sum_reduce(t, mine + 200, mine, 100);
    for (int i = 0; i < 100; i++)
      CHECK(mine[200 + i] == n * (n - 1) / 2 + (long)n * i, "%ld", mine[200 + i]);
    shmemx_buffer_unregister(handle);
    shmem_team_destroy(t);
    free(mine);
  }
  free(pes);
}

static const struct pe_test tests[] = {{"a PE alone", one_alone},
                                       {"shuffled", shuffled},
                                       {"gaps", gaps},
                                       {"nested", nested},
                                       {"overlapping", overlapping},
                                       {"two orders", orders},
                                       {"many", many},
                                       {"too many", too_many},
                                       {"one late", late},
                                       {"configuration", config},
                                       {"buffers", buffers}};

int main(void) {
  shmem_init();
  const size_t bytes = (size_t)most * (size_t)shmem_n_pes() * sizeof *source;
  source = shmem_malloc(bytes), dest = shmem_malloc(2 * bytes);
  const struct pe_list all = PE_LIST("", tests);
  const int rc = pe_run_tests("teams from lists", &all, 1);
  shmem_finalize();
  return rc;
}
