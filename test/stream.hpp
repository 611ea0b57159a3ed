// SPDX-License-Identifier: MIT
// The stream of a test with a GPU, and copies in its order, which are over when they return: from
// pageable memory hipMemcpy returns when it has read it.
#ifndef SHMEM_TEST_STREAM_HPP
#define SHMEM_TEST_STREAM_HPP

#include "hip.hpp"
#include <shmemx.h>

inline hipStream_t stream;

inline shmemx_stream_t on_stream() {
  return reinterpret_cast<shmemx_stream_t>(stream);
}
inline void to_device(void *to, const void *from, size_t bytes) {
  if (bytes) HIP(hipMemcpyAsync(to, from, bytes, hipMemcpyHostToDevice, stream));
  HIP(hipStreamSynchronize(stream));
}
inline void to_host(void *to, const void *from, size_t bytes) {
  if (bytes) HIP(hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToHost, stream));
  HIP(hipStreamSynchronize(stream));
}

#endif
