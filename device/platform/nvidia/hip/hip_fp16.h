// SPDX-License-Identifier: MIT
// CUDA's names are HIP's here: __half, __half2 and functions on them.
#pragma once
#include <cuda_fp16.h>
