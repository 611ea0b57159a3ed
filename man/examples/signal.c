// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static uint64_t arrived; // symmetric, 0 on all PEs
static double halo[2];

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  const double edge[2] = {me, -me};

  shmem_double_put_signal(halo, edge, 2, &arrived, 1, SHMEM_SIGNAL_ADD, (me + 1) % n);
  shmem_signal_wait_until(&arrived, SHMEM_CMP_EQ, 1); // now the left neighbour's edge is here
  if (me == 0) printf("%g %g\n", halo[0], halo[1]);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 3 -3
