// SPDX-License-Identifier: MIT
// HIP, for this folder's files and for calls on streams: its errors, the thread's device, memory
// and streams of the library's own.
#pragma once
#include "../log.hpp"
#include <hip/hip_runtime_api.h>

namespace shmem::gpu {

extern int chosen; // that this PE has chosen, or -1

// Ends the job with the call and what it was for when it has failed.
#define MUST(call, format, ...)                                                                    \
  do {                                                                                             \
    if (hipError_t error_ = (call); error_ != hipSuccess)                                          \
      ::shmem::fatal("GPU %d: " format ": %s", ::shmem::gpu::chosen, ##__VA_ARGS__,                \
                     hipGetErrorString(error_));                                                   \
  } while (0)

// Whether a call has succeeded that may fail. HIP 7 and CUDA keep an error until a thread asks for
// it, so this one is cleared.
inline bool tried(hipError_t error) {
  if (error != hipSuccess) (void)hipGetLastError();
  return error == hipSuccess;
}

// Makes the library's device the current one of this thread, and restores the old one.
class OnDevice {
  int before = -1;

public:
  OnDevice() {
    if (!tried(hipGetDevice(&before))) before = -1;
    if (before != chosen) MUST(hipSetDevice(chosen), "hipSetDevice");
  }
  ~OnDevice() {
    if (before >= 0 && before != chosen) tried(hipSetDevice(before));
  }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;
};

// Host memory that the GPU reads and writes too, there at another address.
void *shared_memory(size_t bytes, void **there);

// A stream of the library's own. It must go on while kernels of the program wait for its work.
// AMD's runtime has four queues for the streams of each priority (GPU_MAX_HW_QUEUES), and work in a
// queue waits behind a kernel that waits. Programs seldom have streams of the highest priority, so
// this is one.
hipStream_t make_stream();
// This thread's stream for the library's copies. Each thread of the library has its own, so that
// its copies wait for no other thread's and for none of the program.
hipStream_t stream();
enum class Copier { program, ring, deferred, count };
void own_stream(Copier thread);
// Before kernels run: creating a stream can block behind another thread's hipDeviceSynchronize
// (ROCm 5.2, 2026-11-23).
void make_own_streams();
void drop_streams();

} // namespace shmem::gpu
