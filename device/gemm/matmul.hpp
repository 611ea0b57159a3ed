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

// What the members of a product do with it. Rows are cut into as many shards as there are members,
// of ceil(rows / members) each.
//   reduce_scatter  each has a part of K; member i gets shard i of the sum of their products
//   all_reduce      all get all of it
//   all_gather      each has a shard of A's and C's rows; all get all of C
//   gather_matmul   each has a shard of A's rows; all compute with all of them
enum class Fused : int { reduce_scatter, all_reduce, all_gather, gather_matmul };

struct Members;
struct Signals;
// Where the members meet, made once for a shape. m is that of the whole.
struct Workspace {
  Fused op;
  Type type, out;
  size_t m, n, k;
  const Members *members;
  char
      *boxes; // on each PE at the same place: box_bytes, twice, for calls of even and of odd number
};
size_t signal_bytes();
size_t box_bytes(Fused op, Type type, Type out, size_t m, size_t n, size_t k, int members);

// As Matmul says, but m is that of the whole and C, for all but reduce_scatter and gather_matmul,
// on the symmetric heap. For reduce_scatter and all_reduce, bias and act come after the sum.
hipError_t fused(const Workspace &workspace, const Matmul &call, hipStream_t stream);

} // namespace shmem::gemm
