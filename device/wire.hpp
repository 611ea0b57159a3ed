// SPDX-License-Identifier: MIT
// Collectives whose elements travel as fewer bits, as the library and its kernels have them. See
// shmemx_wire_t.
//
// A vector is cut into segments, one for each member, and a segment into tiles of 32 blocks of 32
// elements. There are three phases:
//   quantize  each member quantizes the segments of others, and stores each one to its owner
//   sum       each member adds up the segment that it owns, quantizes the sum and stores it to all
//   spread    each member gives its dest the quantized sums of the others
// Members store to each other, and load from their own memory. Loads from each other took 17% more
// time (int4, 8 MiB, 2 H200s, 2026-11-30). In a fcollect alone each member stores to itself, and
// the others load: there is no room for the sources of all.
// A member adds the elements of its own source as they are. The owner of a segment gives dest the
// same sums that it stores to the others.
//
// Between two phases the members meet: the workgroups of one kernel each on a channel of its own;
// or kernels of one workgroup, between kernels that fill the GPU. In the latter way a vector goes
// in chunks, each a phase behind the one before, so that the links carry one chunk while the next
// one is quantized.
#pragma once
#include "state.hpp"
#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime_api.h>
#include <shmemx.h>

namespace shmem::wire {

inline constexpr int max_members = 64;
// 85 registers for each thread of 2 workgroups on a multiprocessor; 64 would be too few.
inline constexpr unsigned threads = 384;
inline constexpr unsigned block = 32; // elements that share a scale
inline constexpr unsigned tile = 32;  // lanes, and so blocks
inline constexpr size_t tile_elements = size_t(tile) * block;
// Lanes of all members have numbers of 32 bits.
inline constexpr size_t most_elements = size_t(1) << 30;

// The 32-bit words of a block's codes: as many as a code has bits.
constexpr unsigned words_of(shmemx_wire_format_t format) {
  return format == SHMEMX_WIRE_INT4 ? 4 : format == SHMEMX_WIRE_INT6 ? 6 : 8;
}

enum class WireOp { sum, scatter, gather, round };
enum WirePhase { quantize, sum, spread, phases };
struct Quantized { // at the same place on each PE
  char *codes;
  uint16_t *scales; // the upper half of a float
};
struct WireCall {
  device::Team team;
  unsigned id;
  WireOp op;
  bool meets; // the members meet in the workgroups, and not in kernels between
  unsigned blocks;
  unsigned tiles;                    // of a segment
  unsigned from[phases], to[phases]; // the tiles of each segment that a kernel takes
  size_t segment, total;             // elements from segment to segment, and of all
  // The addresses of segment 0; of member 0's if a vector is one segment.
  uintptr_t source, dest;
  // What the others store here, each member at its own place: of the own segment, and sums.
  Quantized parts, sums;
};
hipError_t start(const WireCall &call, shmemx_type_t type, shmemx_wire_format_t format,
                 hipStream_t stream);
// The most workgroups of any of these kernels that the device holds at once.
hipError_t residents(int device, unsigned *blocks);

} // namespace shmem::wire
