// SPDX-License-Identifier: MIT
// HIP's halves have CUDA's names; the cpu platform has none.
#pragma once
#include <cuda_runtime.h>
#ifndef __HIP_PLATFORM_CPU__
#include <hip/hip_fp16.h>
#endif
