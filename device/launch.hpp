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

} // namespace shmem
