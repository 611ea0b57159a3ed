// SPDX-License-Identifier: MIT
#include "fill.hpp"
#include <hip/hip_runtime.h>

#include "launch.hpp"
#include "number.hpp"
#include "philox.hpp"

namespace shmem::kernels {

namespace {

template <class T> struct Same {
  T value;
  __device__ T operator()(size_t) { return value; }
};
// Integers wrap around; fp32 is computed in fp64 and rounded once. The fused operation is named,
// because otherwise each compiler chooses.
template <class T> struct Iota {
  T first, step;
  __device__ T operator()(size_t i) {
    if constexpr (std::is_floating_point_v<T>)
      return T(fma(double(step), double(i), double(first)));
    else
      return T(first + T(T(i) * step));
  }
};
template <class T> struct Numbers {
  random::Sequence sequence;
  uint64_t first;
  __device__ T operator()(size_t i) { return sequence.number<T>(first + i); }
};

template <class T, class Make> struct FillCall {
  T *dest;
  size_t n;
  Make make;
};
// A thread makes 16 bytes and stores them at once, but for those at the ends that are not whole.
template <class T, class Make>
__global__ void __launch_bounds__(256) generate(FillCall<T, Make> argument) {
  const FillCall<T, Make> &call = arch::argument(argument);
  T *const dest = call.dest;
  const size_t n = call.n;
  Make make = call.make;
  constexpr size_t each = 16 / sizeof(T);
  struct alignas(16) Elements {
    T element[each];
  };
  // How many elements lie before dest in its first 16 bytes.
  const size_t before = reinterpret_cast<uintptr_t>(dest) % 16 / sizeof(T);
  const size_t packs = (n + before + each - 1) / each;
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t p = size_t(blockIdx.x) * blockDim.x + threadIdx.x; p < packs; p += step) {
    const size_t begin = p * each;
    if (begin >= before && begin + each <= n + before) {
      Elements pack;
      for (size_t k = 0; k < each; k++) pack.element[k] = make(begin - before + k);
      *reinterpret_cast<Elements *>(dest + (begin - before)) = pack;
    } else {
      for (size_t k = 0; k < each; k++)
        if (begin + k >= before && begin + k < n + before)
          dest[begin + k - before] = make(begin + k - before);
    }
  }
}

template <class T, class Make> hipError_t run(void *dest, size_t n, Make make, hipStream_t stream) {
  constexpr size_t threads = 256, most = 2048; // workgroups, which is more than a GPU holds
  const size_t packs = n / (16 / sizeof(T)) + 2, blocks = (packs + threads - 1) / threads;
  return shmem::launch(generate<T, Make>, dim3(unsigned(blocks < most ? blocks : most)),
                       dim3(unsigned(threads)), 0, stream,
                       FillCall<T, Make>{static_cast<T *>(dest), n, make});
}

template <class T> T of_bits(uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value); // of a number of few bytes they come first
  return value;
}

template <class T> struct Of { using type = T; };
// Calls of with the C++ type of a number; signs do not matter.
template <class F> hipError_t by_type(ElementType type, F &&of) {
  switch (type) {
  case ElementType::i8:
  case ElementType::u8:
    return of(Of<uint8_t>());
  case ElementType::i16:
  case ElementType::u16:
    return of(Of<uint16_t>());
  case ElementType::i32:
  case ElementType::u32:
    return of(Of<uint32_t>());
  case ElementType::i64:
  case ElementType::u64:
    return of(Of<uint64_t>());
  case ElementType::f32:
    return of(Of<float>());
  case ElementType::f64:
    return of(Of<double>());
  case ElementType::f16:
    return of(Of<Half>());
  case ElementType::bf16:
    return of(Of<Bfloat16>());
  default:
    return hipErrorInvalidValue;
  }
}

} // namespace

hipError_t fill_on_stream(void *dest, uint64_t bits, size_t unit, size_t n, hipStream_t stream) {
  const ElementType type = unit == 1   ? ElementType::u8
                           : unit == 2 ? ElementType::u16
                           : unit == 4 ? ElementType::u32
                                       : ElementType::u64;
  return by_type(type, [=](auto of) {
    using T = typename decltype(of)::type;
    if constexpr (std::is_unsigned_v<T>)
      return run<T>(dest, n, Same<T>{of_bits<T>(bits)}, stream);
    else
      return hipErrorInvalidValue;
  });
}

hipError_t iota_on_stream(ElementType type, void *dest, uint64_t first, uint64_t step, size_t n,
                          hipStream_t stream) {
  return by_type(type, [=](auto of) {
    using T = typename decltype(of)::type;
    if constexpr (std::is_arithmetic_v<T>)
      return run<T>(dest, n, Iota<T>{of_bits<T>(first), of_bits<T>(step)}, stream);
    else
      return hipErrorInvalidValue;
  });
}

hipError_t random_on_stream(ElementType type, void *dest, size_t n, uint64_t seed, uint64_t first,
                            hipStream_t stream) {
  return by_type(type, [=](auto of) {
    using T = typename decltype(of)::type;
    return run<T>(dest, n, Numbers<T>{random::Sequence(seed), first}, stream);
  });
}

} // namespace shmem::kernels
