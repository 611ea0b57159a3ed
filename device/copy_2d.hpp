// SPDX-License-Identifier: MIT
// Copies of rows by the GPU's engines.
#pragma once
#include <hip/hip_runtime_api.h>

namespace shmem {

// HIP 5.2 asks ROCr for access to an allocation when such a copy meets it first. ROCr refuses it for imported ones,
// because they have it; the copy fails, HIP remembers that it has asked, and the next one works. There are two sides.
// (Seen 2026-11 with ROCm 5.2.3; ROCr says since that access is there.)
inline hipError_t copy_2d(void *dest, size_t dest_pitch, const void *source, size_t source_pitch,
                          size_t width, size_t height, hipStream_t stream) {
  hipError_t error = hipErrorInvalidValue;
  for (int tries = 0; tries < 3 && error == hipErrorInvalidValue; tries++) {
    error = hipMemcpy2DAsync(dest, dest_pitch, source, source_pitch, width, height,
                             hipMemcpyDefault, stream);
    if (error != hipSuccess) (void)hipGetLastError();
  }
  return error;
}

} // namespace shmem
