// SPDX-License-Identifier: MIT
// The library's products: for all types, with bias and activation.
#include "fused.hpp"

namespace shmem::gemm {

// reduce_scatter and all_reduce have the product here, padded, and then the boxes into which the
// members send, twice, for calls of even and of odd number; gather_matmul the rows of all.
size_t workspace_bytes(Fused op, const Matmul &shape, int members) {
  if (op == Fused::all_gather) return 0;
  const size_t all = shard_of(shape.m, members, 0).rows * size_t(members);
  if (op == Fused::gather_matmul) return all * padded(shape.k, shape.type) * bytes_of(shape.type);
  return 3 * all * padded(shape.n, shape.out) * bytes_of(shape.out);
}

hipError_t matmul(const Workspace *workspace, const Matmul &call, hipStream_t stream,
                  const void *) {
  const BiasActivation finish{call.out, call.act, call.bias};
  const bool finishes = call.bias || call.act != Activation::none;
  switch (call.type) {
  case Type::f32:
    return launch_matmul<float>(workspace, call, finish, finishes, stream);
  case Type::f16:
    return launch_matmul<Half>(workspace, call, finish, finishes, stream);
  case Type::bf16:
    return launch_matmul<Bfloat16>(workspace, call, finish, finishes, stream);
  case Type::f8:
    return launch_matmul<Float8>(workspace, call, finish, finishes, stream);
  }
  return hipErrorInvalidValue;
}

} // namespace shmem::gemm
