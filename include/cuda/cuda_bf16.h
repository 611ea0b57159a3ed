// SPDX-License-Identifier: MIT
// The types have other names in HIP, from ROCm 5.7 on; functions on them have the same.
#pragma once
#include <cuda_runtime.h>
#if !defined __HIP_PLATFORM_CPU__ && __has_include(<hip/hip_bf16.h>)
#include <hip/hip_bf16.h>
typedef __hip_bfloat16 __nv_bfloat16;
typedef __hip_bfloat162 __nv_bfloat162;
#endif
