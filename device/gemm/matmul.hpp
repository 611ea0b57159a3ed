// SPDX-License-Identifier: MIT
// Matrix products as lib/ calls them.
#pragma once
#include <cstddef>
#include <cstdint>
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

// The PEs that share a product, and the flags by which their kernels know of each other. A flag is
// an epoch, the number of the call; it only grows. Epochs are counted on the device, so that the
// same launches can be replayed from a graph.
inline constexpr int max_members = 8;

// In lines of its own: a peer stores it, this PE polls it.
struct alignas(128) Flag {
  uint64_t epoch;
};
// On each PE, at the same place. Member i writes the i-th of each at all others.
struct Signals {
  Flag entered[max_members];    // its stream has come to the call: what that writes may be written
  Flag arrived[max_members];    // all that it sends to this PE is here
  Flag gathered[max_members];   // so is all that follows the reduction
  Flag consumed[max_members];   // it has no more use for what this PE sent
  alignas(128) uint64_t epoch;  // of the last call that is over here
  ptrdiff_t delta[max_members]; // from an object here to that of member i
};
struct Members {
  int me, n;
  Signals *own;
};

// A stream and events for gather_matmul, so that copies to the others run beside a product.
struct Copies {
  hipStream_t stream;
  hipEvent_t begin, end;
  ptrdiff_t delta[max_members]; // as those of Signals
};

// Boxes are on each PE at the same place: the shape's box_bytes, twice for calls of even and of odd
// number. m is that of the whole; C of all_reduce and all_gather is on the symmetric heap.
size_t box_bytes(Fused op, const Matmul &shape, int members);
hipError_t fused(Fused op, const Members &members, char *boxes, const Copies &copies,
                 const Matmul &call, hipStream_t stream);

} // namespace shmem::gemm
