// SPDX-License-Identifier: MIT
// Teams: membership, invalid handles, splits of splits, configurations, life and death.
#include "typed.h"

static void predefined(void) {
  CHECK(shmem_team_n_pes(SHMEM_TEAM_WORLD) == npes, "n_pes");
  CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me, "my_pe");
  const int shared = shmem_team_n_pes(SHMEM_TEAM_SHARED);
  CHECK(shared >= 1 && shared <= npes, "%d", shared);
  const int mine = shmem_team_my_pe(SHMEM_TEAM_SHARED);
  CHECK(mine >= 0 && mine < shared, "%d", mine);
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_SHARED, mine, SHMEM_TEAM_WORLD) == me, "translate");
  long *heap = shmem_calloc(2, sizeof *heap);
  for (int i = 0; i < shared; i++) { // members can reach each other by load and store
    const int pe = shmem_team_translate_pe(SHMEM_TEAM_SHARED, i, SHMEM_TEAM_WORLD);
    CHECK(pe >= 0 && pe < npes, "%d", pe);
    CHECK(shmem_ptr(heap, pe) && shmem_ptr(heap, pe) == shmem_team_ptr(SHMEM_TEAM_SHARED, heap, i),
          "PE %d of the shared team", i);
  }
  // and the team can do collectives
  heap[0] = 1;
  CHECK(shmem_long_sum_reduce(SHMEM_TEAM_SHARED, heap + 1, heap, 1) == 0, "sum");
  CHECK(heap[1] == shared, "%ld", heap[1]);
  shmem_barrier_all();
  shmem_free(heap);
}

static void invalid(void) {
  CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1, "my_pe");
  CHECK(shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1, "n_pes");
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1, "translate");
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID) == -1, "translate");
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_INVALID) == -1, "translate");
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, SHMEM_TEAM_WORLD) == me, "translate");
  shmem_team_config_t config = {77};
  CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &config) != 0, "config");
  CHECK(config.num_contexts == 77, "no action");
  shmem_team_t a = SHMEM_TEAM_WORLD, b = SHMEM_TEAM_WORLD;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &a) != 0, "split_strided");
  CHECK(a == SHMEM_TEAM_INVALID, "handle");
  a = SHMEM_TEAM_WORLD;
  CHECK(shmem_team_split_2d(SHMEM_TEAM_INVALID, 1, NULL, 0, &a, NULL, 0, &b) != 0, "split_2d");
  CHECK(a == SHMEM_TEAM_INVALID && b == SHMEM_TEAM_INVALID, "handles");
  shmem_ctx_t c = SHMEM_CTX_DEFAULT;
  CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &c) != 0, "create_ctx");
  CHECK(c == SHMEM_CTX_INVALID, "ctx");
  shmem_team_destroy(SHMEM_TEAM_INVALID);
  static int object;
  CHECK(shmem_team_ptr(SHMEM_TEAM_INVALID, &object, 0) == NULL, "team_ptr");
}

// Wrong triplets: no team, nonzero on all PEs, and the parent lives on.
static void bad_splits(void) {
  const int bad[][3] = {{0, 1, npes + 1},  {1, 1, npes}, {0, -1, 2},      {npes - 1, 1, 2},
                        {npes, 1, 1},      {-1, 1, 1},   {0, 1, 0},       {0, 1, -1},
                        {0, 0, 2},         {0, npes, 2}, {0, 1 << 30, 4}, {npes - 1, -npes, 2},
                        {0, -(1 << 30), 4}};
  for (size_t k = 0; k < COUNT(bad); k++) {
    shmem_team_t t = SHMEM_TEAM_WORLD;
    const int rc =
        shmem_team_split_strided(SHMEM_TEAM_WORLD, bad[k][0], bad[k][1], bad[k][2], NULL, 0, &t);
    CHECK(rc != 0 && t == SHMEM_TEAM_INVALID, "%d:%d:%d gives %d", bad[k][0], bad[k][1], bad[k][2],
          rc);
  }
  shmem_team_t x = SHMEM_TEAM_WORLD, y = SHMEM_TEAM_WORLD;
  for (int range = -1; range < 1; range++) {
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, range, NULL, 0, &x, NULL, 0, &y) != 0, "%d", range);
    CHECK(x == SHMEM_TEAM_INVALID && y == SHMEM_TEAM_INVALID, "handles");
  }
  // stride 0 with one member is a team
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, 0, 1, NULL, 0, &x) == 0, "stride 0");
  CHECK((x != SHMEM_TEAM_INVALID) == (me == npes - 1), "stride 0");
  CHECK(shmem_team_n_pes(x) == (me == npes - 1 ? 1 : -1), "stride 0");
  shmem_team_destroy(x);
}

static void members(void) {
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  for (size_t k = 0; k < n; k++) {
    const struct pe_team *t = &teams[k];
    CHECK(shmem_team_my_pe(t->team) == t->me, "%s: my_pe", t->name);
    CHECK(shmem_team_n_pes(t->team) == (t->me < 0 ? -1 : t->n), "%s: n_pes", t->name);
    for (int i = -1; i <= npes && t->me >= 0; i++) {
      int index = -1; // of world PE i in the team
      for (int j = 0; j < t->n; j++)
        if (t->pe[j] == i) index = j;
      if (i >= 0 && i < npes)
        CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, i, t->team) == index, "%s: %d", t->name, i);
      if (i >= 0 && i < t->n)
        CHECK(shmem_team_translate_pe(t->team, i, SHMEM_TEAM_WORLD) == t->pe[i], "%s: %d", t->name,
              i);
    }
    // between two teams: only PEs that are in both
    for (size_t l = 0; l < n; l++) {
      const struct pe_team *u = &teams[l];
      if (t->me < 0 || u->me < 0) continue;
      for (int i = 0; i < t->n; i++) {
        int want = -1;
        for (int j = 0; j < u->n; j++)
          if (u->pe[j] == t->pe[i]) want = j;
        CHECK(shmem_team_translate_pe(t->team, i, u->team) == want, "%s %d in %s", t->name, i,
              u->name);
      }
    }
  }
  pe_teams_free(teams, n);
}

static void use(shmem_team_t t) { // the team can work at once
  static long in, out;
  in = shmem_team_my_pe(t) + 1;
  const long n = shmem_team_n_pes(t);
  CHECK(shmem_long_sum_reduce(t, &out, &in, 1) == 0, "sum");
  CHECK(out == n * (n + 1) / 2, "sum %ld over %ld", out, n);
  CHECK(shmem_team_sync(t) == 0, "sync");
}

static void grid(void) {
  for (int range = 1; range <= npes + 2; range++) {
    shmem_team_t x, y;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, range, NULL, 0, &x, NULL, 0, &y) == 0, "%d", range);
    const int r = range > npes ? npes : range;
    const int col = me % r, row = me / r, rows = (npes + r - 1) / r;
    CHECK(shmem_team_my_pe(x) == col && shmem_team_my_pe(y) == row, "%d: %d %d", range,
          shmem_team_my_pe(x), shmem_team_my_pe(y));
    const int width = row < rows - 1 || npes % r == 0 ? r : npes % r; // the last row may be short
    const int height = col + (rows - 1) * r < npes ? rows : rows - 1;
    CHECK(shmem_team_n_pes(x) == width, "%d: x has %d", range, shmem_team_n_pes(x));
    CHECK(shmem_team_n_pes(y) == height, "%d: y has %d", range, shmem_team_n_pes(y));
    for (int i = 0; i < width; i++)
      CHECK(shmem_team_translate_pe(x, i, SHMEM_TEAM_WORLD) == row * r + i, "x %d", i);
    for (int i = 0; i < height; i++)
      CHECK(shmem_team_translate_pe(y, i, SHMEM_TEAM_WORLD) == i * r + col, "y %d", i);
    use(x);
    use(y);
    shmem_team_destroy(x);
    shmem_team_destroy(y);
  }
}

// Teams of teams of teams; parent and child at once, with nothing between.
static void nested(void) {
  for (int round = 0; round < 20; round++) {
    shmem_team_t chain[PE_MAX + 1] = {SHMEM_TEAM_WORLD};
    int depth = 0; // each child leaves out the first PE and turns the order round
    int pes[PE_MAX], n = npes;
    for (int i = 0; i < n; i++) pes[i] = i;
    while (n > 1) {
      const int rc =
          shmem_team_split_strided(chain[depth], n - 1, -1, n - 1, NULL, 0, &chain[depth + 1]);
      CHECK(rc == 0, "depth %d", depth);
      use(chain[depth]);
      for (int i = 0; i < n / 2; i++) {
        const int swap = pes[i];
        pes[i] = pes[n - 1 - i];
        pes[n - 1 - i] = swap;
      }
      n--;
      depth++;
      int index = -1;
      for (int i = 0; i < n; i++)
        if (pes[i] == me) index = i;
      CHECK(shmem_team_my_pe(chain[depth]) == index, "depth %d", depth);
      if (index < 0) break;
      for (int i = 0; i < n; i++)
        CHECK(shmem_team_translate_pe(chain[depth], i, SHMEM_TEAM_WORLD) == pes[i],
              "depth %d: %d is PE %d", depth, i, pes[i]);
      use(chain[depth]);
    }
    while (depth > 0) shmem_team_destroy(chain[depth--]);
  }
  shmem_barrier_all();
}

static void many(void) {
  const int rounds = npes > 4 ? 300 : 1500;
  for (int r = 0; r < rounds; r++) {
    shmem_team_t a, b;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &a) == 0, "round %d", r);
    CHECK(shmem_team_split_strided(a, npes - 1, -1, (npes + 1) / 2, NULL, 0, &b) == 0, "round %d",
          r);
    if (r % 50 == 0) {
      use(a);
      if (b != SHMEM_TEAM_INVALID) use(b);
    }
    shmem_team_destroy(b);
    shmem_team_destroy(a);
  }
}

// Splits until there is no room for another team: all PEs see that at the same split, nothing is
// lost by it, and room that was given back is room again.
static void too_many(void) {
  enum { MOST = 20000 };
  shmem_team_t *teams = malloc(MOST * sizeof *teams);
  static long in, least;
  long first = -1;
  for (int round = 0; round < 2; round++) {
    long n = 0;
    while (n < MOST &&
           shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &teams[n]) == 0)
      n++;
    CHECK(n == MOST || teams[n] == SHMEM_TEAM_INVALID, "the handle of a split that failed");
    in = n;
    CHECK(shmem_long_min_reduce(SHMEM_TEAM_WORLD, &least, &in, 1) == 0, "min");
    CHECK(least == n, "%ld teams here, %ld on another PE", n, least);
    CHECK(n > 100 && (first < 0 || n == first), "%ld teams, %ld at first", n, first);
    first = n;
    use(teams[n - 1]);
    // With room for a few teams a split in two dimensions gives both or none.
    for (int room = 0; room < 4 && n < MOST; room++) {
      shmem_team_t x = SHMEM_TEAM_WORLD, y = SHMEM_TEAM_WORLD;
      const int rc = shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &x, NULL, 0, &y);
      in = rc != 0;
      CHECK(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &least, &in, 1) == 0, "sum");
      CHECK(least == 0 || least == npes, "%ld of %d PEs say that it failed", least, npes);
      CHECK((x != SHMEM_TEAM_INVALID) == !rc && (y != SHMEM_TEAM_INVALID) == !rc, "room %d", room);
      if (!rc) {
        use(x);
        use(y);
      }
      shmem_team_destroy(x);
      shmem_team_destroy(y);
      shmem_barrier_all(); // room is there when all members have left
      shmem_team_destroy(teams[--n]);
      shmem_barrier_all();
    }
    while (n > 0) shmem_team_destroy(teams[--n]);
    shmem_barrier_all();
  }
  free(teams);
}

static void config(void) {
  shmem_team_config_t in = {3}, out = {-5};
  shmem_team_t t;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, &in, SHMEM_TEAM_NUM_CONTEXTS, &t) ==
            0,
        "split");
  CHECK(shmem_team_get_config(t, 0, NULL) == 0, "mask 0");
  CHECK(shmem_team_get_config(t, 0, &out) == 0 && out.num_contexts == -5, "mask 0 writes nothing");
  CHECK(shmem_team_get_config(t, SHMEM_TEAM_NUM_CONTEXTS, &out) == 0, "get_config");
  CHECK(out.num_contexts >= 3, "num_contexts %d", out.num_contexts);
  shmem_ctx_t c[3];
  for (int i = 0; i < 3; i++) CHECK(shmem_team_create_ctx(t, 0, &c[i]) == 0, "context %d", i);
  shmem_ctx_destroy(c[1]);
  shmem_team_destroy(t); // takes the shareable contexts with it
  in.num_contexts = 9;   // not in the mask: the default holds
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, &in, 0, &t) == 0, "split");
  CHECK(shmem_team_get_config(t, SHMEM_TEAM_NUM_CONTEXTS, &out) == 0 && out.num_contexts == 0,
        "default num_contexts %d", out.num_contexts);
  shmem_team_destroy(t);
  CHECK(shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, &out) == 0, "world");
  CHECK(out.num_contexts >= 0, "world: %d", out.num_contexts);
  // another configuration for each axis
  shmem_team_config_t cx = {1}, cy = {4};
  shmem_team_t x, y;
  CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, &cx, SHMEM_TEAM_NUM_CONTEXTS, &x, &cy,
                            SHMEM_TEAM_NUM_CONTEXTS, &y) == 0,
        "split_2d");
  CHECK(shmem_team_get_config(x, SHMEM_TEAM_NUM_CONTEXTS, &out) == 0 && out.num_contexts >= 1, "x");
  CHECK(shmem_team_get_config(y, SHMEM_TEAM_NUM_CONTEXTS, &out) == 0 && out.num_contexts >= 4, "y");
  shmem_team_destroy(x);
  shmem_team_destroy(y);
}

static void contexts(void) {
  static long box[PE_MAX];
  static const long options[] = {0,
                                 SHMEM_CTX_SERIALIZED,
                                 SHMEM_CTX_PRIVATE,
                                 SHMEM_CTX_NOSTORE,
                                 SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE,
                                 SHMEM_CTX_SERIALIZED | SHMEM_CTX_NOSTORE,
                                 SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED};
  shmem_team_t t = SHMEM_TEAM_INVALID;
  CHECK(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &t) == 0 && t == SHMEM_TEAM_WORLD, "default context");
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  for (size_t k = 0; k < COUNT(options); k++) {
    shmem_ctx_t c;
    CHECK(shmem_ctx_create(options[k], &c) == 0, "options %lx", (unsigned long)options[k]);
    CHECK(c != SHMEM_CTX_INVALID && c != SHMEM_CTX_DEFAULT, "a context of its own");
    CHECK(shmem_ctx_get_team(c, &t) == 0 && t == SHMEM_TEAM_WORLD, "team");
    box[me] = -1;
    shmem_barrier_all();
    const long v = me * 10 + (long)k;
    shmem_ctx_long_put_nbi(c, &box[me], &v, 1, right);
    shmem_ctx_destroy(c); // completes what is under way
    shmem_barrier_all();
    CHECK(box[left] == left * 10 + (long)k, "put before destroy: %ld", box[left]);
    shmem_barrier_all();
  }
  // Not collective: one PE alone creates, uses and destroys.
  if (me == npes - 1) {
    shmem_ctx_t c[20];
    for (size_t i = 0; i < COUNT(c); i++) {
      CHECK(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &c[i]) == 0, "context %zu", i);
      for (size_t j = 0; j < i; j++) CHECK(c[i] != c[j], "the same handle twice");
    }
    for (size_t i = 0; i < COUNT(c); i++) shmem_ctx_long_p(c[i], &box[i % PE_MAX], (long)i, 0);
    for (size_t i = 0; i < COUNT(c); i++) shmem_ctx_destroy(c[i]);
    for (int r = 0; r < 3000; r++) {
      CHECK(shmem_ctx_create(r & 1 ? SHMEM_CTX_PRIVATE : 0, &c[0]) == 0, "round %d", r);
      shmem_ctx_destroy(c[0]);
    }
  }
  shmem_barrier_all();
  shmem_team_t child;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &child) == 0, "rc");
  shmem_ctx_t c;
  CHECK(shmem_team_create_ctx(child, 0, &c) == 0, "team_create_ctx");
  CHECK(shmem_ctx_get_team(c, &t) == 0 && t == child, "get_team");
  shmem_ctx_destroy(c);
  shmem_team_destroy(child);
}

// Sessions are hints: nothing that holds without them changes.
static void sessions(void) {
  static long box[PE_MAX], many_box[100];
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  shmem_ctx_t c;
  CHECK(shmem_ctx_create(0, &c) == 0, "ctx_create");
  const shmem_ctx_session_config_t config = {100};
  const shmem_ctx_t use[] = {c, SHMEM_CTX_DEFAULT};
  for (size_t k = 0; k < COUNT(use); k++) {
    for (int i = 0; i < 100; i++) many_box[i] = -1;
    shmem_barrier_all();
    shmem_ctx_session_start(use[k], SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_session_start(use[k], 0, NULL, 0); // again: no harm
    for (int i = 0; i < 100; i++) shmem_ctx_long_p(use[k], &many_box[i], me * 1000 + i, right);
    long got = -1;
    shmem_ctx_quiet(use[k]);
    shmem_ctx_long_get(use[k], &got, &many_box[99], 1, right); // blocking stays blocking
    CHECK(got == me * 1000 + 99, "%ld", got);
    const long one = shmem_ctx_long_atomic_fetch_add(use[k], &box[me], 1, right);
    CHECK(one == (long)k, "%ld", one);
    shmem_ctx_session_stop(use[k]);
    shmem_ctx_session_stop(use[k]);
    shmem_barrier_all();
    for (int i = 0; i < 100; i++) CHECK(many_box[i] == left * 1000 + i, "[%d]", i);
    shmem_barrier_all();
  }
  shmem_ctx_destroy(c);
}

static const struct pe_test tests[] = {{"predefined teams", predefined},
                                       {"invalid team", invalid},
                                       {"bad splits", bad_splits},
                                       {"members", members},
                                       {"two dimensions", grid},
                                       {"nested", nested},
                                       {"create and destroy", many},
                                       {"too many", too_many},
                                       {"configuration", config},
                                       {"contexts", contexts},
                                       {"sessions", sessions}};

int main(void) {
  const struct pe_list all = PE_LIST("", tests);
  return pe_run("teams and contexts", &all, 1);
}
