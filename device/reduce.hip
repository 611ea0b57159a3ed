// SPDX-License-Identifier: MIT
// The library's reductions and scans on streams: a kernel for each type, which has the operator as
// an argument, and one more for sums of floating-point types, where the time of additions counts.
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "launch.hpp"
#include "module.hpp"
#include "reduce.hpp"

namespace shmem::kernels {

namespace {

using device::Chosen, device::Fixed;

template <class T, class Op>
__global__ void __launch_bounds__(device::max_threads) reduce(Call call, Shape shape, Op op) {
  const Workgroup scope;
  const bool meets = gridDim.x <= device::max_channels;
  device::Channel c = device::open("a reduction on a stream", call.id, call.team,
                                   meets ? blockIdx.x : 0, call.dest, call.source, scope);
  const device::Slice s{call.algorithm, blockIdx.x, gridDim.x,
                        meets ? device::Stored::by_stream : device::Stored::nothing};
  const device::Reduction<T> r{reinterpret_cast<T *>(call.dest),
                               reinterpret_cast<const T *>(call.source), call.n, shape};
  device::reduce(c, s, r, op, scope);
  if (gridDim.x <= device::max_channels)
    device::close(c, arch::load_anew(arch::argument(call).team.base), scope);
}

// Calls f with the kernel.
template <class F> hipError_t with_kernel(Operator op, ElementType type, F f) {
  return with_type(type, [&](auto element) {
    using T = decltype(element);
    // Additions of integers cost nothing beside the loads, and sums of complex numbers are rare.
    if constexpr (std::is_floating_point_v<device::SumOf<T>>)
      if (op == Operator::sum) return f(reduce<T, Fixed<Sum>>, Fixed<Sum>{});
    return f(reduce<T, Chosen>, Chosen{op});
  });
}

} // namespace

hipError_t reduce(Operator op, ElementType type, Shape shape, const Call &c) {
  return with_kernel(op, type, [&](auto *kernel, auto how) {
    return with_meetings(c, [&] {
      return shmem::launch(kernel, dim3(c.blocks), dim3(c.threads), 0, c.stream, c, shape, how);
    });
  });
}

hipError_t residents(int device, unsigned threads, unsigned *blocks) {
  int units = 0;
  hipError_t error = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
  int least = 1 << 30;
  for (ElementType type : types) {
    if (error) break;
    error = with_kernel(Operator::sum, type, [&](auto *kernel, auto) {
      int each = 0;
      const hipError_t e =
          hipOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, int(threads), 0);
      least = each < least ? each : least;
      return e;
    });
  }
  *blocks = unsigned(units) * unsigned(least);
  return error;
}

} // namespace shmem::kernels
