// SPDX-License-Identifier: MIT
// Nothing else differs. See device/runtime.hpp.
#pragma once
#include <cuda.h>
#include <dlfcn.h>

namespace shmem::runtime {

inline constexpr const char *library = "libcudart.so";
inline constexpr const char *fast_link = "NVLink";
inline constexpr usual::Driver driver{{"/dev/nvidiactl"},
                                      "start the container with its GPUs, for one --gpus all"};

// The runtime loads the driver's library with its first call that needs a GPU. Programs do so, too.
inline bool in_use() {
  void *const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return false;
  const auto f = reinterpret_cast<CUresult (*)(CUcontext *)>(dlsym(library, "cuCtxGetCurrent"));
  CUcontext current;
  const bool started = f && f(&current) == CUDA_SUCCESS;
  dlclose(library);
  return started;
}

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
// The allocation of which p is a part.
inline hipError_t allocation(void **base, size_t *bytes, const void *p) {
  return call_driver("cuMemGetAddressRange", base, bytes, p);
}

// Chunks: see device/runtime.hpp. All memory of such a GPU is coherent.
inline CUmemAllocationProp chunk_of(int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  int direct = 0; // a network card may read and write it
  if (call_driver("cuDeviceGetAttribute", &direct,
                  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                  CUdevice(device)) == hipSuccess)
    prop.allocFlags.gpuDirectRDMACapable = direct != 0;
  return prop;
}
inline size_t chunk_step(int device) {
  for (const auto what : {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    int has = 0;
    if (call_driver("cuDeviceGetAttribute", &has, what, CUdevice(device)) != hipSuccess || !has)
      return 0;
  }
  const CUmemAllocationProp prop = chunk_of(device);
  size_t step = 0;
  return call_driver("cuMemGetAllocationGranularity", &step, &prop,
                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == hipSuccess
             ? step
             : 0;
}
inline hipError_t reserve(void **p, size_t bytes) {
  return call_driver("cuMemAddressReserve", p, bytes, size_t(0), CUdeviceptr(0), 0ull);
}
inline hipError_t give_up(void *p, size_t bytes) {
  return call_driver("cuMemAddressFree", p, bytes);
}
inline hipError_t create_chunk(Chunk *c, size_t bytes, int device) {
  const CUmemAllocationProp prop = chunk_of(device);
  return call_driver("cuMemCreate", c, bytes, &prop, 0ull);
}
inline hipError_t export_chunk(int *fd, Chunk c) {
  return call_driver("cuMemExportToShareableHandle", fd, c,
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ull);
}
inline hipError_t import_chunk(Chunk *c, int fd) {
  return call_driver("cuMemImportFromShareableHandle", c, reinterpret_cast<void *>(intptr_t(fd)),
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}
inline hipError_t map_chunk(void *p, size_t bytes, Chunk c, int device) {
  if (hipError_t error = call_driver("cuMemMap", p, bytes, size_t(0), c, 0ull); error) return error;
  CUmemAccessDesc access = {};
  access.location = chunk_of(device).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return call_driver("cuMemSetAccess", p, bytes, &access, size_t(1));
}
inline hipError_t unmap_chunk(void *p, size_t bytes) {
  return call_driver("cuMemUnmap", p, bytes);
}
inline hipError_t drop_chunk(Chunk c) {
  return call_driver("cuMemRelease", c);
}

} // namespace shmem::runtime
