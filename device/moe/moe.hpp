// SPDX-License-Identifier: MIT
// Tokens to experts and back, as lib/gpu/moe.cpp calls it. A routing is made once from the experts'
// numbers; dispatch, its replays and combine go by it.
//
// A member has a part of every other member's memory for itself, so the place of a row follows from
// the sender's own routing: no atomic of another PE, and the same order in every run.
#pragma once
#include "../state.hpp"
#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime_api.h>
#include <shmemx.h>

namespace shmem {
struct Residents; // launch.hpp
}
namespace shmem::moe {

inline constexpr int max_members = 64, max_experts = 1024, max_top_k = 32;
inline constexpr unsigned chunk = 32; // tokens: one bit each of a word of Moe::has

// On a line of its own, because a peer stores it and this PE polls it.
struct alignas(device::cache_line) EpochLine {
  uint64_t epoch;
};
// At the same place on each PE. Member i writes the i-th of each kind of flag at all others. A call
// of any kind has one epoch.
struct MoeSignals {
  EpochLine entered[max_members]; // its stream has come to the call
  EpochLine ended[max_members];   // it has sent all to this PE, or has read all of this PE's rows
  alignas(device::cache_line) uint64_t epoch;   // of the last call that has ended here
  alignas(device::cache_line) uint64_t members; // that take part, one bit each
  uint64_t dropped[2]; // rows that found no room here: in the last dispatch, and in all
  alignas(device::cache_line) unsigned count; // workgroups of the running kernel that have ended
  unsigned came, meetings;                    // see join in wg.hpp
  uintptr_t delta[max_members];               // from an object here to that of member i
  int pe[max_members];                        // the PE that is member i
};

// A member's memory, at the same places on each PE. Columns are the members, and behind them
// all experts.
struct Moe {
  int me, n, experts, local, top_k; // local: experts of a member
  shmemx_moe_layout_t layout;
  shmemx_type_t type;
  unsigned alignment, tokens, chunks, columns; // tokens: the most of a member
  unsigned capacity; // rows: of a member, of an expert, or in all, as the layout says
  unsigned staged;   // rows that a member may send here
  size_t token_bytes, scale_bytes, row_bytes; // row_bytes: of what combine sums
  MoeSignals *signals;
  // The routing of this PE's tokens. has and before are not those of few tokens, see is_few.
  uint32_t *has;   // [column][chunk]: which tokens of the chunk go there
  int *before;     // [column][chunk]: how many of earlier chunks do
  int *id, *place; // [token][k]: the expert or -1; the row's place among this PE's there, or -1
  float *weight;   // [token][k]
  // [expert]: the row at its PE of place 0, and the first row that does not exist. Rows by PE need
  // neither.
  int *base, *bound;
  // Of all members.
  int *counts; // [member][column]
  int *start;  // [member][local expert]: the row here of the member's place 0
  int *gap;    // [local expert]: rows from its last one to this one are empty now
  int *last;   // the end of all rows of the last dispatch
  // The rows that have come, by member. Arrays with k are [row][k].
  char *stage, *stage_scales;
  int *stage_pe, *stage_token, *stage_expert, *stage_place;
  float *stage_weight;
  // The caller's rows; by member they are the stage.
  char *rows, *scales;
  int *row_pe, *row_token, *row_expert;
  float *row_weight;
  int *pe_count, *expert_count, *expert_first;
};

// The most workgroups of any of the kernels of few tokens that the device holds at once.
hipError_t residents(int device, unsigned *blocks);
void look_at_dispatch(Residents &r);

// The most workgroups of a kernel that waits for other PEs, and of one that does not.
struct Grids {
  unsigned waiting, others;
};
// ids null: the routing of the last dispatch again.
hipError_t dispatch(const Moe &moe, const void *tokens, const void *scales, const int *ids,
                    const float *weights, unsigned n, Grids grids, hipStream_t stream);
// row: of the deltas to the memory of `rows`, by PE, or null for the heap.
hipError_t combine(const Moe &moe, const void *rows, const uintptr_t *row, void *out, unsigned n,
                   bool weighted, Grids grids, hipStream_t stream);

} // namespace shmem::moe

// Fills in the object of a shmemx_moe_t as kernels have it, of `bytes` bytes.
extern "C" void shmemx_moe_kernel_object(shmemx_moe_t moe, size_t bytes, void *object);
