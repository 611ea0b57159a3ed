// SPDX-License-Identifier: MIT
// The groups of PEs that the collective tests run on.
#ifndef TEST_API_COLL_COMMON_H
#define TEST_API_COLL_COMMON_H

#include "harness.h"

extern struct pe_team coll_teams[16]; // made by the first test
extern size_t coll_nteams;
void coll_make_teams(void);
void coll_free_teams(void);

struct active_set {
  int start, log, size, me; // me: -1 where this PE is not in it
  long *sync;               // for shmem_sync and shmem_barrier, which may reuse it at once
};
size_t active_sets(struct active_set *sets, size_t max);

#endif
