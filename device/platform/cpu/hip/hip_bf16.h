// SPDX-License-Identifier: MIT
#pragma once
#include "float16.h"

namespace hip_cpu {
inline namespace names {

using __hip_bfloat16 = Float16<8>; // the upper half of a float
using __hip_bfloat162 = Float16Pair<8>;
HIP_CPU_FLOAT16(bfloat16, __hip_bfloat16, __hip_bfloat162)

} // namespace names
} // namespace hip_cpu
