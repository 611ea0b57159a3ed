// SPDX-License-Identifier: MIT
// A profiling tool inside the program: its own shmem_x calls pshmem_x and counts. The library's
// internal calls are not counted, because it calls neither of the two itself.
#include "harness.h"

#include <pshmem.h>

static int puts_seen, barriers_seen, mallocs_seen, syncs_seen, quiets_seen, amos_seen;

void shmem_int_put(int *dest, const int *source, size_t nelems, int pe) {
  puts_seen++;
  pshmem_int_put(dest, source, nelems, pe);
}
void shmem_barrier_all(void) {
  barriers_seen++;
  pshmem_barrier_all();
}
void shmem_sync_all(void) {
  syncs_seen++;
  pshmem_sync_all();
}
void shmem_quiet(void) {
  quiets_seen++;
  pshmem_quiet();
}
void *shmem_malloc(size_t size) {
  mallocs_seen++;
  return pshmem_malloc(size);
}
long shmem_long_atomic_fetch_add(long *dest, long value, int pe) {
  amos_seen++;
  return pshmem_long_atomic_fetch_add(dest, value, pe);
}

static void counts(void) {
  static int box[4];
  static long number;
  puts_seen = barriers_seen = mallocs_seen = syncs_seen = quiets_seen = amos_seen = 0;
  const int source[4] = {1, 2, 3, 4}, right = (me + 1) % npes;
  shmem_int_put(box, source, 4, right);
  shmem_put(box, source, 4, right); // the generic ends in the same routine
  CHECK(puts_seen == 2, "%d puts", puts_seen);
  int *a = shmem_malloc(100), *b = shmem_calloc(10, 10), *c = shmem_align(64, 100);
  c = shmem_realloc(c, 5000);
  CHECK(a && b && c, "memory");
  shmem_free(a);
  shmem_free(b);
  shmem_free(c);
  CHECK(mallocs_seen == 1, "%d mallocs", mallocs_seen);
  CHECK(barriers_seen == 0 && syncs_seen == 0, "%d barriers inside", barriers_seen);
  static int in = 1, out;
  CHECK(shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &out, &in, 1) == 0 && out == npes, "sum");
  static int out2; // not out: dest must be ready on every PE before any of them calls
  CHECK(shmem_int_broadcast(SHMEM_TEAM_WORLD, &out2, &in, 1, 0) == 0 && out2 == 1, "broadcast");
  static int all[PE_MAX];
  CHECK(shmem_int_fcollect(SHMEM_TEAM_WORLD, all, &in, 1) == 0 && all[npes - 1] == 1, "fcollect");
  static long lock;
  shmem_set_lock(&lock);
  shmem_clear_lock(&lock);
  shmem_team_t team;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &team) == 0, "split");
  shmem_team_destroy(team);
  CHECK(puts_seen == 2 && barriers_seen == 0 && syncs_seen == 0 && quiets_seen == 0 &&
            amos_seen == 0 && mallocs_seen == 1,
        "collectives, locks and teams call entry points: %d %d %d %d %d", puts_seen, barriers_seen,
        syncs_seen, quiets_seen, amos_seen);
  shmem_barrier_all();
  CHECK(barriers_seen == 1 && box[3] == 4, "%d barriers", barriers_seen);
  CHECK(shmem_long_atomic_fetch_add(&number, 1, me) == 0 && amos_seen == 1, "%d", amos_seen);
  // a finalize that is not the last is like a barrier, but is none
  shmem_init();
  shmem_finalize();
  CHECK(barriers_seen == 1, "%d barriers", barriers_seen);
}

// Names that the program does not define are the library's own, and both names are one routine.
static void same(void) {
  static long x;
  pshmem_long_p(&x, me + 5, me);
  CHECK(shmem_long_g(&x, me) == me + 5 && pshmem_long_g(&x, me) == me + 5, "%ld", x);
  CHECK(p_my_pe() == pshmem_my_pe() && p_num_pes() == npes, "old names");
  shmem_pcontrol(2);
  pshmem_pcontrol(0, 1, 2);
}

static const struct pe_test tests[] = {{"counts", counts}, {"both names", same}};

int main(void) {
  const struct pe_list all = PE_LIST("", tests);
  return pe_run("profiling", &all, 1);
}
