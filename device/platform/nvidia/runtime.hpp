// SPDX-License-Identifier: MIT
// Nothing else differs. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "NVLink";
inline constexpr usual::Driver driver{{"/dev/nvidiactl"},
                                      "start the container with its GPUs, for one --gpus all"};

// Found through the runtime, so that nothing has to be linked with the driver's library, whose
// errors have the runtime's numbers.
template <class... Args> hipError_t call_driver(const char *name, Args... args) {
  void *f = nullptr;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &f, cudaEnableDefault, &found);
#endif
  if (error) return error;
  if (!f) return cudaErrorNotSupported;
  return hipError_t(reinterpret_cast<int (*)(Args...)>(f)(args...));
}
// A module is the driver's CUmodule.
inline hipError_t module_global(void **p, size_t *bytes, void *module, const char *name) {
  return call_driver("cuModuleGetGlobal", p, bytes, module, name);
}
// Of which p is a part.
inline hipError_t allocation(void **base, size_t *bytes, const void *p) {
  return call_driver("cuMemGetAddressRange", base, bytes, p);
}

} // namespace shmem::runtime
