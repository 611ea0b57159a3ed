// SPDX-License-Identifier: MIT
#include <shmem/device/moe/wg.hpp>
#include <shmem/device/shmem.hpp>

#include "../hip.hpp"
#include "workgroups.hpp"

namespace {

using shmem::moe::Moe;

struct Tokens {
  const void *tokens, *scales;
  const int *ids;
  const float *weights;
  unsigned n;
};
__global__ void __launch_bounds__(512) dispatch_kernel(Moe moe, Tokens t) {
  shmem::moe::dispatch_wg(moe, t.tokens, t.scales, t.ids, t.weights, t.n, blockIdx.x, gridDim.x);
}
struct Rows {
  const void *rows;
  void *out;
  unsigned n;
  bool weighted;
};
__global__ void __launch_bounds__(512) combine_kernel(Moe moe, Rows r) {
  shmem::moe::combine_wg(moe, r.rows, r.out, r.n, r.weighted, blockIdx.x, gridDim.x);
}

// Calls have different numbers of workgroups and threads.
dim3 blocks() {
  static unsigned call;
  return dim3(1 + call++ % 4);
}
constexpr unsigned threads_of(int n) {
  return n % 2 ? 256 : 512;
}

} // namespace

void dispatch_by_workgroups(shmemx_moe_t moe, const void *tokens, const void *scales,
                            const int *ids, const float *weights, int n, hipStream_t stream,
                            unsigned threads) {
  hipLaunchKernelGGL(dispatch_kernel, blocks(), dim3(threads ? threads : threads_of(n)),
                     shmem::moe::workgroup_bytes, stream, shmem::moe::kernel_object(moe),
                     Tokens{tokens, scales, ids, weights, unsigned(n)});
  HIP(hipGetLastError());
}
void combine_by_workgroups(shmemx_moe_t moe, const void *rows, void *out, int n, bool weighted,
                           hipStream_t stream) {
  hipLaunchKernelGGL(combine_kernel, blocks(), dim3(threads_of(n)), shmem::moe::workgroup_bytes,
                     stream, shmem::moe::kernel_object(moe),
                     Rows{rows, out, unsigned(n), weighted});
  HIP(hipGetLastError());
}
