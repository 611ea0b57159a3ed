// SPDX-License-Identifier: MIT
// HIP's routines in tests: a call that fails ends the test.
#ifndef SHMEM_TEST_HIP_HPP
#define SHMEM_TEST_HIP_HPP

#include <hip/hip_runtime_api.h>
extern "C" {
#include "harness.h"
}

#define HIP(call)                                                                                  \
  do {                                                                                             \
    const hipError_t error_ = (call);                                                              \
    CHECK(error_ == hipSuccess, "%s: %s", #call, hipGetErrorString(error_));                       \
  } while (0)

// Without a GPU the job ends with 77, and the test is skipped.
inline hipStream_t make_stream() {
  hipStream_t made;
  if (hipStreamCreateWithFlags(&made, hipStreamNonBlocking) != hipSuccess) {
    fprintf(stderr, "no stream: is there a GPU?\n");
    shmem_global_exit(77);
  }
  return made;
}

#endif
