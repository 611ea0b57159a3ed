// SPDX-License-Identifier: MIT
// Combine loads the rows of the other members. It stores nothing at them meanwhile: links carry less
// where requests for reads go beside writes.
#include "members.hpp"

#include "../element.hpp"

namespace shmem::moe {

namespace {

using device::Lanes, device::Pack;

constexpr const char *fn = "shmemx_moe_combine_on_stream";

struct CombineShared {
  TokenBatch batch;
  unsigned seen; // of is_last
};

template <int n> using Deep = std::integral_constant<int, n>;

// Adds a pack of each of up to n rows, from entry j of the batch on; their loads are in flight at
// once. Where there is no row, a pack of this PE's own is loaded and not added: nvcc gave loads
// under a condition no registers of their own, and so waited for each (2026-11-27).
template <class T, int n>
SHMEM_D_ void add(Lanes<T> &sum, const TokenBatch &b, unsigned j, unsigned end, const char *rows,
                  size_t row_bytes, unsigned in) {
  Pack v[n];
  SHMEM_UNROLL_
  for (unsigned q = 0; q < unsigned(n); q++) {
    const bool has = j + q < end && b.row[j + q] >= 0;
    const uintptr_t from = has ? b.delta[j + q] + size_t(unsigned(b.row[j + q])) * row_bytes : 0;
    v[q] = arch::load_global(
        reinterpret_cast<const Pack *>(reinterpret_cast<uintptr_t>(rows) + from) + in);
  }
  SHMEM_UNROLL_
  for (unsigned q = 0; q < unsigned(n); q++) {
    if (j + q >= end || b.row[j + q] < 0) continue;
    const Lanes<T> more = device::unpack<T>(v[q]);
    SHMEM_UNROLL_
    for (int i = 0; i < Lanes<T>::n; i++)
      sum.v[i] = __builtin_fmaf(b.weight[j + q], more.v[i], sum.v[i]);
  }
}

template <class T>
__global__ void __launch_bounds__(device::max_threads)
    gather(Moe argument, const char *rows, const uintptr_t *row_deltas, char *out, unsigned n,
           unsigned batch, bool weighted, bool meets) {
  const Moe &moe = arch::argument<>(argument);
  CombineShared &shared = arch::workgroup_object<CombineShared>();
  TokenBatch &b = shared.batch;
  const Workgroup scope;
  const unsigned rank = scope.rank(), size = scope.size(), k = unsigned(moe.top_k),
                 packs = unsigned(moe.row_bytes / 16);
  const uint64_t members = members_of(moe), epoch = epoch_of(moe);
  if (meets && arch::block().x == 0) {
    arch::fence_stream(); // the rows, before the flag
    tell(moe, &MoeSignals::entered, epoch, members);
  }
  if (!meets) arch::polled(); // the others' rows, before the flags that enter has seen
  bool waits = meets;         // after the first places have been looked up
  for (unsigned first = arch::block().x * batch; first < n; first += arch::blocks().x * batch) {
    const unsigned count = n - first < batch ? n - first : batch;
    scope.sync();
    for (unsigned i = rank; i < count * k; i += size) {
      const size_t at = size_t(first) * k + i;
      const int e = arch::load_global(moe.id + at), place = arch::load_global(moe.place + at);
      int row = -1;
      if (e >= 0 && place >= 0 && is_in(members, e / moe.local)) {
        row = arch::load_global(moe.base + e) + place;
        if (row >= arch::load_global(moe.bound + e)) row = -1;
        const int member = e / moe.local;
        b.delta[i] =
            row_deltas
                ? arch::load_global(row_deltas + arch::load_global(&moe.signals->pe[member])) &
                      ~device::tags
                : arch::load_global(&moe.signals->delta[member]);
      }
      b.row[i] = row;
      b.weight[i] = weighted ? arch::load_global(moe.weight + at) : 1.0f;
    }
    if (waits) wait_all(fn, moe, &MoeSignals::entered, epoch, members);
    waits = false;
    scope.sync();
    for (unsigned i = rank; i < count * packs; i += size) {
      const unsigned t = i / packs, in = i % packs;
      Lanes<T> sum = {};
      const unsigned end = t * k + k;
      const auto some = [&](auto deep, unsigned j) {
        add<T, decltype(deep)::value>(sum, b, j, end, rows, moe.row_bytes, in);
      };
      unsigned j = t * k;
      for (; end - j > 4; j += end - j < 8 ? end - j : 8) some(Deep<8>{}, j);
      if (end - j > 2)
        some(Deep<4>{}, j);
      else if (end - j > 0)
        some(Deep<2>{}, j);
      arch::store_global(reinterpret_cast<Pack *>(out + size_t(first) * moe.row_bytes) + i,
                         device::pack<T>(sum));
    }
  }
  if (waits) wait_all(fn, moe, &MoeSignals::entered, epoch, members);
  if (!meets || !is_last(moe, shared.seen)) return;
  arch::fence_release();
  meet(fn, moe, epoch, members);
}

// What is before and behind gather if its workgroups do not wait.
__global__ void __launch_bounds__(device::max_wave) enter(Moe argument) {
  const Moe &moe = arch::argument<>(argument);
  const uint64_t members = members_of(moe), epoch = epoch_of(moe);
  arch::fence_stream(); // the rows, before the flag
  tell(moe, &MoeSignals::entered, epoch, members);
  wait_all(fn, moe, &MoeSignals::entered, epoch, members);
}
__global__ void __launch_bounds__(device::max_wave) leave(Moe argument) {
  const Moe &moe = arch::argument<>(argument);
  arch::fence_stream(); // gather's loads, before the flag
  meet(fn, moe, epoch_of(moe), members_of(moe));
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
                            shared_bytes, stream, moe, static_cast<const char *>(rows), row,
                            static_cast<char *>(out), n, batch,
                            weighted && moe.layout != SHMEMX_MOE_BY_PE, few);
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
  int units = 0, least = 0;
  hipError_t error = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
  if (!error) error = residents_of_dispatch(&least);
  const auto look = [&](auto *kernel) {
    int each = 0;
    if (!error)
      error = hipOccupancyMaxActiveBlocksPerMultiprocessor(&each, arch::launchable(kernel),
                                                           int(device::max_threads), shared_bytes);
    least = each < least ? each : least;
  };
  look(gather<float>);
  look(gather<Half>);
  look(gather<Bfloat16>);
  *blocks = unsigned(units) * unsigned(least);
  return error;
}

} // namespace shmem::moe
