// SPDX-License-Identifier: MIT
#include "coll_common.h"

struct pe_team coll_teams[16];
size_t coll_nteams;

void coll_make_teams(void) {
  coll_nteams = pe_teams(coll_teams, COUNT(coll_teams));
  CHECK(coll_nteams >= 3, "%zu teams", coll_nteams);
}

void coll_free_teams(void) {
  pe_teams_free(coll_teams, coll_nteams);
  coll_nteams = 0;
}

static long sync_words[16][SHMEM_SYNC_SIZE];

size_t active_sets(struct active_set *sets, size_t max) {
  const int all[][3] = {{0, 0, npes},     {1, 0, npes - 1},       {0, 1, (npes + 1) / 2},
                        {1, 1, npes / 2}, {0, 2, (npes + 3) / 4}, {npes - 1, 3, 1}};
  size_t n = 0;
  for (size_t k = 0; k < COUNT(all) && n < max; k++) {
    if (all[k][2] < 1) continue;
    struct active_set *s = &sets[n];
    *s = (struct active_set){all[k][0], all[k][1], all[k][2], -1, sync_words[n]};
    for (int i = 0; i < s->size; i++)
      if (s->start + (i << s->log) == me) s->me = i;
    n++;
  }
  for (size_t i = 0; i < COUNT(sync_words); i++)
    for (size_t j = 0; j < SHMEM_SYNC_SIZE; j++)
      if (sync_words[i][j] != SHMEM_SYNC_VALUE) sync_words[i][j] = SHMEM_SYNC_VALUE;
  shmem_barrier_all();
  return n;
}
