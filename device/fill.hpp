// SPDX-License-Identifier: MIT
// The library's kernels that fill memory, as lib/fill.cpp calls them. dest is aligned to its type,
// and any memory that the GPU reaches.
#pragma once
#include "kinds.hpp"
#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime_api.h>

namespace shmem::kernels {

// n elements of unit bytes, the lower ones of bits.
hipError_t fill_on_stream(void *dest, uint64_t bits, size_t unit, size_t n, hipStream_t stream);
// Element i becomes first + i * step, both given by their bits. Types are C++'s types of numbers;
// signs do not matter.
hipError_t iota_on_stream(ElementType type, void *dest, uint64_t first, uint64_t step, size_t n,
                          hipStream_t stream);
// Element i becomes number first + i of the sequence of seed.
hipError_t random_on_stream(ElementType type, void *dest, size_t n, uint64_t seed, uint64_t first,
                            hipStream_t stream);

} // namespace shmem::kernels
