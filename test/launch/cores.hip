// SPDX-License-Identifier: MIT
// On the cpu platform: the cores of the threads that run a kernel, and the PE's own.
#include <cstdio>
#include <sched.h>
#include <shmem/device/shmem.hpp>

__global__ void count(int *cores) {
  cpu_set_t set;
  cores[blockIdx.x] = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

int main() {
  shmem_init();
  int *cores = static_cast<int *>(shmem_malloc_with_hints(8 * sizeof(int), SHMEMX_MALLOC_DEVICE));
  hipLaunchKernelGGL(count, dim3(8), dim3(1), 0, nullptr, cores);
  if (hipDeviceSynchronize() != hipSuccess) return 1;
  int fewest = cores[0];
  for (int i = 1; i < 8; i++) fewest = cores[i] < fewest ? cores[i] : fewest;
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  std::printf("%d cores, kernels %d\n", CPU_COUNT(&set), fewest);
  shmem_finalize();
}
