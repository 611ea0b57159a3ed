// SPDX-License-Identifier: MIT
// HIP's halves have CUDA's names.
#pragma once
#include <cuda_runtime.h>
#include <hip/hip_fp16.h>
