// SPDX-License-Identifier: MIT
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "arch.hpp"
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

template <class W> __global__ void one_atomic(Operation op, W *fetch) {
  const W seen =
      apply(op.amo, reinterpret_cast<W *>(op.offset), W(op.operands.value), W(op.operands.compare));
  if (fetch) *fetch = seen;
}
} // namespace

hipError_t atomic_on_stream(const Operation &op, void *fetch, hipStream_t stream) {
  if (op.width == 4)
    return shmem::launch(one_atomic<uint32_t>, dim3(1), dim3(1), 0, stream, op,
                         static_cast<uint32_t *>(fetch));
  return shmem::launch(one_atomic<uint64_t>, dim3(1), dim3(1), 0, stream, op,
                       static_cast<uint64_t *>(fetch));
}

} // namespace shmem::kernels
