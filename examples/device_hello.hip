// SPDX-License-Identifier: MIT
// The first program on a GPU: the kernel of each PE stores its number in the memory of the next
// PE's GPU, all kernels meet at a barrier, and each reads the number that came.
#include "gpu.hpp"

__global__ void greet(int *from) {
  if (threadIdx.x == 0) {
    const int me = shmem_my_pe(), npes = shmem_n_pes();
    shmem_int_p(from, me, (me + 1) % npes);
  }
  shmemx_barrier_all_wg(); // all threads of the workgroup; the put above is complete after it
}

int main() {
  shmem_init();
  const int me = shmem_my_pe(), npes = shmem_n_pes(), left = (me + npes - 1) % npes;
  int *from = on_device<int>(1, "the greeting");
  hipLaunchKernelGGL(greet, dim3(1), dim3(64), 0, nullptr, from);
  HIP(hipGetLastError());
  HIP(hipDeviceSynchronize());

  int seen, device;
  hipDeviceProp_t properties;
  HIP(hipMemcpy(&seen, from, sizeof seen, hipMemcpyDeviceToHost));
  HIP(hipGetDevice(&device));
  HIP(hipGetDeviceProperties(&properties, device));
  printf("PE %d of %d on GPU %d, %s: PE %d says hello\n", me, npes, device, properties.name, seen);
  shmem_free(from);
  return finish("device_hello", seen != left);
}
