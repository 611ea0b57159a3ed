// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static int mine, row_sum, column_sum;

int main(void) {
  shmem_init();
  mine = shmem_my_pe();
  shmem_team_t row, column; // a grid, two PEs wide
  if (shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column))
    shmem_global_exit(1);
  shmem_int_sum_reduce(row, &row_sum, &mine, 1);
  shmem_int_sum_reduce(column, &column_sum, &mine, 1);
  if (mine == 3) printf("row %d, column %d\n", row_sum, column_sum);
  shmem_team_destroy(column);
  shmem_team_destroy(row);
  shmem_finalize();
  return 0;
}
// With 4 PEs: row 5, column 4
