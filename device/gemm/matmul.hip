// SPDX-License-Identifier: MIT
#include "epilogue.hpp"
#include <hip/hip_runtime.h>

namespace shmem::gemm {

namespace {

template <class T> hipError_t run(const Matmul &call, hipStream_t stream) {
  const Matrices<T> x{static_cast<const T *>(call.a),
                      static_cast<const T *>(call.b),
                      call.lda,
                      call.ldb,
                      unsigned(call.m),
                      unsigned(call.n),
                      unsigned(call.k),
                      call.trans_a,
                      call.trans_b};
  const size_t bytes = call.out == Type::f32 ? 4 : call.out == Type::f8 ? 1 : 2;
  const bool wide = (reinterpret_cast<uintptr_t>(call.c) | call.ldc * bytes) % 16 == 0,
             plain = wide && !call.bias && call.act == Activation::none;
  const Store store{
      call.c, call.ldc, x.n, wide, {call.out, call.act, call.bias}, plain ? int(call.out) : -1};
  int device, units;
  hipError_t error = hipGetDevice(&device);
  if (!error) error = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
  if (error) return error;
  return choose(x, [&](auto core, const auto &operands) {
    using Core = decltype(core);
    const Grouped order = grouped<Core>(x.m, x.n, 8);
    const size_t tiles = size_t(order.rows) * order.columns * Core::unit;
    const unsigned most = unsigned(units) * Core::resident / Core::unit * Core::unit;
    return launch<Core>(operands, tiles < most ? unsigned(tiles) : most, stream, order, store);
  });
}

} // namespace

hipError_t matmul(const Matmul &call, hipStream_t stream) {
  if (!call.m || !call.n) return hipSuccess;
  const size_t most = (size_t(1) << 31) - 512; // a tile beyond the end still counts in 32 bits
  if (call.m > most || call.n > most || call.k > most) return hipErrorInvalidValue;
  switch (call.type) {
  case Type::f32:
    return run<float>(call, stream);
  case Type::f16:
    return run<Half>(call, stream);
  case Type::bf16:
    return run<Bfloat16>(call, stream);
  case Type::f8:
    return run<Float8>(call, stream);
  }
  return hipErrorInvalidValue;
}

} // namespace shmem::gemm
