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

// What a combination of members' arrays is taken in, and how. Integers of a size are one: signed
// and unsigned differ for min and max only.
enum class Type : int { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };
enum class Combine : int { and_, or_, xor_, max, min, sum, prod, inscan, exscan };

// Element i of each dest becomes the combination of element i of the sources in their order, or of
// a scan, of those up to the dest's own. Both are lists of members pointers in memory that the GPU
// sees; n elements.
hipError_t combine(Combine op, Type type, void *const *dests, const void *const *sources,
                   int members, size_t n, hipStream_t stream);

} // namespace shmem::kernels
