// SPDX-License-Identifier: MIT
// Names that sources for rocSHMEM 2.x count on: the PE before init, names with _wg_ inside, the
// operations, and HIP's older names.
#include <rocshmem/rocshmem.hpp>

using namespace rocshmem;

template <ROCSHMEM_OP op> __device__ int reduce(rocshmem_ctx_t ctx, int *to, int *from, int n) {
  if (op == ROCSHMEM_SUM)
    return rocshmem_ctx_int_sum_wg_reduce(ctx, ROCSHMEM_TEAM_WORLD, to, from, n);
  return rocshmem_ctx_int_max_wg_reduce(ctx, ROCSHMEM_TEAM_WORLD, to, from, n);
}

__global__ void all(int *to, int *from) {
  __shared__ rocshmem_ctx_t ctx;
  rocshmem_wg_init();
  rocshmem_wg_ctx_create(0, &ctx);
  if (hipThreadIdx_x == 0 && hipBlockIdx_x < hipGridDim_x) *from = rocshmem_my_pe() + 1;
  rocshmem_ctx_wg_barrier_all(ctx);
  reduce<ROCSHMEM_SUM>(ctx, to, from, 1);
  rocshmem_ctx_wg_team_sync(ctx, ROCSHMEM_TEAM_WORLD);
  reduce<ROCSHMEM_MAX>(ctx, to + 1, from, 1);
  rocshmem_wg_sync_all();
  rocshmem_ctx_int_wg_broadcast(ctx, ROCSHMEM_TEAM_WORLD, to + 2, from, 1, 0);
  rocshmem_wg_ctx_destroy(&ctx);
  rocshmem_wg_finalize();
}

// Which of two kernels it is, the arguments say.
__global__ void set(int *to) {
  *to += 1;
}
__global__ void set(int *to, int value) {
  *to += value;
}

int main() {
  const int rank = rocshmem_my_pe(), n = rocshmem_n_pes();
  rocshmem_init();
  int wrong = rank != rocshmem_my_pe() || n != rocshmem_n_pes(), host[3] = {}, *managed = nullptr;
  wrong += hipMallocManaged(&managed, sizeof *managed, hipMemAttachGlobal) != hipSuccess;
  wrong += hipFree(managed) != hipSuccess;
  int *to = static_cast<int *>(rocshmem_malloc(4 * sizeof(int)));
  hipLaunchKernelGGL(all, dim3(1), dim3(64), 0, nullptr, to, to + 3);
  wrong += hipDeviceSynchronize() != hipSuccess;
  wrong += hipMemcpy(host, to, sizeof host, hipMemcpyDeviceToHost) != hipSuccess;
  wrong += host[0] != n * (n + 1) / 2 || host[1] != n || host[2] != 1;
  hipLaunchKernelGGL(set, dim3(1), dim3(1), 0, nullptr, to);
  hipLaunchKernelGGL(set, dim3(1), dim3(1), 0, nullptr, to, 5);
  wrong += hipMemcpy(host + 1, to, sizeof(int), hipMemcpyDeviceToHost) != hipSuccess;
  wrong += host[1] != host[0] + 6;
  if (wrong) rocshmem_global_exit(1);
  rocshmem_free(to);
  rocshmem_finalize();
  return EXIT_SUCCESS;
}
