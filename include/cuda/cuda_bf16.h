// SPDX-License-Identifier: MIT
// The types have other names in HIP, functions on them have the same. ROCm has the header from 5.7
// on.
#pragma once
#include <cuda_runtime.h>
#if __has_include(<hip/hip_bf16.h>)
#include <hip/hip_bf16.h>
typedef __hip_bfloat16 __nv_bfloat16;
typedef __hip_bfloat162 __nv_bfloat162;
#endif
