// SPDX-License-Identifier: MIT
// Shared by the tests of kernels. They run unchanged on every platform.
#ifndef TEST_DEVICE_HPP
#define TEST_DEVICE_HPP

#include "objects.hpp"
#include <shmem/device/shmem.hpp>

extern "C" {
#include "harness.h"
}

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define NAME(x) CAT(x, ID)

// A call that failed ends the test.
#define HIP(call)                                                                                  \
  do {                                                                                             \
    const hipError_t error_ = (call);                                                              \
    CHECK(error_ == hipSuccess, "%s: %s", #call, hipGetErrorString(error_));                       \
  } while (0)

extern hipStream_t stream; // of the tests; not the default one

// Device memory of the heap, the same on all PEs, filled with a byte; see object_alloc.
void *device_alloc(size_t bytes, int fill, bool atomics = false);

// Returns when it is there, which hipMemcpy does not promise of pageable memory.
inline void to_device(void *dest, const void *source, size_t bytes) {
  HIP(hipMemcpyAsync(dest, source, bytes, hipMemcpyHostToDevice, stream));
  HIP(hipStreamSynchronize(stream));
}

// Ticks of the clock of kernels.
uint64_t wall_clock_ticks(double seconds);

// Waits for all launches, and for all PEs.
void finish_all(void);

#endif
