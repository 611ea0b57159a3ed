// SPDX-License-Identifier: MIT
#include <cstdio>
#include <shmem/device/shmem.hpp>

__global__ void to_the_right(double *there, const double *mine, uint64_t *arrived) {
  const int right = (shmem_my_pe() + 1) % shmem_n_pes();
  shmemx_double_put_signal_wg(there, mine, 256, arrived, 1, SHMEM_SIGNAL_SET, right);
  if (threadIdx.x == 0) shmem_signal_wait_until(arrived, SHMEM_CMP_EQ, 1);
  __syncthreads(); // now all threads of the workgroup see what came from the left
  shmemx_double_put_wg(there + 256, mine, 256, right); // the same without a signal
  shmemx_barrier_all_wg();
}

int main() {
  shmem_init();
  const long gpu = SHMEMX_MALLOC_DEVICE;
  auto *there = static_cast<double *>(shmem_malloc_with_hints(768 * sizeof(double), gpu));
  auto *arrived = static_cast<uint64_t *>(shmem_malloc_with_hints(sizeof(uint64_t), gpu));
  if (there && arrived) {
    double mine[256], came[512];
    for (double &x : mine) x = shmem_my_pe();
    const uint64_t none = 0;
    shmem_putmem(there + 512, mine, sizeof mine, shmem_my_pe());
    shmem_putmem(arrived, &none, sizeof none, shmem_my_pe());
    shmem_barrier_all();
    hipLaunchKernelGGL(to_the_right, dim3(1), dim3(256), 0, 0, there, there + 512, arrived);
    if (hipDeviceSynchronize() != hipSuccess) shmem_global_exit(1);
    shmem_getmem(came, there, sizeof came, shmem_my_pe());
    if (shmem_my_pe() == 0) std::printf("%g %g\n", came[0], came[511]);
  } else if (shmem_my_pe() == 0) {
    std::printf("no GPU\n");
  }
  shmem_free(arrived);
  shmem_free(there);
  shmem_finalize();
}
// With 2 PEs: 1 1
