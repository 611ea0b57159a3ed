// SPDX-License-Identifier: MIT
#include <cstdio>
#include <nvshmem.h>
#include <nvshmemx.h>

__global__ void ring(int *from) {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  if (threadIdx.x == 0) nvshmem_int_p(from, me, (me + 1) % n);
  nvshmemx_barrier_all_block();
}

int main() {
  nvshmem_init();
  int seen = -1, *from = static_cast<int *>(nvshmem_malloc(sizeof(int)));
  ring<<<1, 32>>>(from);
  if (cudaMemcpy(&seen, from, sizeof seen, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  if (nvshmem_my_pe() == 0) std::printf("PE %d was before me\n", seen);
  nvshmem_free(from);
  nvshmem_finalize();
}
// With 2 PEs: PE 1 was before me
