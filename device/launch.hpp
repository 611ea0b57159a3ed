// SPDX-License-Identifier: MIT
// A launch that says what became of it. hipGetLastError after <<<>>> may tell of a call that the
// program made before: HIP 7, as CUDA always, keeps an error until somebody asks. So the launch's
// own result is taken, and what the program has not asked for yet stays there for it.
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
