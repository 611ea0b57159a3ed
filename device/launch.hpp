// SPDX-License-Identifier: MIT
// A launch that returns its own error. hipGetLastError after <<<>>> may return the error of an
// earlier call of the program: HIP 7, as CUDA always, keeps an error until it is asked for. The
// program's own errors stay there for the program.
#pragma once
#include <hip/hip_runtime.h>

#include "arch.hpp"
#include <tuple>

namespace shmem {

template <class... P, class... A>
hipError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, hipStream_t stream,
                  const A &...arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
  std::tuple<std::remove_const_t<P>...> values(arguments...);
  return std::apply(
      [&](auto &...value) {
        void *pointers[] = {const_cast<void *>(static_cast<const void *>(&value))..., nullptr};
        return hipLaunchKernel(arch::launchable(kernel), grid, block, pointers, shared, stream);
      },
      values);
}

// How many workgroups a GPU holds at once of any of the kernels that it has looked at.
struct Residents {
  unsigned threads;
  size_t shared = 0;   // bytes
  int least = 1 << 30; // of a multiprocessor
  hipError_t error = hipSuccess;

  template <class... P> void look(void (*kernel)(P...)) {
    int each = 0;
    if (!error)
      error = hipOccupancyMaxActiveBlocksPerMultiprocessor(&each, arch::launchable(kernel),
                                                           int(threads), shared);
    least = each < least ? each : least;
  }
  hipError_t on(int device, unsigned *blocks) {
    int units = 0;
    if (!error)
      error = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
    *blocks = unsigned(units) * unsigned(least);
    return error;
  }
};

} // namespace shmem
