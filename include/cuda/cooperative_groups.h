// SPDX-License-Identifier: MIT
// HIP's groups are for compilers of kernels; the cpu platform has none.
#pragma once
#include <cuda_runtime.h>
#if defined __HIPCC__ && __has_include(<hip/hip_cooperative_groups.h>)
#include <hip/hip_cooperative_groups.h>
#endif
