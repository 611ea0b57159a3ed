// SPDX-License-Identifier: MIT
// CUDA's runtime by the names that its sources have, where the GPU is not one of NVIDIA's.
#pragma once
#include <hip/hip_runtime_api.h>
#include <shmem/cuda_names.h>
