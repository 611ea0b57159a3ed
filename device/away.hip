// SPDX-License-Identifier: MIT
// The library's kernels for PEs that are not mapped: the calls of kernels, given to a stream. In
// builds with a network only.
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "amo.hpp"
#include "launch.hpp"
#include "module.hpp"
#include "order.hpp"
#include "signal.hpp"

namespace shmem::kernels {

namespace {

using device::World;

// The host reaches most memory; then one thread posts one request for all blocks. If it does not,
// the threads share out the blocks, or the only block.
template <Remote remote>
__global__ void transfer(char *dest, const char *source, Blocks b, int pe) {
  constexpr bool puts = remote == Remote::dest;
  const char *const fn = puts ? "a put on a stream" : "a get on a stream";
  arch::fence_stream(); // what earlier kernels stored in source, before the host reads it
  const Workgroup scope;
  if (b.count == 1) {
    if constexpr (puts)
      device::put(fn, World{}, dest, source, b.bytes, pe, scope);
    else
      device::get(fn, World{}, dest, source, b.bytes, pe, scope);
    return;
  }
  const auto dst = ptrdiff_t(puts ? b.remote_stride : b.local_stride),
             sst = ptrdiff_t(puts ? b.local_stride : b.remote_stride);
  const bool whole = device::ring::is_symmetric(puts ? source : dest);
  const pattern::Extent e = pattern::part(b.count, 1, scope.rank(), whole ? 1 : scope.size());
  if (e.from >= e.to) return;
  char *const d = dest + ptrdiff_t(e.from) * dst;
  const char *const s = source + ptrdiff_t(e.from) * sst;
  if constexpr (puts)
    device::ibput(fn, World{}, d, s, dst, sst, b.bytes, e.to - e.from, pe, Thread{});
  else
    device::ibget(fn, World{}, d, s, dst, sst, b.bytes, e.to - e.from, pe, Thread{});
}
template <class T> __global__ void store(T *dest, T value, int pe) {
  device::p("a put on a stream", World{}, dest, value, pe, Thread{});
}
__global__ void put_signal(char *dest, const char *source, size_t n, uint64_t *sig, uint64_t value,
                           int sig_op, int pe) {
  arch::fence_stream(); // as above
  device::put_signal("a put with signal on a stream", World{}, dest, source, n, sig, value, sig_op,
                     pe, Workgroup{});
}
template <class T> __global__ void atomic(Amo op, T *p, T value, T cond, T *fetch, int pe) {
  if (!fetch) return device::ring::update("an atomic on a stream", op, p, pe, value);
  *fetch = device::ring::fetch("an atomic on a stream", op, p, pe, value, cond);
}
__global__ void deferred_atomics() {
  device::deferred::work();
}
template <class T> __device__ void store_one(const device::DeferredStores::Store &s) {
  arch::store(reinterpret_cast<T *>(s.address()), T(s.value));
}
// One thread asks whether the host has taken the batch back: a read of one word of host memory by
// 512 threads took an H100 13 us (2026-11-24).
__global__ void batch(device::DeferredStores *b, unsigned n) {
  using Batch = device::DeferredStores;
  const Workgroup scope;
  __shared__ bool taken_back;
  if (scope.rank() == 0) {
    arch::store(&b->state, uint32_t(Batch::begun));
    arch::fence_all(); // the store before the load of taken_back, as on the host
    taken_back = arch::load(&b->taken_back);
    if (taken_back) arch::store(&b->state, uint32_t(Batch::declined));
  }
  scope.sync();
  if (taken_back) return;
  for (unsigned i = scope.rank(); i < n; i += scope.size()) {
    const Batch::Store one{arch::load(&b->stores[i].where), arch::load(&b->stores[i].value)};
    switch (one.width()) {
    case 1:
      store_one<uint8_t>(one);
      break;
    case 2:
      store_one<uint16_t>(one);
      break;
    case 4:
      store_one<uint32_t>(one);
      break;
    default:
      store_one<uint64_t>(one);
    }
  }
  device::settle(scope);
  if (scope.rank() == 0)
    arch::store<Order::release>(&b->state, uint32_t(Batch::done)); // after them
}
__global__ void quiet() {
  device::quiet("quiet on a stream", World{}, Thread{});
}

} // namespace

hipError_t transfer_away(void *dest, const void *source, const Blocks &b, Remote remote, int pe,
                         hipStream_t stream) {
  return shmem::launch(remote == Remote::source ? transfer<Remote::source> : transfer<Remote::dest>,
                       dim3(1), dim3(256), 0, stream, static_cast<char *>(dest),
                       static_cast<const char *>(source), b, pe);
}
hipError_t store_away(void *dest, uint64_t value, size_t bytes, int pe, hipStream_t stream) {
  const auto as = [&](auto word) {
    using T = decltype(word);
    return shmem::launch(store<T>, dim3(1), dim3(1), 0, stream, static_cast<T *>(dest), T(value),
                         pe);
  };
  return bytes == 8   ? as(uint64_t{})
         : bytes == 4 ? as(uint32_t{})
         : bytes == 2 ? as(uint16_t{})
                      : as(uint8_t{});
}
hipError_t put_signal_away(void *dest, const void *source, size_t bytes, uint64_t *sig,
                           uint64_t value, int sig_op, int pe, hipStream_t stream) {
  return shmem::launch(put_signal, dim3(1), dim3(bytes <= 1024 ? 64 : 256), 0, stream,
                       static_cast<char *>(dest), static_cast<const char *>(source), bytes, sig,
                       value, sig_op, pe);
}
hipError_t atomic_away(Amo op, void *p, size_t bytes, uint64_t value, uint64_t cond, void *fetch,
                       int pe, hipStream_t stream) {
  const auto as = [&](auto word) {
    using T = decltype(word);
    return shmem::launch(atomic<T>, dim3(1), dim3(1), 0, stream, op, static_cast<T *>(p), T(value),
                         T(cond), static_cast<T *>(fetch), pe);
  };
  return bytes == 8 ? as(uint64_t{}) : as(uint32_t{});
}
hipError_t deferred_on_stream(hipStream_t stream) {
  return shmem::launch(deferred_atomics, dim3(1), dim3(32), 0, stream);
}
hipError_t batch_on_stream(device::DeferredStores *b, unsigned n, hipStream_t stream) {
  return shmem::launch(batch, dim3(1), dim3(n <= 64 ? 64 : device::max_threads), 0, stream, b, n);
}
hipError_t quiet_away(hipStream_t stream) {
  return shmem::launch(quiet, dim3(1), dim3(1), 0, stream);
}

} // namespace shmem::kernels
