// SPDX-License-Identifier: MIT
// HIP's groups have CUDA's names.
#pragma once
#include <cuda_runtime.h>
#include <hip/hip_cooperative_groups.h>
