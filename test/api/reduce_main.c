// SPDX-License-Identifier: MIT
#include "coll_common.h"
#include "typed.h"

extern const struct pe_list reduce_lists[], to_all_lists[];
extern const size_t reduce_count, to_all_count;

static const struct pe_test start[] = {{"make teams", coll_make_teams}};
static const struct pe_test end[] = {{"free teams", coll_free_teams}};

int main(void) {
  struct pe_list all[96] = {PE_LIST("", start)};
  size_t n = 1;
  for (size_t i = 0; i < reduce_count; i++) all[n++] = reduce_lists[i];
  for (size_t i = 0; i < to_all_count; i++) all[n++] = to_all_lists[i];
  all[n++] = (struct pe_list)PE_LIST("", end);
  return pe_run("reductions", all, n);
}
