// SPDX-License-Identifier: MIT
#pragma once
#include "float16.h"

namespace hip_cpu {
inline namespace names {

using __half = Float16<5>; // IEEE binary16
using __half2 = Float16Pair<5>;
using half = __half;
using half2 = __half2;
HIP_CPU_FLOAT16(half, __half, __half2)

} // namespace names
} // namespace hip_cpu
