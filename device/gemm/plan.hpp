// SPDX-License-Identifier: MIT
// A model of how long a product of several PEs takes, which chooses the algorithm and how many
// workgroups send.
#pragma once
#include "gemm.hpp"
#include "matmul.hpp"
#include <algorithm>

namespace shmem::gemm {

// The row length of boxes, whose rows start on multiples of 16 bytes whatever the matrix.
inline size_t padded(size_t elements, Type type) {
  const size_t each = 16 / bytes_of(type);
  return (elements + each - 1) / each * each;
}
// The shard of member i. That of member 0 is the longest.
struct Shard {
  size_t first, rows;
};
inline Shard shard_of(size_t m, int members, int i) {
  Shard s;
  shmemx_matmul_shard(m, members, i, &s.first, &s.rows);
  return s;
}

inline hipError_t compute_units(unsigned *units) {
  int device, count;
  hipError_t error = hipGetDevice(&device);
  if (!error) error = hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device);
  if (!error) *units = unsigned(count);
  return error;
}

template <class T> Matrices<T> matrices(const Matmul &call, size_t shard) {
  return {static_cast<const T *>(call.a),
          static_cast<const T *>(call.b),
          call.lda,
          call.ldb,
          unsigned(call.m),
          unsigned(call.n),
          unsigned(call.k),
          call.trans_a,
          call.trans_b,
          call.small_tiles,
          shard < call.m ? unsigned(shard) : 0};
}
// About how long a call takes, by figures of an H200 (2026-11): while others multiply, a workgroup
// of the pool sends 20 GB/s; a launch, and copies beside it, cost 6 us.
inline constexpr double pool_rate = 20e3, launch_us = 6; // bytes/us

// The size of the pool with which a product of `tiles` tiles and its sends end first. A larger pool
// has to win more than rounding does: of 304 workgroups on an MI300X 49 would send what 3 can.
struct Pool {
  unsigned size;
  double us;
};
inline Pool pool_for(size_t tiles, size_t room, double tile_us, double bytes, const Links &links) {
  Pool best{0, 0};
  for (unsigned size = 0; size <= room / 4; size++) {
    const size_t workers = room - size;
    const double product = double((tiles + workers - 1) / workers) * tile_us,
                 rate = std::min(size * pool_rate, links.kernels),
                 us = product + std::max(bytes - (product - tile_us) * rate, 0.0) / links.kernels;
    if (!size || us < 0.999 * best.us) best = {size, us};
  }
  return best;
}

// The tiles of m rows, the workgroups that a GPU of so many compute units has room for, and how
// long a tile takes.
struct TileWork {
  size_t tiles, room;
  double tile_us;
  size_t rounds(size_t times = 1) const { return (tiles * times + room - 1) / room; }
};
template <class Core> TileWork work_of(const Matmul &call, size_t m, unsigned units) {
  return {(m + Core::tile_m - 1) / Core::tile_m * ((call.n + Core::tile_n - 1) / Core::tile_n),
          std::min(units * Core::resident, max_workers),
          2.0 * Core::tile_m * Core::tile_n * double(call.k) / Core::speed};
}
// With the core that is best for the call.
template <class T> hipError_t work_for(const Matmul &call, size_t m, TileWork *work) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(matrices<T>(call, m), [&](auto core, const auto &) {
    *work = work_of<decltype(core)>(call, m, units);
    return hipSuccess;
  });
}

// Whether the product of a shard and then that of the others take little longer than all at once:
// tiles come in rounds of as many as the GPU has room for, and the rest of a round is lost. 8192 x
// 8192 in 4 shards on an H200: 4 + 12 rounds against 16.
template <class T>
hipError_t splits_well(const Matmul &call, unsigned rows, unsigned shards, bool *well) {
  TileWork work;
  if (hipError_t error = work_for<T>(call, rows, &work)) return error;
  *well = (work.rounds() + work.rounds(shards - 1) - work.rounds(shards)) * 4 <= work.rounds();
  return hipSuccess;
}

// The time of a product whose tiles its pool sends.
template <class T> hipError_t pooled(const Matmul &call, unsigned rows, double bytes, double *us) {
  TileWork work;
  if (hipError_t error = work_for<T>(call, rows, &work)) return error;
  *us = pool_for(work.tiles, work.room, work.tile_us, bytes, call.links).us;
  return hipSuccess;
}
// Whether a product of so many shards ends earlier if copy engines send all of them but the last.
// The tiles of a single round need not be sent, because each is stored at its owner (512 x 8192 x
// 3584 on 2 H200s: 70 us in place of 77).
template <class T>
hipError_t copies_well(const Matmul &call, unsigned rows, unsigned shards, double bytes,
                       bool *well) {
  Matmul one = call;
  one.m = rows;
  TileWork all, shard;
  hipError_t error = work_for<T>(call, rows, &all);
  if (!error) error = work_for<T>(one, rows, &shard);
  if (error) return error;
  const double us = double(shard.rounds()) * shard.tile_us + launch_us;
  *well = all.rounds(shards) > 1 &&
          std::max(shards * us, us + bytes / call.links.engines) <
              pool_for(all.tiles * shards, all.room, all.tile_us, bytes, call.links).us;
  return hipSuccess;
}

inline bool too_large(const Matmul &call) {
  const size_t most = (size_t(1) << 31) - 4096; // a tile beyond the end still counts in 32 bits
  return call.m > most || call.n > most || call.k > most;
}

} // namespace shmem::gemm
