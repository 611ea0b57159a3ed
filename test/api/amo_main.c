// SPDX-License-Identifier: MIT
#include "typed.h"

extern const struct pe_list amo_lists[];
extern const size_t amo_count;

static long counter;

// AMOs of one family of teams are atomic with each other, on whatever context, own PE included.
static void mixed_contexts(void) {
  enum { ROUNDS = 200 };
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  long *heap = shmem_calloc(1, sizeof *heap);
  counter = 0;
  shmem_barrier_all();
  long mine = 0;
  for (size_t k = 0; k < n; k++) {
    const struct pe_team *t = &teams[k];
    if (t->me < 0) continue;
    shmem_ctx_t c;
    CHECK(shmem_team_create_ctx(t->team, 0, &c) == 0, "team_create_ctx");
    for (int r = 0; r < ROUNDS; r++) { // world PE pe[i], which the team calls i
      const int i = r % t->n;
      shmem_ctx_long_atomic_inc(c, heap, i);
      shmem_ctx_long_atomic_fetch_add(c, &counter, 2, i);
      shmem_long_atomic_add(heap, 3, t->pe[i]);
    }
    mine += ROUNDS;
    shmem_ctx_quiet(c);
    shmem_ctx_destroy(c);
  }
  shmem_barrier_all();
  long *sums = shmem_malloc(3 * sizeof *sums), in[3];
  long *source = shmem_malloc(3 * sizeof *source);
  in[0] = *heap, in[1] = counter, in[2] = mine;
  memcpy(source, in, sizeof in);
  CHECK(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sums, source, 3) == 0, "sum_reduce");
  CHECK(sums[0] == 4 * sums[2], "heap %ld, want 4 * %ld", sums[0], sums[2]);
  CHECK(sums[1] == 2 * sums[2], "data %ld, want 2 * %ld", sums[1], sums[2]);
  shmem_barrier_all();
  shmem_free(source);
  shmem_free(sums);
  shmem_free(heap);
  pe_teams_free(teams, n);
}

// AMOs are atomic with a waiting target of the same type, values of one origin come in order under
// fetching AMOs.
static void ticket(void) {
  enum { ROUNDS = 300 };
  uint64_t *turn = shmem_calloc(1, sizeof *turn);
  for (uint64_t r = 0; r < ROUNDS; r++) { // a token goes round
    const uint64_t want = r * (uint64_t)npes + (uint64_t)me;
    shmem_uint64_wait_until(turn, SHMEM_CMP_EQ, want);
    for (int pe = 0; pe < npes; pe++) shmem_uint64_atomic_inc(turn, pe);
    shmem_quiet();
    CHECK(*turn >= want + 1, "%llu", (unsigned long long)*turn);
  }
  shmem_barrier_all();
  CHECK(*turn == ROUNDS * (uint64_t)npes, "%llu", (unsigned long long)*turn);
  shmem_free(turn);
}

static const struct pe_test tests[] = {{"contexts of one family", mixed_contexts},
                                       {"token", ticket}};

int main(void) {
  const struct pe_list own = PE_LIST("", tests);
  return run_lists("amo", &own, 1, amo_lists, amo_count);
}
