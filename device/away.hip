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

// n blocks; what names them is in bytes. One that the host reaches is a single request of one
// thread; where it does not, the threads share out the blocks, or one block.
template <Remote remote>
__global__ void transfer(char *dest, const char *source, Strides by, size_t n, int pe) {
  constexpr bool puts = remote == Remote::dest;
  const char *const fn = puts ? "a put on a stream" : "a get on a stream";
  arch::fence_stream(); // what earlier kernels stored in source, before the host reads it
  const Workgroup scope;
  if (n == 1) {
    if constexpr (puts)
      device::put(fn, World{}, dest, source, by.unit, pe, scope);
    else
      device::get(fn, World{}, dest, source, by.unit, pe, scope);
    return;
  }
  const bool whole = device::ring::is_symmetric(puts ? source : dest);
  const pattern::Extent e = pattern::part(n, 1, scope.rank(), whole ? 1 : scope.size());
  if (e.from >= e.to) return;
  char *const d = dest + ptrdiff_t(e.from) * by.dst;
  const char *const s = source + ptrdiff_t(e.from) * by.sst;
  if constexpr (puts)
    device::ibput(fn, World{}, d, s, by.dst, by.sst, by.unit, e.to - e.from, pe, Thread{});
  else
    device::ibget(fn, World{}, d, s, by.dst, by.sst, by.unit, e.to - e.from, pe, Thread{});
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
  if (!fetch) return device::ring::amo("an atomic on a stream", op, p, pe, value);
  *fetch = device::ring::fetch_amo("an atomic on a stream", op, p, pe, value, cond);
}
__global__ void errands() {
  device::errand::work();
}
template <class T> __device__ void store_one(const device::Stores::One &one) {
  arch::store(reinterpret_cast<T *>(one.address()), T(one.value));
}
// One thread asks whether it is to be done: a word of host memory that 512 threads read took an
// H100 13 us (2026-11-24).
__global__ void stores(device::Stores *s, unsigned n) {
  using device::Stores;
  const Workgroup scope;
  __shared__ bool taken_back;
  if (scope.rank() == 0) {
    arch::store(&s->state, uint32_t(Stores::begun));
    arch::fence_all(); // that before taken_back is loaded, as the host's are
    taken_back = arch::load(&s->taken_back);
    if (taken_back) arch::store(&s->state, uint32_t(Stores::declined));
  }
  scope.sync();
  if (taken_back) return;
  for (unsigned i = scope.rank(); i < n; i += scope.size()) {
    const Stores::One one{arch::load(&s->one[i].where), arch::load(&s->one[i].value)};
    switch (one.bytes()) {
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
    arch::store<Order::release>(&s->state, uint32_t(Stores::done)); // after them
}
__global__ void quiet() {
  device::quiet("quiet on a stream", World{}, Thread{});
}

} // namespace

hipError_t transfer_away(void *dest, const void *source, const Strides &strides, size_t block,
                         size_t n, Remote remote, int pe, hipStream_t stream) {
  const Strides by{strides.dst * ptrdiff_t(strides.unit), strides.sst * ptrdiff_t(strides.unit),
                   block * strides.unit};
  return shmem::launch(remote == Remote::source ? transfer<Remote::source> : transfer<Remote::dest>,
                       dim3(1), dim3(256), 0, stream, static_cast<char *>(dest),
                       static_cast<const char *>(source), by, n, pe);
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
hipError_t errands_on_stream(hipStream_t stream) {
  return shmem::launch(errands, dim3(1), dim3(32), 0, stream);
}
hipError_t stores_on_stream(device::Stores *s, unsigned n, hipStream_t stream) {
  return shmem::launch(stores, dim3(1), dim3(n <= 64 ? 64 : device::max_threads), 0, stream, s, n);
}
hipError_t quiet_away(hipStream_t stream) {
  return shmem::launch(quiet, dim3(1), dim3(1), 0, stream);
}

} // namespace shmem::kernels
