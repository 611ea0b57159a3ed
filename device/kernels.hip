// SPDX-License-Identifier: MIT
#include "kernels.hpp"
#include <algorithm>

namespace {

__global__ void fill_pattern(uint64_t *words, size_t n, uint64_t seed) {
  size_t step = size_t{blockDim.x} * gridDim.x;
  for (size_t i = size_t{blockDim.x} * blockIdx.x + threadIdx.x; i < n; i += step)
    words[i] = seed + i;
}

} // namespace

hipError_t shmem_fill_pattern(uint64_t *words, size_t n, uint64_t seed, hipStream_t stream) {
  constexpr unsigned threads = 256, most = 1024;
  if (n == 0) return hipSuccess; // a grid of no blocks is an error
  dim3 grid(static_cast<unsigned>(std::min<size_t>((n + threads - 1) / threads, most)));
  hipLaunchKernelGGL(fill_pattern, grid, dim3(threads), 0, stream, words, n, seed);
  return hipGetLastError();
}
