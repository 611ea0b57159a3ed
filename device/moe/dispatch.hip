// SPDX-License-Identifier: MIT
// The steps of dispatch.hpp as kernels on a stream.
#include "dispatch.hpp"

namespace shmem::moe {

namespace {

constexpr const char *fn = "shmemx_moe_dispatch_on_stream";

struct RouteCall {
  Moe moe;
  const int *ids;
  const float *weights;
  unsigned n;
};
__global__ void __launch_bounds__(device::max_threads) route(RouteCall argument) {
  const RouteCall &call = arch::argument(argument);
  find_routes(open(fn, call.moe), arch::workgroup_object<DispatchShared>(), call.ids, call.weights,
              call.n, arch::block().x);
}
struct EnterCall {
  Moe moe;
  unsigned chunks;
};
__global__ void __launch_bounds__(device::max_threads) enter(EnterCall argument) {
  const EnterCall &call = arch::argument(argument);
  enter_dispatch(open(fn, call.moe), arch::workgroup_object<DispatchShared>(), call.chunks);
}
struct DispatchCall {
  Moe moe;
  Tokens tokens;
};
template <bool routes>
__global__ void __launch_bounds__(device::max_threads) send(DispatchCall argument) {
  const DispatchCall &call = arch::argument(argument);
  send_tokens<routes>(fn, call.moe, arch::workgroup_object<DispatchShared>(), call.tokens,
                      AllBlocks{});
}
__global__ void __launch_bounds__(device::max_threads) leave(Moe argument) {
  const MoeCall c = open(fn, arch::argument(argument));
  c.tell(&MoeSignals::ended, [] { arch::fence_stream(); }); // what send stored, before the flag
  finish(c, arch::workgroup_object<DispatchShared>().totals, int(device::max_threads));
}
struct ExpandCall {
  Moe moe;
  unsigned batch;
};
__global__ void __launch_bounds__(device::max_threads) expand(ExpandCall argument) {
  const ExpandCall &call = arch::argument(argument);
  expand_rows(call.moe, arch::workgroup_object<DispatchShared>().batch, call.batch, AllBlocks{});
}

constexpr size_t shared_bytes = arch::launch_bytes<DispatchShared>;

} // namespace

hipError_t dispatch(const Moe &moe, const void *tokens, const void *scales, const int *ids,
                    const float *weights, unsigned n, Grids grids, hipStream_t stream) {
  const bool few = is_few(moe, n);
  const unsigned chunks = (n + chunk - 1) / chunk, most = few ? grids.waiting : grids.others,
                 batch = batch_of(n, few, most);
  hipError_t error = hipSuccess;
  const auto start = [&](auto *kernel, unsigned blocks, const auto &call) {
    if (!error)
      error = shmem::launch(kernel, dim3(blocks), dim3(device::max_threads), shared_bytes, stream,
                            call);
  };
  if (ids && !few) start(route, chunks, RouteCall{moe, ids, weights, n});
  if (!few) start(enter, 1, EnterCall{moe, ids ? chunks : 0});
  // A replay of few tokens finds their routing again.
  start(few ? send<true> : send<false>, blocks_for(n, batch, most),
        DispatchCall{moe,
                     {static_cast<const char *>(tokens), static_cast<const char *>(scales),
                      ids ? ids : moe.id, ids ? weights : moe.weight, n, batch, ids != nullptr}});
  if (!few) start(leave, 1, moe);
  if (moe.layout != SHMEMX_MOE_BY_PE)
    start(expand, blocks_for(unsigned(moe.n) * moe.tokens, 1, grids.others),
          ExpandCall{moe, most_tokens / 2});
  return error;
}

void look_at_dispatch(Residents &r) {
  r.look(send<true>);
}

} // namespace shmem::moe
