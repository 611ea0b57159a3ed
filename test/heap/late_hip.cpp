// SPDX-License-Identifier: MIT
#include "late_hip.hpp"
#include <hip/hip_runtime_api.h>

bool hip_set_device(int device) {
  return hipSetDevice(device) == hipSuccess;
}
bool hip_malloc(void **p, size_t bytes) {
  return hipMalloc(p, bytes) == hipSuccess;
}
bool hip_free(void *p) {
  return hipFree(p) == hipSuccess;
}
bool hip_finish() {
  return hipStreamSynchronize(nullptr) == hipSuccess;
}
