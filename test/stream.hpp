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

// A graph of what `enqueue` puts on the stream.
template <class Enqueue> hipGraphExec_t captured(Enqueue enqueue) {
  hipGraph_t graph;
  hipGraphExec_t exec;
  HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  enqueue();
  HIP(hipStreamEndCapture(stream, &graph));
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP(hipGraphDestroy(graph));
  return exec;
}

#endif
