// SPDX-License-Identifier: MIT
// Nothing else differs. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "NVLink";
inline constexpr usual::Driver driver{{"/dev/nvidiactl"},
                                      "start the container with its GPUs, for one --gpus all"};

// Found through the runtime, so that nothing has to be linked with the driver's library. A module
// is the driver's CUmodule, and its errors have the runtime's numbers.
inline hipError_t module_global(void **p, size_t *bytes, void *module, const char *name) {
  void *f = nullptr;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuModuleGetGlobal", &f, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t error =
      cudaGetDriverEntryPoint("cuModuleGetGlobal", &f, cudaEnableDefault, &found);
#endif
  if (error) return error;
  if (!f) return cudaErrorNotSupported;
  return hipError_t(reinterpret_cast<int (*)(void **, size_t *, void *, const char *)>(f)(
      p, bytes, module, name));
}

} // namespace shmem::runtime
