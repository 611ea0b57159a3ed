// SPDX-License-Identifier: MIT
// The CPU platform imitates AMD's links. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "xGMI";
inline constexpr bool hardware = false;
bool in_use(); // lib/platform/cpu/device.cpp

// The allocation of which p is a part.
inline hipError_t allocation(void **base, size_t *bytes, const void *p) {
  return hipMemGetAddressRange(base, bytes, const_cast<void *>(p));
}

// Chunks: see device/runtime.hpp.
inline hipMemAllocationProp chunk_of(int device) {
  return {hipMemAllocationTypePinned,
          hipMemHandleTypePosixFileDescriptor,
          {hipMemLocationTypeDevice, device}};
}
inline hipMemGenericAllocationHandle_t handle_of(Chunk c) {
  return reinterpret_cast<hipMemGenericAllocationHandle_t>(c);
}
inline size_t chunk_step(int device) {
  const hipMemAllocationProp prop = chunk_of(device);
  size_t step = 0;
  return hipMemGetAllocationGranularity(&step, &prop, hipMemAllocationGranularityRecommended) ==
                 hipSuccess
             ? step
             : ((void)hipGetLastError(), 0);
}
inline hipError_t reserve(void **p, size_t bytes) {
  return hipMemAddressReserve(p, bytes, 0, nullptr, 0);
}
inline hipError_t give_up(void *p, size_t bytes) {
  return hipMemAddressFree(p, bytes);
}
inline hipError_t create_chunk(Chunk *c, size_t bytes, int device) {
  const hipMemAllocationProp prop = chunk_of(device);
  return hipMemCreate(reinterpret_cast<hipMemGenericAllocationHandle_t *>(c), bytes, &prop, 0);
}
inline hipError_t export_chunk(int *fd, Chunk c) {
  return hipMemExportToShareableHandle(fd, handle_of(c), hipMemHandleTypePosixFileDescriptor, 0);
}
inline hipError_t import_chunk(Chunk *c, int fd) {
  return hipMemImportFromShareableHandle(reinterpret_cast<hipMemGenericAllocationHandle_t *>(c),
                                         reinterpret_cast<void *>(intptr_t(fd)),
                                         hipMemHandleTypePosixFileDescriptor);
}
inline hipError_t map_chunk(void *p, size_t bytes, Chunk c, int device) {
  if (hipError_t error = hipMemMap(p, bytes, 0, handle_of(c), 0); error) return error;
  const hipMemAccessDesc access{chunk_of(device).location, hipMemAccessFlagsProtReadWrite};
  return hipMemSetAccess(p, bytes, &access, 1);
}
inline hipError_t unmap_chunk(void *p, size_t bytes) {
  return hipMemUnmap(p, bytes);
}
inline hipError_t drop_chunk(Chunk c) {
  return hipMemRelease(handle_of(c));
}

} // namespace shmem::runtime
