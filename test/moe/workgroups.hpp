// SPDX-License-Identifier: MIT
// A kernel that makes a call of shmem/device/moe/wg.hpp.
#pragma once
#include <hip/hip_runtime_api.h>
#include <shmemx.h>

void dispatch_by_workgroups(shmemx_moe_t moe, const void *tokens, const void *scales,
                            const int *ids, const float *weights, int n, hipStream_t stream,
                            unsigned threads = 0);
void combine_by_workgroups(shmemx_moe_t moe, const void *rows, void *out, int n, bool weighted,
                           hipStream_t stream);
