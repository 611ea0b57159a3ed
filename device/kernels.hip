// SPDX-License-Identifier: MIT
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "arch.hpp"
#include "element.hpp"
#include "launch.hpp"

namespace shmem::kernels {

namespace {

template <class W> __device__ W apply(Amo op, W *p, W value, W cond) {
  switch (op) {
  case Amo::fetch:
    return arch::load<Order::acquire>(p);
  case Amo::set:
    return arch::exchange<Order::release>(p, value);
  case Amo::swap:
    return arch::exchange<Order::acq_rel>(p, value);
  case Amo::compare_swap:
    return arch::compare_exchange<Order::acq_rel>(p, cond, value);
  case Amo::add:
    return arch::fetch_add<Order::acq_rel>(p, value);
  case Amo::and_:
    return arch::fetch_and<Order::acq_rel>(p, value);
  case Amo::or_:
    return arch::fetch_or<Order::acq_rel>(p, value);
  case Amo::xor_:
    return arch::fetch_xor<Order::acq_rel>(p, value);
  }
  return 0;
}

template <class W> __global__ void one_atomic(Amo op, W *p, W value, W cond, uint64_t *result) {
  *result = apply(op, p, value, cond);
}

} // namespace

hipError_t atomic(Amo op, void *p, size_t bytes, uint64_t value, uint64_t cond, uint64_t *result,
                  hipStream_t stream) {
  if (bytes == 4)
    return shmem::launch(one_atomic<uint32_t>, dim3(1), dim3(1), 0, stream, op,
                         static_cast<uint32_t *>(p), uint32_t(value), uint32_t(cond), result);
  return shmem::launch(one_atomic<uint64_t>, dim3(1), dim3(1), 0, stream, op,
                       static_cast<uint64_t *>(p), value, cond, result);
}

namespace {
template <class W> __global__ void one_atomic_to(Amo op, W *p, W value, W cond, W *fetch) {
  const W seen = apply(op, p, value, cond);
  if (fetch) *fetch = seen;
}
} // namespace

hipError_t atomic_on_stream(Amo op, void *p, size_t bytes, uint64_t value, uint64_t cond,
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

struct Arrays {
  Operator op;
  Shape shape;
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

template <class Op, class T> hipError_t run(const Arrays &c) {
  const unsigned threads = 256;
  return shmem::launch((reduce<Op, T>), grid(c.n, threads), dim3(threads), 0, c.stream,
                       reinterpret_cast<T *const *>(c.dests),
                       reinterpret_cast<const T *const *>(c.sources), c.members, c.n);
}
template <class T> hipError_t run_scan(const Arrays &c) {
  const unsigned threads = 256;
  return shmem::launch(scan<T>, grid(c.n, threads), dim3(threads), 0, c.stream,
                       reinterpret_cast<T *const *>(c.dests),
                       reinterpret_cast<const T *const *>(c.sources), c.members, c.n,
                       c.shape == Shape::exscan);
}

template <class T> hipError_t run(const Arrays &c) {
  if (c.shape != Shape::all) return run_scan<T>(c);
  if constexpr (std::is_unsigned<T>::value) {
    if (c.op == Operator::and_) return run<And, T>(c);
    if (c.op == Operator::or_) return run<Or, T>(c);
    if (c.op == Operator::xor_) return run<Xor, T>(c);
  }
  switch (c.op) {
  case Operator::max:
    return run<Max, T>(c);
  case Operator::min:
    return run<Min, T>(c);
  case Operator::sum:
    return run<Sum, T>(c);
  case Operator::prod:
    return run<Prod, T>(c);
  default:
    return hipErrorInvalidValue;
  }
}

} // namespace

hipError_t combine(Operator op, Type type, Shape shape, void *const *dests,
                   const void *const *sources, int members, size_t n, hipStream_t stream) {
  const Arrays c{op, shape, dests, sources, members, n, stream};
  return with_type(type, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_arithmetic_v<T>) return run<T>(c);
    return hipErrorInvalidValue; // the host's routines combine the others themselves
  });
}

} // namespace shmem::kernels
