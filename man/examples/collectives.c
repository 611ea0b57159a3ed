// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long mine, row_sum, column_max, all[4];

int main(void) {
  shmem_init();
  const int me = shmem_my_pe();
  shmem_team_t row, column; // two rows of two PEs: 0 1 and 2 3
  if (shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column))
    shmem_global_exit(1);
  mine = me + 1;
  shmem_sum_reduce(row, &row_sum, &mine, 1);             // 3 3 and 7 7
  shmem_max_reduce(column, &column_max, &row_sum, 1);    // 7 on all PEs
  shmem_fcollect(SHMEM_TEAM_WORLD, all, &row_sum, 1);    // 3 3 7 7
  shmem_team_sync(SHMEM_TEAM_WORLD);                     // all have their result of this call
  shmem_fcollect(SHMEM_TEAM_WORLD, all, &column_max, 1); // which the next one writes to
  if (me == 0) printf("%ld %ld %ld %ld\n", row_sum, column_max, all[0], all[3]);
  shmem_team_destroy(row);
  shmem_team_destroy(column);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 3 7 7 7
