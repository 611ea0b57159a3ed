// SPDX-License-Identifier: MIT
// The steps of combine.hpp as kernels on a stream.
#include "combine.hpp"

namespace shmem::moe {

namespace {

constexpr const char *fn = "shmemx_moe_combine_on_stream";

struct GatherCall {
  Moe moe;
  RowSums sums;
  const uintptr_t *row_deltas;
};
template <class T>
__global__ void __launch_bounds__(device::max_threads) gather(GatherCall argument) {
  const GatherCall &call = arch::argument(argument);
  const MoeCall c = open(fn, call.moe);
  const auto row_delta = [&] {
    return call.row_deltas ? arch::load_global(call.row_deltas +
                                               arch::load_global(&c.moe.signals->pe[c.rank])) &
                                 ~device::tags
                           : c.delta;
  };
  sum_rows<T>(c, arch::workgroup_object<CombineShared>(), call.sums, row_delta, AllBlocks{},
              [] { arch::fence_stream(); });
}

// The members meet in these kernels if the workgroups of gather wait for no PE.
__global__ void __launch_bounds__(device::max_wave) enter(Moe argument) {
  const MoeCall c = open(fn, arch::argument(argument));
  c.tell(&MoeSignals::entered, [] { arch::fence_stream(); }); // the rows, before the flag
  c.wait(&MoeSignals::entered);
}
__global__ void __launch_bounds__(device::max_wave) leave(Moe argument) {
  const MoeCall c = open(fn, arch::argument(argument));
  c.tell(&MoeSignals::ended, [] { arch::fence_stream(); }); // gather's loads, before the flag
  c.end([] {});
}

constexpr size_t shared_bytes = arch::launch_bytes<CombineShared>;

} // namespace

hipError_t combine(const Moe &moe, const void *rows, const uintptr_t *row, void *out, unsigned n,
                   bool weighted, Grids grids, hipStream_t stream) {
  const bool few = is_few(moe, n);
  const unsigned most = few ? grids.waiting : grids.others, batch = batch_of(n, few, most);
  const auto start = [&](auto *kernel) {
    const dim3 one(1), wave(device::max_wave);
    hipError_t error = few ? hipSuccess : shmem::launch(enter, one, wave, 0, stream, moe);
    if (!error)
      error = shmem::launch(kernel, dim3(blocks_for(n, batch, most)), dim3(device::max_threads),
                            shared_bytes, stream,
                            GatherCall{moe,
                                       {static_cast<const char *>(rows), static_cast<char *>(out),
                                        n, batch, weighted && moe.layout != SHMEMX_MOE_BY_PE, few},
                                       row});
    return few || error ? error : shmem::launch(leave, one, wave, 0, stream, moe);
  };
  switch (moe.type) {
  case SHMEMX_F16:
    return start(gather<Half>);
  case SHMEMX_BF16:
    return start(gather<Bfloat16>);
  default:
    return start(gather<float>);
  }
}

hipError_t residents(int device, unsigned *blocks) {
  Residents r{device::max_threads, shared_bytes};
  look_at_dispatch(r);
  r.look(gather<float>);
  r.look(gather<Half>);
  r.look(gather<Bfloat16>);
  return r.on(device, blocks);
}

} // namespace shmem::moe
