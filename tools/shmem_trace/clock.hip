// SPDX-License-Identifier: MIT
// The time of the GPU's clock, to which kernel.cpp compares the host's.
#include <hip/hip_runtime.h>
// Behind it, because arch.hpp is that of its platform.
#include "../../device/arch.hpp"

namespace {
__global__ void store_clock(uint64_t *result) {
  shmem::arch::store(result, shmem::arch::clock());
}
} // namespace

namespace trace {
int queue_clock(uint64_t *result, void *stream) {
  hipLaunchKernelGGL(store_clock, dim3(1), dim3(1), 0, static_cast<hipStream_t>(stream), result);
  return int(hipGetLastError());
}
} // namespace trace
