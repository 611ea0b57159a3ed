// SPDX-License-Identifier: MIT
// The library's reductions and scans on streams: a kernel for each type, which has the operator as
// an argument, and those that has_kernel() names; each of them twice, by lines and by the other
// ways. By lines go all teams that have a member that is not mapped.
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "launch.hpp"
#include "module.hpp"
#include "reduce.hpp"

namespace shmem::kernels {

namespace {

using device::Chosen, device::Fixed;

template <class Op> struct ReduceCall : Call { Op op; };

// nvcc would otherwise take 64 registers, and a stack (sm_90, CUDA 13).
template <bool lines, class T, class Op>
__global__ void __launch_bounds__(device::max_threads, arch::one_resident)
    reduce(ReduceCall<Op> argument) {
  const ReduceCall<Op> &call = arch::argument(argument);
  const Workgroup scope;
  const bool meets = gridDim.x <= device::max_channels;
  device::Channel c = device::open("a reduction on a stream", call.id,
                                   lines ? call.team : device::mapped(call.team),
                                   meets ? blockIdx.x : 0, call.dest, call.source, scope);
  using Way = CollectiveAlgorithm;
  const Way way = lines ? Way::lines : call.algorithm == Way::phases ? Way::phases : Way::direct;
  const device::Slice s{way, blockIdx.x, gridDim.x,
                        meets ? device::Stored::by_stream : device::Stored::nothing};
  const auto reduction = [&] {
    const Call &a = arch::load_anew(call);
    return device::Reduction<T>{reinterpret_cast<T *>(a.dest),
                                reinterpret_cast<const T *>(a.source), a.n, a.shape};
  };
  device::reduce(c, s, reduction, call.op, scope);
  if (gridDim.x <= device::max_channels) device::close(c, arch::load_anew(call.team.base), scope);
}

// Calls f with the kernel.
template <bool lines, class F> hipError_t with_kernel(Operator op, ElementType type, F f) {
  return with_type(type, [&](auto element) {
    using T = decltype(element);
    if constexpr (has_kernel(Operator::sum, type_of<T>))
      if (op == Operator::sum) return f(reduce<lines, T, Fixed<Sum>>, Fixed<Sum>{});
    return f(reduce<lines, T, Chosen>, Chosen{op});
  });
}

} // namespace

hipError_t reduce(Operator op, ElementType type, const Call &c) {
  const auto start = [&](auto *kernel, auto how) {
    return with_meetings(c, [&] {
      return shmem::launch(kernel, dim3(c.blocks), dim3(c.threads), 0, c.stream,
                           ReduceCall<decltype(how)>{c, how});
    });
  };
  return c.algorithm == CollectiveAlgorithm::lines ? with_kernel<true>(op, type, start)
                                                   : with_kernel<false>(op, type, start);
}

hipError_t residents(int device, unsigned threads, unsigned *blocks) {
  Residents r{threads};
  const auto look = [&](auto *kernel, auto) {
    r.look(kernel);
    return r.error;
  };
  for (ElementType type : types) {
    (void)with_kernel<true>(Operator::sum, type, look);
    (void)with_kernel<false>(Operator::sum, type, look);
  }
  return r.on(device, blocks);
}

} // namespace shmem::kernels
