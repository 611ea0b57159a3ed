// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <hip/hip_runtime.h>
