// SPDX-License-Identifier: MIT
// The parts of ROCm that differ from the other runtimes: see device/runtime.hpp.
#pragma once
#include <cstring>
#include <hip/hip_runtime_api.h>

namespace shmem::runtime {

inline constexpr const char *fast_link = "xGMI";
inline constexpr usual::Driver driver{
    {"/dev/kfd", "/dev/dri/renderD*"},
    "add the user to the groups render and video; in a container --device=/dev/kfd "
    "--device=/dev/dri --group-add render"};

// The rate of s_memrealtime in all GPUs that this library supports. The runtime is not asked: HIP
// has no name for it before 5.3, and ROCr 6.1 says 0 where libdrm cannot open the GPU's render
// node, so that kernels would wait without a limit.
inline constexpr double clock_rate = 100e6;

// On gfx942 and gfx950 a poll of uncached memory needs no invalidate, and sees a peer's store at
// once. On gfx90a a GPU's own fine-grained memory is coherent with its peers, and uncached memory
// would only be slower. Older runtimes have no uncached memory.
inline hipError_t malloc_flags(void **p, size_t bytes, [[maybe_unused]] int device) {
#ifdef hipDeviceMallocUncached
  hipDeviceProp_t prop;
  if (hipGetDeviceProperties(&prop, device) == hipSuccess &&
      (strstr(prop.gcnArchName, "gfx942") || strstr(prop.gcnArchName, "gfx950")) &&
      hipExtMallocWithFlags(p, bytes, hipDeviceMallocUncached) == hipSuccess)
    return hipSuccess;
  (void)hipGetLastError();
#endif
  return hipExtMallocWithFlags(p, bytes, hipDeviceMallocFinegrained);
}

// HIP 5.2 does, 5.7 detaches NULL instead (2026-11-23), and 6.2 does again (ROCm/hip#3580).
inline constexpr bool closes_handles = HIP_VERSION < 50300000 || HIP_VERSION >= 60200000;

// The allocation of which p is a part.
inline hipError_t allocation(void **base, size_t *bytes, const void *p) {
  return hipMemGetAddressRange(base, bytes, const_cast<void *>(p));
}

inline constexpr const char *library = "libamdhip64.so";
bool kept_by_peers(const void *p, int device); // memory.cpp, as the next
bool in_use();

inline hipError_t module_global(void **p, size_t *bytes, void *module, const char *name) {
  return hipModuleGetGlobal(p, bytes, static_cast<hipModule_t>(module), name);
}

// AMD's figures for a link of MI355X, MI300X and MI250X.
inline double link_rate(int device) {
  hipDeviceProp_t prop;
  if (hipGetDeviceProperties(&prop, device) != hipSuccess) return (void)hipGetLastError(), 50000;
  return strncmp(prop.gcnArchName, "gfx950", 6) == 0   ? 76800
         : strncmp(prop.gcnArchName, "gfx942", 6) == 0 ? 64000
                                                       : 50000;
}

// HIP 5.2 asks ROCr for access to an allocation when such a copy first meets it. ROCr refuses this
// for imported allocations, which have it already; the copy fails, HIP remembers that it has asked,
// and the next copy works. There are two sides, so two copies may fail. (Seen 2026-11 with ROCm
// 5.2.3; later versions of ROCr do not refuse.) A graph repeats no copy, and hipGraphLaunch returns
// the error: there each row is a copy of its own, which asks for nothing.
inline hipError_t copy_2d(void *dest, size_t dest_pitch, const void *source, size_t source_pitch,
                          size_t width, size_t height, hipStream_t stream) {
  hipError_t error = hipSuccess;
  hipStreamCaptureStatus captures = hipStreamCaptureStatusNone;
  if (HIP_VERSION < 50300000) error = hipStreamIsCapturing(stream, &captures);
  if (captures != hipStreamCaptureStatusNone) {
    for (size_t row = 0; row < height && error == hipSuccess; row++)
      error = hipMemcpyAsync(static_cast<char *>(dest) + row * dest_pitch,
                             static_cast<const char *>(source) + row * source_pitch, width,
                             hipMemcpyDefault, stream);
    return error;
  }
  error = hipErrorInvalidValue;
  for (int tries = 0; tries < 3 && error == hipErrorInvalidValue; tries++) {
    error = hipMemcpy2DAsync(dest, dest_pitch, source, source_pitch, width, height,
                             hipMemcpyDefault, stream);
    if (error != hipSuccess) (void)hipGetLastError();
  }
  return error;
}

} // namespace shmem::runtime
