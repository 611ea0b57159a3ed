// SPDX-License-Identifier: MIT
// The same in a kernel, with memory of the GPU.
#include <cstdio>
#include <shmem/device/shmem.hpp>

__global__ void greet(int *from) {
  if (threadIdx.x == 0) shmem_int_p(from, shmem_my_pe(), (shmem_my_pe() + 1) % shmem_n_pes());
  shmemx_barrier_all_wg(); // all threads of the workgroup
}

int main() {
  shmem_init();
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  int seen = -1,
      *from = static_cast<int *>(shmem_malloc_with_hints(sizeof(int), SHMEMX_MALLOC_DEVICE));
  if (!from) {
    std::printf("PE %d has no GPU\n", me);
    shmem_global_exit(1);
  }
  hipLaunchKernelGGL(greet, dim3(1), dim3(64), 0, nullptr, from);
  if (hipMemcpy(&seen, from, sizeof seen, hipMemcpyDeviceToHost) != hipSuccess)
    shmem_global_exit(1);
  std::printf("PE %d of %d: PE %d says hello\n", me, npes, seen);
  if (seen != (me + npes - 1) % npes) shmem_global_exit(1);
  shmem_finalize();
}
