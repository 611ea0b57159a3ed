// SPDX-License-Identifier: MIT
// The steps of dispatch.hpp as kernels on a stream.
#include "dispatch.hpp"

namespace shmem::moe {

namespace {

constexpr const char *fn = "shmemx_moe_dispatch_on_stream";

__global__ void __launch_bounds__(device::max_threads)
    route(Moe argument, const int *ids, const float *weights, unsigned n) {
  find_routes(open(fn, arch::argument<>(argument)), arch::workgroup_object<DispatchShared>(), ids,
              weights, n, arch::block().x);
}
__global__ void __launch_bounds__(device::max_threads) enter(Moe argument, unsigned chunks) {
  enter_dispatch(open(fn, arch::argument<>(argument)), arch::workgroup_object<DispatchShared>(),
                 chunks);
}
template <bool routes>
__global__ void __launch_bounds__(device::max_threads)
    send(Moe argument, const char *tokens, const char *scales, const int *ids, const float *weights,
         unsigned n, unsigned batch, bool keeps) {
  send_tokens<routes>(fn, arch::argument<>(argument), arch::workgroup_object<DispatchShared>(),
                      tokens, scales, ids, weights, n, batch, keeps, AllBlocks{});
}
__global__ void __launch_bounds__(device::max_threads) leave(Moe argument) {
  const MoeCall c = open(fn, arch::argument<>(argument));
  c.tell(&MoeSignals::ended, [] { arch::fence_stream(); }); // what send stored, before the flag
  finish(c, arch::workgroup_object<DispatchShared>().totals);
}
__global__ void __launch_bounds__(device::max_threads) expand(Moe argument, unsigned batch) {
  expand_rows(arch::argument<>(argument), arch::workgroup_object<DispatchShared>().batch, batch,
              AllBlocks{});
}

constexpr size_t shared_bytes = arch::launch_bytes<DispatchShared>;

} // namespace

hipError_t dispatch(const Moe &moe, const void *tokens, const void *scales, const int *ids,
                    const float *weights, unsigned n, Grids grids, hipStream_t stream) {
  const bool few = is_few(moe, n);
  const unsigned chunks = (n + chunk - 1) / chunk, most = few ? grids.waiting : grids.others,
                 batch = batch_of(n, few, most);
  hipError_t error = hipSuccess;
  const auto start = [&](auto *kernel, unsigned blocks, const auto &...arguments) {
    if (!error)
      error = shmem::launch(kernel, dim3(blocks), dim3(device::max_threads), shared_bytes, stream,
                            moe, arguments...);
  };
  if (ids && !few) start(route, chunks, ids, weights, n);
  if (!few) start(enter, 1, ids ? chunks : 0);
  // A replay of few tokens finds their routing again.
  start(few ? send<true> : send<false>, blocks_for(n, batch, most),
        static_cast<const char *>(tokens), static_cast<const char *>(scales), ids ? ids : moe.id,
        ids ? weights : moe.weight, n, batch, ids != nullptr);
  if (!few) start(leave, 1);
  if (moe.layout != SHMEMX_MOE_BY_PE)
    start(expand, blocks_for(unsigned(moe.n) * moe.tokens, 1, grids.others), most_tokens / 2);
  return error;
}

hipError_t residents_of_dispatch(int *blocks) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, arch::launchable(send<true>),
                                                      int(device::max_threads), shared_bytes);
}

} // namespace shmem::moe
