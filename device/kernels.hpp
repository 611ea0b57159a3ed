// SPDX-License-Identifier: MIT
// The library's own kernels, as lib/ calls them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime_api.h>

namespace shmem::kernels {

enum class Atomic : int { fetch, set, swap, cas, add, and_, or_, xor_ };

// One atomic on the word of 4 or 8 bytes at p, whoever's memory it is. What was there before goes
// to *result.
hipError_t atomic(Atomic op, void *p, size_t bytes, uint64_t value, uint64_t cond, uint64_t *result,
                  hipStream_t stream);

} // namespace shmem::kernels
