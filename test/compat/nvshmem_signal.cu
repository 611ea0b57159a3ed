// SPDX-License-Identifier: MIT
// The signals of NVSHMEM 2, by type.
#include <nvshmem.h>
#include <nvshmemx.h>

__global__ void tell(uint64_t *flag, int *small, int right) {
  nvshmemx_uint64_signal(flag, 7, right);
  nvshmemx_int_signal(small, 5, right);
  nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_EQ, 7);
  nvshmem_int_wait_until(small, NVSHMEM_CMP_EQ, 5);
}

int main() {
  nvshmem_init();
  uint64_t *flag = static_cast<uint64_t *>(nvshmem_calloc(2, sizeof(uint64_t)));
  tell<<<1, 1>>>(flag, reinterpret_cast<int *>(flag + 1), (nvshmem_my_pe() + 1) % nvshmem_n_pes());
  const int wrong = cudaDeviceSynchronize() != cudaSuccess;
  nvshmem_barrier_all();
  nvshmem_finalize();
  return wrong;
}
