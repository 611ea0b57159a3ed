// SPDX-License-Identifier: MIT
// shmem_perf --device and --stream, which are HIP and C++, for the C program around it.
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

#ifdef __cplusplus
extern "C"
#endif
    void
    device_perf(const struct device_options *options);
#ifdef __cplusplus
extern "C"
#endif
    void
    stream_perf(const struct device_options *options);

#endif
