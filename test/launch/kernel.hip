// SPDX-License-Identifier: MIT
// A program with a kernel. Without a device it says so and ends well: what is tested is the
// wrapper.
#include <cstdio>
#include <hip/hip_runtime.h>
#include <shmem.h>
#include <shmem/device/op.hpp>

static __global__ void scale(long *x, long by) {
  x[threadIdx.x] = shmem::Prod::op(x[threadIdx.x], by);
}

// 1: the device did it right, 0: there is none, -1: it did it wrong.
extern "C" int scale_on_device(void) {
  constexpr int n = 64;
  int devices;
  if (hipGetDeviceCount(&devices) != hipSuccess || devices == 0) return 0;
  long host[n], *device, wrong = 0;
  for (long i = 0; i < n; i++) host[i] = i;
  if (hipMalloc(&device, sizeof host) != hipSuccess) return -1;
  if (hipMemcpy(device, host, sizeof host, hipMemcpyHostToDevice) != hipSuccess) return -1;
  hipLaunchKernelGGL(scale, dim3(1), dim3(n), 0, 0, device, 3);
  if (hipMemcpy(host, device, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return -1;
  for (long i = 0; i < n; i++) wrong += host[i] != 3 * i;
  return hipFree(device) == hipSuccess && wrong == 0 ? 1 : -1;
}

#ifdef WORDS
int main() {
  shmem_init();
  std::printf("%d: %s\n", scale_on_device(), WORDS);
  shmem_finalize();
}
#endif
