// SPDX-License-Identifier: MIT
// The library's reductions and scans on streams: a kernel for each type whose operator is an
// argument, and one more for the sums of floating-point types, where the additions count.
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "launch.hpp"
#include "module.hpp"
#include "reduce.hpp"

namespace shmem::kernels {

namespace {

using device::Chosen, device::Fixed;

struct Args {
  device::Team team;
  unsigned id;
  device::Algorithm algorithm;
  device::Shape shape;
  void *dest;
  const void *source;
  size_t n;
};

template <class T, class Op> __global__ void __launch_bounds__(512) reduce(Args a, Op op) {
  const Workgroup scope;
  device::Channel c = device::open("a reduction on a stream", a.id, a.team, blockIdx.x, scope);
  const device::Reduction<T> r{static_cast<T *>(a.dest), static_cast<const T *>(a.source), a.n,
                               a.shape};
  device::reduce(c, device::Share{a.algorithm, blockIdx.x, gridDim.x, device::Stored::by_stream}, r,
                 op, scope);
  device::close(c, scope);
}

// Calls f with the kernel.
template <class F> hipError_t with_kernel(Combine op, Type type, F f) {
  const Chosen chosen{device::Combine(int(op))};
  const bool sum = op == Combine::sum;
  switch (type) {
  case Type::i8:
    return f(reduce<int8_t, Chosen>, chosen);
  case Type::u8:
    return f(reduce<uint8_t, Chosen>, chosen);
  case Type::i16:
    return f(reduce<int16_t, Chosen>, chosen);
  case Type::u16:
    return f(reduce<uint16_t, Chosen>, chosen);
  case Type::i32:
    return f(reduce<int32_t, Chosen>, chosen);
  case Type::u32:
    return f(reduce<uint32_t, Chosen>, chosen);
  case Type::i64:
    return f(reduce<int64_t, Chosen>, chosen);
  case Type::u64:
    return f(reduce<uint64_t, Chosen>, chosen);
  case Type::f32:
    return sum ? f(reduce<float, Fixed<Sum>>, Fixed<Sum>{}) : f(reduce<float, Chosen>, chosen);
  case Type::f64:
    return sum ? f(reduce<double, Fixed<Sum>>, Fixed<Sum>{}) : f(reduce<double, Chosen>, chosen);
  case Type::f16:
    return sum ? f(reduce<Half, Fixed<Sum>>, Fixed<Sum>{}) : f(reduce<Half, Chosen>, chosen);
  case Type::bf16:
    return sum ? f(reduce<Bfloat16, Fixed<Sum>>, Fixed<Sum>{})
               : f(reduce<Bfloat16, Chosen>, chosen);
  case Type::c32:
    return f(reduce<Complex<float>, Chosen>, chosen);
  case Type::c64:
    return f(reduce<Complex<double>, Chosen>, chosen);
  }
  return hipErrorInvalidValue;
}

} // namespace

hipError_t reduce(Combine op, Type type, Shape shape, const Collective &c) {
  const Args a{c.team,   c.id, device::Algorithm(c.algorithm), device::Shape(int(shape)), c.dest,
               c.source, c.n};
  return with_kernel(op, type, [&](auto *kernel, auto how) {
    return shmem::launch(kernel, dim3(c.blocks), dim3(c.threads), 0, c.stream, a, how);
  });
}

hipError_t residents(int device, unsigned threads, unsigned *blocks) {
  int units = 0;
  hipError_t error = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
  int least = 1 << 30;
  for (int type = 0; type <= int(Type::c64) && !error; type++)
    error = with_kernel(Combine::sum, Type(type), [&](auto *kernel, auto) {
      int each = 0;
      const hipError_t e =
          hipOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, int(threads), 0);
      least = each < least ? each : least;
      return e;
    });
  *blocks = unsigned(units) * unsigned(least);
  return error;
}

} // namespace shmem::kernels
