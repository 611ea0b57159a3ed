// SPDX-License-Identifier: MIT
// The kinds of atomics, copies and collectives, by names that host and device share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <shmem/compiler.h>

namespace shmem {

enum class Amo : uint8_t { fetch, set, swap, compare_swap, add, and_, or_, xor_ };

// Which side of a copy is the peer's. The other one may be anything that the GPU reaches.
enum class Remote { dest, source };

// The types in which elements are combined, see op.hpp.
#define SHMEM_TYPES_(X)                                                                            \
  X(i8, int8_t)                                                                                    \
  X(u8, uint8_t)                                                                                   \
  X(i16, int16_t)                                                                                  \
  X(u16, uint16_t)                                                                                 \
  X(i32, int32_t)                                                                                  \
  X(u32, uint32_t)                                                                                 \
  X(i64, int64_t)                                                                                  \
  X(u64, uint64_t)                                                                                 \
  X(f32, float)                                                                                    \
  X(f64, double)                                                                                   \
  X(f16, Half)                                                                                     \
  X(bf16, Bfloat16)                                                                                \
  X(c32, Complex<float>)                                                                           \
  X(c64, Complex<double>)
#define SHMEM_TYPE_(name, T) name,
enum class ElementType { SHMEM_TYPES_(SHMEM_TYPE_) };
#undef SHMEM_TYPE_
#define SHMEM_TYPE_(name, T) ElementType::name,
inline constexpr ElementType types[] = {SHMEM_TYPES_(SHMEM_TYPE_)};
#undef SHMEM_TYPE_

// The operators, by their names in routines, and the struct of each in op.hpp.
#define SHMEM_OPERATORS_(X)                                                                        \
  X(and, And)                                                                                      \
  X(or, Or)                                                                                        \
  X(xor, Xor)                                                                                      \
  X(max, Max)                                                                                      \
  X(min, Min)                                                                                      \
  X(sum, Sum)                                                                                      \
  X(prod, Prod)
enum class Operator { and_, or_, xor_, max, min, sum, prod };
constexpr bool signs_matter(Operator op) {
  return op == Operator::max || op == Operator::min;
}
// The reductions that have a kernel of their own, which goes in one shot, too: sums of
// floating-point types. Additions of integers cost nothing beside the loads, and sums of complex
// numbers are rare.
constexpr bool has_kernel(Operator op, ElementType t) {
  return op == Operator::sum && t >= ElementType::f32 && t <= ElementType::bf16;
}

// The result of the sources: all of each combined, for all members; block i combined, for member i;
// or the sources up to, or before, the member's own combined. oneshot: all, of two members, each of
// which combines for itself.
enum class Shape { all, scatter, inscan, exscan, oneshot };

// The collectives, with their names in tables of SHMEM_TUNE_FILE.
enum class Collective {
  reduce,
  reduce_scatter,
  scan,
  broadcast,
  collect,
  fcollect,
  alltoall,
  alltoalls,
  alltoallv,
  norm
};
inline constexpr const char *collectives[] = {
    "reduce",   "reduce_scatter", "scan",      "broadcast", "collect",
    "fcollect", "alltoall",       "alltoalls", "alltoallv", "norm"};

// A block of an alltoall2d, and how far apart its rows and the blocks begin, in bytes.
struct Block2d {
  size_t bytes, rows; // of a row; of the block
  ptrdiff_t dest_block, dest_row, source_block, source_row;
};

// The bytes from the begin of the first of n blocks to the end of the last one.
SHMEM_HD_ constexpr size_t extent(size_t n, ptrdiff_t block, ptrdiff_t row, const Block2d &b) {
  return b.bytes && b.rows ? (n - 1) * size_t(block) + (b.rows - 1) * size_t(row) + b.bytes : 0;
}

// The arguments of an alltoallv beside its data: arrays of a number for each member, in units.
struct Uneven {
  const size_t *counts, *offsets;     // of source's blocks
  size_t *recv_counts, *recv_offsets; // of dest's; the latter has one more, where the last one ends
  size_t capacity;                    // of dest
  size_t unit;                        // bytes
};

// The ways of a collective, with their names there. phases: direct, but a workgroup writes to
// others when it has read all of its part. oneshot: direct, but of two members each reads all, and
// writes nothing to the other. results: of a norm only, see rows.hpp.
enum class CollectiveAlgorithm { lines, direct, phases, oneshot, results };
inline constexpr const char *algorithms[] = {"lines", "direct", "phases", "oneshot", "results"};
// Of a norm: whether each member loads a part of the rows, and whether several workgroups share a
// row.
constexpr bool splits(CollectiveAlgorithm a) {
  return a == CollectiveAlgorithm::phases || a == CollectiveAlgorithm::results;
}
constexpr bool shares(CollectiveAlgorithm a) {
  return a == CollectiveAlgorithm::lines || a == CollectiveAlgorithm::results;
}

} // namespace shmem
