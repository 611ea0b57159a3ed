// SPDX-License-Identifier: MIT
// Matrix products as lib/ calls them.
#pragma once
#include <cstddef>
#include <hip/hip_runtime_api.h>

namespace shmem::gemm {

enum class Type : int { f32, f16, bf16, f8 };
enum class Activation : int { none, relu, gelu, silu };

// C = act(A B + bias), C m x n and A m x k; by rows, ld elements from one to the next. A transposed
// operand is in memory with its columns as rows. The sums are fp32 and rounded once.
struct Matmul {
  Type type, out; // of A and B; of C and bias
  size_t m, n, k;
  const void *a, *b;
  void *c;
  const void *bias; // n elements, or NULL
  size_t lda, ldb, ldc;
  bool trans_a, trans_b;
  Activation act;
};
hipError_t matmul(const Matmul &call, hipStream_t stream);

} // namespace shmem::gemm
