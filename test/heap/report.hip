// SPDX-License-Identifier: MIT
// A kernel that does something wrong on PE 1. report MISTAKE.
#include <cstdio>
#include <cstring>
#include <shmem/device/shmem.hpp>
#include <shmemx.h>
#include <unistd.h>

static __global__ void mistake(int what, long *x) {
  if (shmem_my_pe() != 1) return;
  if (what == 4) shmemx_long_put_wave(x, x + 1, 1, 7);
  if (what == 5) shmemx_long_put_signal_nbi_wg(x, x + 1, 1, nullptr, 0, 0, 7);
  if (threadIdx.x != 3) return;
  if (what == 0) shmem_long_p(x, 1, 7);
  if (what == 1) shmem_long_p(x + (1L << 40), 1, 0); // behind all that it may grow to
  if (what == 2) shmem_long_p(reinterpret_cast<long *>(reinterpret_cast<char *>(x) + 3), 1, 0);
  if (what == 3) shmem_long_wait_until(x, SHMEM_CMP_EQ, 42);
}

int main(int, char **argv) {
  static const char *const names[] = {"pe",   "foreign", "misaligned", "wait",
                                      "wave", "wg",      "host-wait"};
  fprintf(stderr, "pid %d\n", int(getpid()));
  shmem_init();
  auto *x = static_cast<long *>(shmem_malloc_with_hints(64, SHMEMX_MALLOC_DEVICE));
  const long zero = 0;
  shmem_long_put(x, &zero, 1, shmem_my_pe());
  shmem_barrier_all();
  int what = 0;
  while (what < 7 && strcmp(names[what], argv[1])) what++;
  if (what == 6 && shmem_my_pe() == 1) shmem_long_wait_until(x, SHMEM_CMP_EQ, 42);
  if (what < 6) hipLaunchKernelGGL(mistake, dim3(2), dim3(4), 0, nullptr, what, x);
  if (hipDeviceSynchronize() != hipSuccess) return 2;
  if (what < 7 && shmem_my_pe() == 0) sleep(20); // the other's mistake ends this
  shmem_free(x);
  shmem_finalize();
  return 0;
}
