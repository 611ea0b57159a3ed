// SPDX-License-Identifier: MIT
// nvshmem.h is the only header: it brings CUDA's and the C library's, as NVSHMEM's does.
#include <nvshmem.h>

#define CHECK(call) errno = (call) == cudaSuccess ? errno : EIO

__global__ void grouped(float *to, __half half) {
  cooperative_groups::thread_block block = cooperative_groups::this_thread_block();
  block.sync();
  if (block.thread_rank() == 0) *to = __half2float(half);
}
#if __has_include(<hip/hip_bf16.h>) // ROCm has these from 5.7 on
__global__ void brain(float *to, __nv_bfloat16 value) {
  *to = __bfloat162float(value);
}
#endif

__global__ void fill(int *to, int value) {
  assert(to != nullptr);
  to[threadIdx.x] = value;
}

int main() {
  nvshmem_init();
  errno = 0;
  uint64_t bytes = std::max<size_t>(4 * sizeof(int), size_t(sqrt(64.0)));
  int *to = static_cast<int *>(nvshmem_malloc(bytes)), host[4] = {};
  char text[8];
  snprintf(text, sizeof text, "%d", INT_MAX & 7);
  fill<<<1, 4>>>(to, atoi(text));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host, to, sizeof host, cudaMemcpyDeviceToHost));
  const int wrong = errno == EIO || memcmp(host, host + 2, 2 * sizeof(int)) != 0 || host[0] != 7;
  nvshmem_free(to);
  nvshmem_finalize();
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
