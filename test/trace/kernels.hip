// SPDX-License-Identifier: MIT
// Calls of kernels, for trace.py, which knows their events.
#define SHMEM_TRACE_KERNELS
#include <cstdio>
#include <shmem/device/shmem.hpp>

// Workgroups of 32 threads, which are one wave everywhere.
__global__ void calls(long *data, uint64_t *flags, int next) {
  const unsigned me = threadIdx.x, block = blockIdx.x;
  if (me < 5) shmem_long_atomic_add(data, 1, next);
  if (me == 0) {
    for (int i = 0; i < 3; i++) shmem_long_p(data + 1 + block, 7, next);
    shmem_signal_set(flags + block, 1, next);
    shmem_signal_wait_until(flags + block, SHMEM_CMP_EQ, 1);
    (void)shmem_my_pe();
    shmemx_trace_event(40 + block);
  }
  __syncthreads();
  shmemx_putmem_wave(data + 64 + 8 * block, data + 512, 40, next);
  shmemx_long_put_wg(data + 128 + 8 * block, data + 512, 8, next);
  if (block == 0) shmemx_barrier_all_wg();
}

int main() {
  shmem_init();
  const int next = (shmem_my_pe() + 1) % shmem_n_pes();
  auto *const data = static_cast<long *>(shmem_malloc_with_hints(8192, SHMEMX_MALLOC_DEVICE));
  auto *const flags = static_cast<uint64_t *>(shmem_malloc_with_hints(64, SHMEMX_MALLOC_DEVICE));
  if (!data || !flags) shmem_global_exit(77);
  (void)hipMemset(flags, 0, 64);
  (void)hipDeviceSynchronize();
  shmem_barrier_all();
  shmemx_trace_event(1);
  hipLaunchKernelGGL(calls, dim3(3), dim3(32), 0, nullptr, data, flags, next);
  if (hipDeviceSynchronize() != hipSuccess) fprintf(stderr, "the kernel failed\n");
  shmemx_trace_event(2);
  shmem_finalize();
}
