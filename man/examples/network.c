// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static char line[64];
static uint64_t arrived;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  const int peer = (me + n / 2) % n; // on the other node where two nodes have half of the PEs each
  char hello[64];
  snprintf(hello, sizeof hello, "PE %d says hello", me);
  shmem_putmem_signal(line, hello, sizeof hello, &arrived, 1, SHMEM_SIGNAL_SET, peer);
  shmem_signal_wait_until(&arrived, SHMEM_CMP_EQ, 1); // the line is here, too
  if (me == 0)
    printf("%s; %d of %d PEs share my node, the other one %s\n", line,
           shmem_team_n_pes(SHMEM_TEAM_SHARED), n, shmem_ptr(line, peer) ? "too" : "does not");
  shmem_finalize();
  return 0;
}
// With 4 PEs: PE 2 says hello; 4 of 4 PEs share my node, the other one too
