// SPDX-License-Identifier: MIT
#include <cstdio>
#include <hip/hip_runtime.h>
#include <shmemx.h>

constexpr size_t n = 64;

static float *matrix(float value) {
  auto *p =
      static_cast<float *>(shmem_malloc_with_hints(n * n * sizeof(float), SHMEMX_MALLOC_DEVICE));
  static float filled[n * n];
  for (float &x : filled) x = value;
  if (p) shmem_float_put(p, filled, n * n, shmem_my_pe());
  return p;
}

int main() {
  shmem_init();
  float *a = matrix(1), *b = matrix(2), *c = matrix(0), sum[1];
  if (c) {
    shmemx_matmul_t call = {};
    call.type = call.out = SHMEMX_F32;
    call.m = call.n = call.k = call.lda = call.ldb = call.ldc = n;
    call.a = a, call.b = b, call.c = c;
    auto *workspace =
        shmemx_matmul_workspace_create(SHMEM_TEAM_WORLD, SHMEMX_MATMUL_ALL_REDUCE, &call);
    shmemx_matmul_all_reduce_on_stream(workspace, &call, nullptr); // the sum of both PEs' products
    if (hipDeviceSynchronize() != hipSuccess) shmem_global_exit(1);
    shmem_float_get(sum, c, 1, shmem_my_pe());
    shmemx_matmul_workspace_destroy(workspace);
  }
  if (shmem_my_pe() == 0) c ? std::printf("%g\n", double(sum[0])) : std::printf("no GPU\n");
  shmem_finalize();
}
// With 2 PEs: 256
