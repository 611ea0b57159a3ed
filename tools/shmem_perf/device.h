// SPDX-License-Identifier: MIT
// shmem_perf --device, --machine, --stream, --gemm and --engine, which are HIP and C++, for the C
// program around them.
#ifndef SHMEM_PERF_DEVICE_H
#define SHMEM_PERF_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

struct device_options {
  size_t smallest, largest, step; // bytes of a transfer
  int threads;                    // of a workgroup
  int workgroups;                 // at most
  int runs;                       // timed runs of each row
  int count;                      // calls in a kernel that measures a latency
  int calls;                      // in a row on a stream; 0: as many as usual
  bool scopes;                    // bandwidth of waves and threads, too
  bool buffers;                   // objects are registered memory, not the heap's
  bool json;
};

struct gemm_options {
  size_t m, n, k; // the only shape, or 0: those of a table
  int runs;       // timed runs of each row
  int calls;      // in a row; 0: as many as usual
  bool json;
};

struct engine_options {
  int runs;                       // timed runs of each row
  int calls;                      // in a graph; 0: as many as usual
  size_t smallest, largest, step; // bytes of a PE's rows and of its sums; smallest is 0: a table's
  bool norm, moe, copy, wire;     // the families that are wanted
  bool json;
};

#ifdef __cplusplus
extern "C" {
#endif
void device_perf(const struct device_options *options);
void machine_perf(const struct device_options *options);
void stream_perf(const struct device_options *options);
void gemm_perf(const struct gemm_options *options);
void engine_perf(const struct engine_options *options);
#ifdef __cplusplus
}

#include "../../device/runtime.hpp" // without hardware sizes and counts are less
#include <algorithm>
#include <shmemx.h>

// The calls that are timed together: as many as were asked for, or as usual.
inline int calls_in_a_row(int asked, int usual = shmem::runtime::hardware ? 20 : 1) {
  return asked ? asked : usual;
}

// A symmetric object in device memory, as long as it is there; NULL if there is no room.
class Object {
  shmemx_buffer_t buffer = 0;
  void *p = nullptr;

public:
  void make(size_t bytes, bool registered) {
    if (!registered)
      p = shmem_malloc_with_hints(bytes, SHMEMX_MALLOC_DEVICE);
    else if (hipMalloc(&p, std::max(bytes, size_t(2) << 20)) != hipSuccess) // ROCm wants 2 MiB
      p = nullptr;
    else
      shmemx_buffer_register(p, bytes, &buffer);
  }
  template <class T> operator T *() const { return static_cast<T *>(p); }
  ~Object() {
    if (buffer) {
      shmemx_buffer_unregister(buffer);
      (void)hipFree(p);
    } else {
      shmem_free(p);
    }
  }
};
#endif

#endif
