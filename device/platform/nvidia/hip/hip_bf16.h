// SPDX-License-Identifier: MIT
// The types have other names than CUDA's; functions on them have the same.
#pragma once
#include <cuda_bf16.h>

using __hip_bfloat16 = __nv_bfloat16;
using __hip_bfloat162 = __nv_bfloat162;
