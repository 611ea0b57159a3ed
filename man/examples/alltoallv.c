// SPDX-License-Identifier: MIT
#include <shmemx.h>
#include <stdio.h>

static int dest[8];

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(); // 1 sends one number to 0, two to 1 and so on
  const int source[] = {10 * me, 10 * me + 1, 10 * me + 2, 10 * me + 3};
  const size_t counts[] = {me, me + 1}, offsets[] = {0, me};
  size_t recv_counts[2], recv_offsets[3];
  shmemx_int_alltoallv(SHMEM_TEAM_WORLD, dest, recv_counts, recv_offsets, 8, source, counts,
                       offsets);
  if (recv_offsets[2] > 8) return 1; // more than there is room for
  if (me == 1)
    for (size_t i = 0; i < recv_offsets[2]; i++) printf("%d ", dest[i]);
  shmem_finalize();
  return 0;
}
// With 2 PEs: 0 11 12
