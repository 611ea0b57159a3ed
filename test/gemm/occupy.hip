// SPDX-License-Identifier: MIT
// A kernel that keeps compute units from others until it is told to end.
#include <hip/hip_runtime.h>
#include <shmem/device/arch.hpp>

// 1024 threads of at most 64 registers, and of all the shared memory that a launch gets without
// asking: nothing large fits beside them.
__global__ void __launch_bounds__(1024) hold(const unsigned *end) {
  __shared__ char room[48 * 1024];
  const_cast<volatile char *>(room)[threadIdx.x] = 1;
  while (!shmem::arch::poll(end)) shmem::arch::pause();
}
// Blocks of one compute unit each.
extern "C" hipError_t occupy(unsigned blocks, unsigned threads, const unsigned *end,
                             hipStream_t stream) {
  hipLaunchKernelGGL(hold, dim3(blocks), dim3(threads), 0, stream, end);
  return hipGetLastError();
}
