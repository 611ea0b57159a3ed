// SPDX-License-Identifier: MIT
// The host's part of a program for rocSHMEM, in a source of its own, as its users write it.
#include <rocshmem/rocshmem.hpp>
#include <stdio.h>

using namespace rocshmem;

int main() {
  rocshmem_init();
  const int me = rocshmem_my_pe(), n = rocshmem_n_pes();
  long *number = static_cast<long *>(rocshmem_malloc(sizeof(long)));
  if (!number) rocshmem_global_exit(2);
  rocshmem_long_p(number, 10 + me, (me + 1) % n);
  rocshmem_barrier_all();
  const long got = rocshmem_long_g(number, me), want = 10 + (me + n - 1) % n;
  rocshmem_free(number);
  rocshmem_finalize();
  if (got != want) printf("PE %d: %ld, not %ld\n", me, got, want);
  return got != want;
}
