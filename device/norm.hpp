// SPDX-License-Identifier: MIT
// An all-reduce that goes on with each row of its sums, as the library and its kernels have it. See
// shmemx_norm_t, and rows.hpp for the kernels.
#pragma once
#include "kinds.hpp"
#include "state.hpp"
#include <hip/hip_runtime_api.h>
#include <shmemx.h>

namespace shmem::rows {

struct Matrix {
  char *at;
  size_t pitch; // bytes from row to row
};
struct RowsCall {
  device::Team team;
  unsigned id;
  CollectiveAlgorithm algorithm;
  unsigned blocks;
  unsigned columns, group;
  int from, to; // the turns of a kernel, see Reducer::run
  size_t rows;
  Matrix input, residual, sum, out, quantized, scales; // a matrix without an address is left out
  shmemx_type_t type;
  bool fnuz, scattered; // each member has the residual and the sum of its own rows only
  // 1: the members meet in the workgroups, and not in kernels before and behind. An int, because
  // gfx9 has no scalar load of a byte, and a vector load waits for the stores before it.
  int meets;
  // All members get the sums of these parts, and finish all rows.
  SHMEM_HD_ bool gathers() const {
    return algorithm == CollectiveAlgorithm::phases && sum.at && !scattered;
  }
};

// A row is in the registers of a workgroup: of each thread `deep` packs of 16 bytes, 1, 2, 4 or 8.
// Both numbers depend on nothing but the row's length, as the order of sums over it does.
// Of kernels for short rows, up to short_deep, a GPU holds more workgroups.
inline constexpr unsigned most_packs = 8 * device::max_threads, short_deep = 2;
constexpr unsigned deep(unsigned packs) {
  unsigned k = 1;
  while (k * device::max_threads < packs) k *= 2;
  return k;
}
constexpr unsigned threads(unsigned packs) {
  return unsigned(device::full_waves((packs + deep(packs) - 1) / deep(packs)));
}
// By lines a workgroup has a piece of a row: of as many packs, one for each thread. 7 workgroups
// take 5.2 us for a row of 14 KiB, and one takes 7.0 (2 H200s, 2026-11-28; all-reduce alone 4.4).
inline constexpr unsigned piece_packs = 128, most_pieces = most_packs / piece_packs;
SHMEM_HD_ constexpr unsigned pieces(unsigned packs) {
  return (packs + piece_packs - 1) / piece_packs;
}
inline constexpr const char *rows_name = "an all-reduce by rows";

using Launch = hipError_t (*)(const RowsCall &call, hipStream_t stream, const void *finish);

// RMSNorm, for which finish is an RmsNorm.
struct RmsNorm {
  const void *weight; // NULL: 1
  float offset, eps;
};
hipError_t norm(const RowsCall &call, hipStream_t stream, const void *finish);
// The workgroups of its kernels for short rows that the GPU holds at once.
hipError_t residents(int device, unsigned *blocks);

// The struct that the library and a program share.
inline constexpr size_t shared_bytes = sizeof(RowsCall);

} // namespace shmem::rows

// Checks the call, chooses how it goes, and starts it.
extern "C" void shmemx_all_reduce_rows_launch(const char *fn, size_t shared_bytes,
                                              shmem_team_t team, const shmemx_norm_t *norm,
                                              shmemx_stream_t stream, shmem::rows::Launch launch,
                                              const void *finish);
