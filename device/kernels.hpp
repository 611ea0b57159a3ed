// SPDX-License-Identifier: MIT
// The library's own kernels, as lib/ calls them.
#pragma once
#include "state.hpp"
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
enum class Type : int { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, f16, bf16, c32, c64 };
enum class Combine : int { and_, or_, xor_, max, min, sum, prod };

// The same on a stream; *fetch, of as many bytes, becomes what was there, if it is not NULL.
hipError_t atomic_on_stream(Atomic op, void *p, size_t bytes, uint64_t value, uint64_t cond,
                            void *fetch, hipStream_t stream);
hipError_t copy_on_stream(void *dest, const void *source, size_t bytes, bool from_pe,
                          unsigned blocks, unsigned threads, hipStream_t stream);
struct Strides { // in elements
  ptrdiff_t dst, sst;
  size_t unit; // bytes of an element
};
// n blocks of `block` elements; from_pe: source is the peer's, or else dest.
hipError_t strided_on_stream(void *dest, const void *source, const Strides &strides, size_t block,
                             size_t n, bool from_pe, hipStream_t stream);
hipError_t store_on_stream(void *dest, uint64_t value, size_t bytes, hipStream_t stream);
// Up to a few KiB, the signal behind them; sig is the peer's. add, or set.
hipError_t put_signal_on_stream(void *dest, const void *source, size_t bytes, uint64_t *sig,
                                uint64_t value, bool add, hipStream_t stream);
hipError_t wait_on_stream(uint64_t *sig, int cmp, uint64_t value, hipStream_t stream);
hipError_t quiet_on_stream(hipStream_t stream);
hipError_t sync_on_stream(unsigned id, hipStream_t stream);

// Collectives: the same on all members, each workgroup on a channel of its own (device/coll.hpp).
enum class Move : int { broadcast, collect, fcollect, alltoall, alltoalls };
enum class Shape : int { all, scatter, inscan, exscan };
struct Collective {
  device::Team team;
  unsigned id;
  int algorithm; // device::Algorithm
  unsigned blocks, threads;
  hipStream_t stream;
  void *dest;
  const void *source;
  size_t n; // bytes, of alltoalls and reductions elements
};
hipError_t move(Move what, const Collective &c, int root, const Strides &strides);
// and_, or_ and xor_ are of unsigned types; scans are sums.
hipError_t reduce(Combine op, Type type, Shape shape, const Collective &c);
// The most workgroups of threads that the device holds at once of any of these kernels.
hipError_t residents(int device, unsigned threads, unsigned *blocks);

} // namespace shmem::kernels
