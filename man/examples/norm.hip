// SPDX-License-Identifier: MIT
#include <cstdio>
#include <hip/hip_runtime.h>
#include <shmemx.h>

constexpr size_t rows = 4, columns = 64, n = rows * columns;

static float *matrix(float value) {
  auto *p = static_cast<float *>(shmem_malloc_with_hints(n * sizeof(float), SHMEMX_MALLOC_DEVICE));
  static float filled[n];
  for (float &x : filled) x = value;
  if (p) shmem_float_put(p, filled, n, shmem_my_pe());
  return p;
}

int main() {
  shmem_init();
  float *input = matrix(1), *residual = matrix(2), *out = matrix(0), sum[1], norm[1];
  if (out) {
    shmemx_norm_t call = SHMEMX_NORM_INITIALIZER;
    call.type = SHMEMX_F32;
    call.rows = rows, call.columns = columns;
    call.input = input;
    call.residual = residual, call.residual_out = residual; // in place: 1 of each PE, and 2
    call.out = out;
    shmemx_all_reduce_norm_on_stream(SHMEM_TEAM_WORLD, &call, nullptr);
    if (hipDeviceSynchronize() != hipSuccess) shmem_global_exit(1);
    shmem_float_get(sum, residual, 1, shmem_my_pe());
    shmem_float_get(norm, out, 1, shmem_my_pe());
  }
  if (shmem_my_pe() == 0)
    out ? std::printf("%g, %.3f\n", double(sum[0]), double(norm[0])) : std::printf("no GPU\n");
  shmem_finalize();
}
// With 2 PEs: 4, 1.000
