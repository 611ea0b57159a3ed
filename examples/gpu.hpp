// SPDX-License-Identifier: MIT
// Shared by the examples with kernels, beside util.h.
#pragma once
#include <shmem/device/shmem.hpp>

#include "util.h"

// A failed HIP call ends the job with the call and the cause.
#define HIP(call)                                                                                  \
  do {                                                                                             \
    const hipError_t error_ = (call);                                                              \
    if (error_ != hipSuccess)                                                                      \
      fatal("PE %d: %s: %s", shmem_my_pe(), #call, hipGetErrorString(error_));                     \
  } while (0)

// Symmetric device memory, zeroed; collective, and never NULL.
template <class T> T *on_device(size_t count, const char *what) {
  const size_t bytes = (count ? count : 1) * sizeof(T);
  void *p = shmem_malloc_with_hints(bytes, SHMEMX_MALLOC_DEVICE);
  if (!p) {
    if (shmem_my_pe() == 0)
      fprintf(stderr,
              "error: no room for %zu bytes of %s in the device heap: is there a GPU "
              "(shmem_info), or raise SHMEM_DEVICE_SIZE\n",
              bytes, what);
    shmem_finalize();
    exit(EXIT_USAGE);
  }
  HIP(hipMemset(p, 0, bytes));
  HIP(hipDeviceSynchronize());
  shmem_barrier_all(); // no PE writes to it before it is zero
  return static_cast<T *>(p);
}

// Runs f, which launches on the stream, and waits for its end; in seconds. This PE's copies to its
// GPU are complete before any PE begins: from pageable memory hipMemcpy may return before.
template <class F> double timed(F f) {
  HIP(hipDeviceSynchronize());
  shmem_barrier_all();
  const double start = now();
  f();
  HIP(hipGetLastError());
  HIP(hipDeviceSynchronize());
  shmem_barrier_all();
  return now() - start;
}
