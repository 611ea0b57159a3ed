// SPDX-License-Identifier: MIT
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "arch.hpp"
#include "element.hpp"
#include "launch.hpp"

namespace shmem::kernels {

namespace {

template <class W> __device__ W apply(Atomic op, W *p, W value, W cond) {
  switch (op) {
  case Atomic::fetch:
    return arch::load<Order::acquire>(p);
  case Atomic::set:
    return arch::exchange<Order::release>(p, value);
  case Atomic::swap:
    return arch::exchange<Order::acq_rel>(p, value);
  case Atomic::cas:
    return arch::compare_exchange<Order::acq_rel>(p, cond, value);
  case Atomic::add:
    return arch::fetch_add<Order::acq_rel>(p, value);
  case Atomic::and_:
    return arch::fetch_and<Order::acq_rel>(p, value);
  case Atomic::or_:
    return arch::fetch_or<Order::acq_rel>(p, value);
  case Atomic::xor_:
    return arch::fetch_xor<Order::acq_rel>(p, value);
  }
  return 0;
}

template <class W> __global__ void one_atomic(Atomic op, W *p, W value, W cond, uint64_t *result) {
  *result = apply(op, p, value, cond);
}

} // namespace

hipError_t atomic(Atomic op, void *p, size_t bytes, uint64_t value, uint64_t cond, uint64_t *result,
                  hipStream_t stream) {
  if (bytes == 4)
    return shmem::launch(one_atomic<uint32_t>, dim3(1), dim3(1), 0, stream, op,
                         static_cast<uint32_t *>(p), uint32_t(value), uint32_t(cond), result);
  return shmem::launch(one_atomic<uint64_t>, dim3(1), dim3(1), 0, stream, op,
                       static_cast<uint64_t *>(p), value, cond, result);
}

namespace {
template <class W> __global__ void one_atomic_to(Atomic op, W *p, W value, W cond, W *fetch) {
  const W seen = apply(op, p, value, cond);
  if (fetch) *fetch = seen;
}
} // namespace

hipError_t atomic_on_stream(Atomic op, void *p, size_t bytes, uint64_t value, uint64_t cond,
                            void *fetch, hipStream_t stream) {
  if (bytes == 4)
    return shmem::launch(one_atomic_to<uint32_t>, dim3(1), dim3(1), 0, stream, op,
                         static_cast<uint32_t *>(p), uint32_t(value), uint32_t(cond),
                         static_cast<uint32_t *>(fetch));
  return shmem::launch(one_atomic_to<uint64_t>, dim3(1), dim3(1), 0, stream, op,
                       static_cast<uint64_t *>(p), value, cond, static_cast<uint64_t *>(fetch));
}

namespace {

using device::load_element, device::store_element;

// Members' memory is read past the caches, which may have it as it was before (gfx942's L2).
template <class Op, class T>
__global__ void reduce(T *const *dests, const T *const *sources, int members, size_t n) {
  const size_t step = size_t(blockDim.x) * gridDim.x;
  for (size_t i = size_t(blockDim.x) * blockIdx.x + threadIdx.x; i < n; i += step) {
    T acc = load_element(sources[0] + i);
    for (int m = 1; m < members; m++) acc = Op::op(acc, load_element(sources[m] + i));
    for (int m = 0; m < members; m++) store_element(dests[m] + i, acc);
  }
}

// A member's dest may be its source.
template <class T>
__global__ void scan(T *const *dests, const T *const *sources, int members, size_t n,
                     bool exclusive) {
  const size_t step = size_t(blockDim.x) * gridDim.x;
  for (size_t i = size_t(blockDim.x) * blockIdx.x + threadIdx.x; i < n; i += step) {
    T acc{};
    for (int m = 0; m < members; m++) {
      const T sum = Sum::op(acc, load_element(sources[m] + i));
      store_element(dests[m] + i, exclusive ? acc : sum);
      acc = sum;
    }
  }
}

struct Call {
  Combine op;
  void *const *dests;
  const void *const *sources;
  int members;
  size_t n;
  hipStream_t stream;
};

dim3 grid(size_t n, unsigned threads) {
  const size_t blocks = (n + threads - 1) / threads;
  return dim3(unsigned(blocks < 1024 ? blocks : 1024));
}

template <class Op, class T> hipError_t run(const Call &c) {
  const unsigned threads = 256;
  return shmem::launch((reduce<Op, T>), grid(c.n, threads), dim3(threads), 0, c.stream,
                       reinterpret_cast<T *const *>(c.dests),
                       reinterpret_cast<const T *const *>(c.sources), c.members, c.n);
}
template <class T> hipError_t run_scan(const Call &c) {
  const unsigned threads = 256;
  return shmem::launch(scan<T>, grid(c.n, threads), dim3(threads), 0, c.stream,
                       reinterpret_cast<T *const *>(c.dests),
                       reinterpret_cast<const T *const *>(c.sources), c.members, c.n,
                       c.op == Combine::exscan);
}

template <class T> hipError_t run(const Call &c) {
  switch (c.op) {
  case Combine::max:
    return run<Max, T>(c);
  case Combine::min:
    return run<Min, T>(c);
  case Combine::sum:
    return run<Sum, T>(c);
  case Combine::prod:
    return run<Prod, T>(c);
  case Combine::inscan:
  case Combine::exscan:
    return run_scan<T>(c);
  default:
    break;
  }
  if constexpr (std::is_unsigned<T>::value) {
    if (c.op == Combine::and_) return run<And, T>(c);
    if (c.op == Combine::or_) return run<Or, T>(c);
    if (c.op == Combine::xor_) return run<Xor, T>(c);
  }
  return hipErrorInvalidValue;
}

} // namespace

hipError_t combine(Combine op, Type type, void *const *dests, const void *const *sources,
                   int members, size_t n, hipStream_t stream) {
  const Call c{op, dests, sources, members, n, stream};
  switch (type) {
  case Type::i8:
    return run<int8_t>(c);
  case Type::u8:
    return run<uint8_t>(c);
  case Type::i16:
    return run<int16_t>(c);
  case Type::u16:
    return run<uint16_t>(c);
  case Type::i32:
    return run<int32_t>(c);
  case Type::u32:
    return run<uint32_t>(c);
  case Type::i64:
    return run<int64_t>(c);
  case Type::u64:
    return run<uint64_t>(c);
  case Type::f32:
    return run<float>(c);
  case Type::f64:
    return run<double>(c);
  default: // the host's routines have no more, or combine them themselves
    break;
  }
  return hipErrorInvalidValue;
}

} // namespace shmem::kernels
