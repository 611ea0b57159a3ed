// SPDX-License-Identifier: MIT
// The library's own kernels, as lib/ calls them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime.h>

// Word i of the n at words becomes seed + i.
extern "C" hipError_t shmem_fill_pattern(uint64_t *words, size_t n, uint64_t seed, hipStream_t stream);
