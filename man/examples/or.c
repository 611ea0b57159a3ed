// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <shmem.h>
#include <stdio.h>

static uint64_t present; // of PE 0: a bit for each PE that came

int main(void) {
  shmem_init();
  shmem_uint64_atomic_or(&present, UINT64_C(1) << shmem_my_pe(), 0);
  shmem_barrier_all();
  if (shmem_my_pe() == 0) printf("0x%" PRIx64 "\n", present);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 0xf
