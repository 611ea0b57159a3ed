// SPDX-License-Identifier: MIT
// Matrix products as lib/ and fused.hpp call them.
#pragma once
#include "../state.hpp"
#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime_api.h>
#include <shmemx.h>

namespace shmem::gemm {

// With the values of shmemx.h.
enum class Type { f32 = SHMEMX_F32, f16 = SHMEMX_F16, bf16 = SHMEMX_BF16, f8 = SHMEMX_F8 };
enum class Activation {
  none = SHMEMX_ACTIVATION_NONE,
  relu = SHMEMX_ACTIVATION_RELU,
  gelu = SHMEMX_ACTIVATION_GELU,
  silu = SHMEMX_ACTIVATION_SILU
};
constexpr size_t bytes_of(Type type) {
  return type == Type::f32 ? 4 : type == Type::f8 ? 1 : 2;
}

// When data goes to the others:
//   fused      tile by tile, by workgroups of the product's own kernel
//   streams    shard by shard, by the copy engines, while the next one is multiplied
//   bulk       before the product or after it
// gather_matmul has no fused form, because kernels that fill the GPU never wait for a peer.
enum class Algorithm {
  best = SHMEMX_MATMUL_BEST,
  fused = SHMEMX_MATMUL_FUSED,
  streams = SHMEMX_MATMUL_STREAMS,
  bulk = SHMEMX_MATMUL_BULK
};

// The rate at which data leaves a GPU for all others together, in bytes/us. These are an H200's,
// 2026-11.
struct Links {
  double kernels = 400e3, engines = 340e3;
};

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
  Algorithm algorithm = Algorithm::best; // of products of several PEs
  bool small_tiles = false;              // so that the first ones end early
  // From the buffer that C lies in to each PE's: for kernels and for the host; or NULL.
  const uintptr_t *c_row = nullptr, *c_delta = nullptr;
  Links links = {};
};

// The products of several members. Rows are cut into as many shards as there are members, of
// ceil(rows / members) each.
//   reduce_scatter  each has a part of K; member i gets shard i of the sum of their products
//   all_reduce      all get all of it
//   all_gather      each has a shard of A's and C's rows; all get all of C
//   gather_matmul   each has a shard of A's rows; all compute with all of them
//   none            the product of one PE
enum class Fused {
  reduce_scatter = SHMEMX_MATMUL_REDUCE_SCATTER,
  all_reduce = SHMEMX_MATMUL_ALL_REDUCE,
  all_gather = SHMEMX_MATMUL_ALL_GATHER,
  gather_matmul = SHMEMX_ALL_GATHER_MATMUL,
  none
};

// The PEs that share a product, and the flags by which their kernels know of each other. A flag is
// an epoch, the number of the call; it only grows. Epochs are counted on the device, so that the
// same launches can be replayed from a graph.
inline constexpr int max_members = 8;
inline constexpr unsigned max_workers = 1024; // workgroups of a kernel that multiply

// On a line of its own, because a peer stores it and this PE polls it.
struct alignas(device::cache_line) Flag {
  uint64_t epoch;
};
struct Flags {
  Flag of[max_members];
};
// At the same place on each PE. Member i writes the i-th of each kind of flag at all others.
struct Signals {
  Flags entered;  // its stream has come to the call: the call may write there
  Flags arrived;  // its data for this PE is here
  Flags gathered; // so is its data that follows the reduction
  Flags consumed; // it is done with this PE's data
  alignas(device::cache_line) uint64_t epoch; // of the last call that has ended here
  uintptr_t delta[max_members];   // from an object here to that of member i, if it is mapped
  uintptr_t c_delta[max_members]; // the same for the region of the running call's C, maybe a buffer
  int pe[max_members];            // the PE that is member i
  // Of the running call, written by this PE alone; zero again at its end.
  struct {
    alignas(device::cache_line) unsigned begun;  // workgroups that multiply
    alignas(device::cache_line) unsigned ended;  // workgroups that sum
    alignas(device::cache_line) unsigned ticket; // bands of tiles that waves have begun to send
    // The tile that a workgroup ended last, plus one.
    alignas(device::cache_line) unsigned progress[max_workers];
  } call;
};
struct Members {
  int me, n;
  Signals *own;
};

// A stream and events for Algorithm::streams.
struct Copies {
  hipStream_t stream;
  hipEvent_t begin, end;
  uintptr_t delta[max_members]; // as those of Signals
  unsigned remote;              // the members that are not mapped, one bit each
  int pe[max_members];
};

// A member's memory for a shape, kept from call to call. It is at the same place on each PE, has
// workspace_bytes of the shape, and starts on a line.
struct Workspace {
  Fused op;
  Members members; // none for a PE without a team
  Copies copies;
  char *memory;
  Links links;
};
size_t workspace_bytes(Fused op, const Matmul &shape, int members);
// The size of the structs that the templates of a program share with the library. By it
// shmemx_matmul_launch finds that the two were compiled from different versions.
inline constexpr size_t shared_bytes = sizeof(Workspace) + sizeof(Matmul) + sizeof(Signals);

// Queues a checked call on the stream. Without a workspace it is the product of one PE. m is that
// of the whole; C of all_reduce and all_gather is on the symmetric heap. `finish` is the caller's
// finish for the functions of fused.hpp; the library's, below, takes none.
using Launch = hipError_t (*)(const Workspace *workspace, const Matmul &call, hipStream_t stream,
                              const void *finish);
hipError_t matmul(const Workspace *workspace, const Matmul &call, hipStream_t stream,
                  const void *finish = nullptr);

} // namespace shmem::gemm

// Checks a call as the C routines do, and launches it. A wrong call ends the job with one line that
// names `fn`.
extern "C" void shmemx_matmul_launch(const char *fn, size_t shared_bytes, shmem::gemm::Fused op,
                                     shmemx_matmul_workspace_t workspace,
                                     const shmemx_matmul_t *call, shmemx_stream_t stream,
                                     shmem::gemm::Launch launch, const void *finish);
