// SPDX-License-Identifier: MIT
// shmem_perf --device, --stream and --gemm, which are HIP and C++, for the C program around them.
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
  bool scopes;                    // bandwidth of waves and threads, too
  bool json;
};

struct gemm_options {
  size_t m, n, k; // the only shape, or 0: those of a table
  int runs;       // timed runs of each row
  bool json;
};

#ifdef __cplusplus
extern "C" {
#endif
void device_perf(const struct device_options *options);
void stream_perf(const struct device_options *options);
void gemm_perf(const struct gemm_options *options);
#ifdef __cplusplus
}

#include "../../device/runtime.hpp" // without hardware sizes and counts are less
#endif

#endif
