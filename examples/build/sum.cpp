// SPDX-License-Identifier: MIT
// The C++ overloads: the type comes from the pointer, as with the generics of C11.
#include <cstdio>
#include <shmem.h>

static long sum; // symmetric: every PE has one

int main() {
  shmem_init();
  const int npes = shmem_n_pes();
  shmem_atomic_add(&sum, static_cast<long>(shmem_my_pe() + 1), 0);
  shmem_barrier_all();
  const long seen = shmem_g(&sum, 0), expected = npes * (npes + 1L) / 2;
  std::printf("PE %d of %d: the sum is %ld\n", shmem_my_pe(), npes, seen);
  if (seen != expected) shmem_global_exit(1);
  shmem_finalize();
}
