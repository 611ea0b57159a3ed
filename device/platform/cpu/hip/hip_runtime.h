// SPDX-License-Identifier: MIT
// HIP for a machine without a GPU: hip_runtime_api.h is the host's side, here is that of kernels.
#pragma once
#include "hip_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
