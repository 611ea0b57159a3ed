// SPDX-License-Identifier: MIT
// Products with a finish of the test's own, for the part of the test without kernels.
#pragma once
#include <hip/hip_runtime_api.h>
#include <shmemx.h>

// v * scale_of(row) + residual[row * n + col], a product in bf16.
inline float scale_of(size_t row) {
  return 1 + 0.25f * float(row % 4);
}
void enqueue_finished(shmemx_matmul_op_t op, shmemx_matmul_workspace_t workspace,
                      const shmemx_matmul_t &call, const float *residual, hipStream_t stream);
// Shard i of m rows for n members as a kernel sees it: its first row, and how many.
void enqueue_shard(size_t m, int n, int i, size_t *to, hipStream_t stream);
void enqueue_finished(const shmemx_matmul_t &call, const float *residual, hipStream_t stream);
