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
template <Operation::Kind kind> __global__ void transfer(Operation op, int pe) {
  constexpr bool puts = kind == Operation::put;
  const char *const fn = puts ? "a put on a stream" : "a get on a stream";
  arch::fence_stream(); // what earlier kernels stored in source, before the host reads it
  const Workgroup scope;
  const Blocks &b = op.transfer;
  char *const object = reinterpret_cast<char *>(op.offset), *const local = reinterpret_cast<char *>(
                                                                op.transfer.local);
  if (b.count == 1) {
    if constexpr (puts)
      device::put(fn, World{}, object, local, b.bytes, pe, scope);
    else
      device::get(fn, World{}, local, object, b.bytes, pe, scope);
    return;
  }
  const bool whole = device::ring::is_symmetric(local);
  const pattern::Extent e = pattern::part(b.count, 1, scope.rank(), whole ? 1 : scope.size());
  if (e.from >= e.to) return;
  char *const o = object + e.from * b.remote_stride, *const l = local + e.from * b.local_stride;
  const auto remote_stride = ptrdiff_t(b.remote_stride), local_stride = ptrdiff_t(b.local_stride);
  if constexpr (puts)
    device::ibput(fn, World{}, o, l, remote_stride, local_stride, b.bytes, e.to - e.from, pe,
                  Thread{});
  else
    device::ibget(fn, World{}, l, o, local_stride, remote_stride, b.bytes, e.to - e.from, pe,
                  Thread{});
}
__global__ void put_signal(char *dest, const char *source, size_t n, uint64_t *sig, uint64_t value,
                           int sig_op, int pe) {
  arch::fence_stream(); // as above
  device::put_signal("a put with signal on a stream", World{}, dest, source, n, sig, value, sig_op,
                     pe, Workgroup{});
}
__global__ void atomic(Operation op, void *fetch, int pe) {
  const char *const fn = "an atomic on a stream";
  const uint64_t value = op.operands.value;
  if (!fetch) return device::ring::update(fn, op.amo, op.width, op.offset, pe, value);
  const uint64_t seen =
      device::ring::fetch(fn, op.amo, op.width, op.offset, pe, value, op.operands.compare);
  if (op.width == 4)
    *static_cast<uint32_t *>(fetch) = uint32_t(seen);
  else
    *static_cast<uint64_t *>(fetch) = seen;
}
__global__ void deferred_atomics() {
  device::deferred::work();
}
template <class T> __device__ void store_one(const device::DeferredStores::One &s) {
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
    const Batch::One one{arch::load(&b->stores[i].where), arch::load(&b->stores[i].value)};
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

hipError_t transfer_remote(const Operation &op, int pe, hipStream_t stream) {
  return shmem::launch(op.kind == Operation::put ? transfer<Operation::put>
                                                 : transfer<Operation::get>,
                       dim3(1), dim3(256), 0, stream, op, pe);
}
hipError_t atomic_remote(const Operation &op, void *fetch, int pe, hipStream_t stream) {
  return shmem::launch(atomic, dim3(1), dim3(1), 0, stream, op, fetch, pe);
}
hipError_t put_signal_remote(void *dest, const void *source, size_t bytes, uint64_t *sig,
                             uint64_t value, int sig_op, int pe, hipStream_t stream) {
  return shmem::launch(put_signal, dim3(1), dim3(bytes <= 1024 ? 64 : 256), 0, stream,
                       static_cast<char *>(dest), static_cast<const char *>(source), bytes, sig,
                       value, sig_op, pe);
}
hipError_t deferred_on_stream(hipStream_t stream) {
  return shmem::launch(deferred_atomics, dim3(1), dim3(32), 0, stream);
}
hipError_t batch_on_stream(device::DeferredStores *b, unsigned n, hipStream_t stream) {
  return shmem::launch(batch, dim3(1), dim3(n <= 64 ? 64 : device::max_threads), 0, stream, b, n);
}
hipError_t quiet_remote(hipStream_t stream) {
  return shmem::launch(quiet, dim3(1), dim3(1), 0, stream);
}

} // namespace shmem::kernels
