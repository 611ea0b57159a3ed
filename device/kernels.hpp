// SPDX-License-Identifier: MIT
// The library's own kernels, as lib/ calls them.
#pragma once
#include "kinds.hpp"
#include "state.hpp"
#include <cstddef>
#include <cstdint>
#include <hip/hip_runtime_api.h>

namespace shmem::kernels {

// An atomic on an object of 4 or 8 bytes at its address in this process. *fetch, of as many bytes,
// becomes the old value, unless it is NULL.
hipError_t atomic_on_stream(const Operation &op, void *fetch, hipStream_t stream);
hipError_t copy_on_stream(void *dest, const void *source, size_t bytes, Remote remote,
                          unsigned blocks, unsigned threads, hipStream_t stream);
hipError_t strided_on_stream(void *dest, const void *source, const Blocks &b, Remote remote,
                             hipStream_t stream);
hipError_t store_on_stream(void *dest, uint64_t value, size_t bytes, hipStream_t stream);
// Up to a few KiB, the signal behind them; sig is the peer's.
hipError_t put_signal_on_stream(void *dest, const void *source, size_t bytes, uint64_t *sig,
                                uint64_t value, int sig_op, hipStream_t stream);
hipError_t wait_on_stream(uint64_t *sig, int cmp, uint64_t value, hipStream_t stream);
hipError_t quiet_on_stream(hipStream_t stream);
// Writes back the stream's earlier stores, so peers see them, and drops old lines before later
// loads.
hipError_t refresh_on_stream(hipStream_t stream);
hipError_t sync_on_stream(unsigned id, hipStream_t stream);

// The same for objects of a PE that is not mapped; and the completion of operations at such PEs. In
// builds with a network only. A put is of any size, and its signal comes behind it.
hipError_t transfer_remote(const Operation &op, int pe, hipStream_t stream);
hipError_t atomic_remote(const Operation &op, void *fetch, int pe, hipStream_t stream);
hipError_t put_signal_remote(void *dest, const void *source, size_t bytes, uint64_t *sig,
                             uint64_t value, int sig_op, int pe, hipStream_t stream);
hipError_t quiet_remote(hipStream_t stream);
// Deferred work, see device::DeferredAtomic and device::DeferredStores.
hipError_t deferred_on_stream(hipStream_t stream);
hipError_t batch_on_stream(device::DeferredStores *batch, unsigned n, hipStream_t stream);

// A collective, as its kernel has it too: the same on all members, each workgroup on a channel of
// its own (device/coll.hpp). With more workgroups than channels, the members meet in kernels of one
// workgroup before and behind, and the workgroups between wait for no peer.
struct Call {
  device::Team team;
  unsigned id;
  CollectiveAlgorithm algorithm;
  unsigned blocks, threads;
  hipStream_t stream;
  char *dest;
  const char *source;
  size_t n;    // bytes, of alltoalls and reductions elements
  Shape shape; // of a reduction
  bool meets() const { return blocks <= device::max_channels; }
};
hipError_t enter_on_stream(const device::Team &team, unsigned id, hipStream_t stream);
hipError_t leave_on_stream(const device::Team &team, unsigned id, hipStream_t stream);
// Starts the kernel of a collective by `start`, and the kernels in which its members meet, if it
// needs such.
template <class F> hipError_t with_meetings(const Call &c, F start) {
  if (c.meets()) return start();
  hipError_t error = enter_on_stream(c.team, c.id, c.stream);
  if (!error) error = start();
  if (!error) error = leave_on_stream(c.team, c.id, c.stream);
  return error;
}
// A collective that combines nothing. elements: of an alltoalls; dest's stride is the remote one.
hipError_t move(Collective what, const Call &c, int root, const Blocks &elements);
hipError_t alltoallv(const Call &c, const Uneven &u);
hipError_t alltoall2d(const Call &c, const Block2d &b);
// and_, or_ and xor_ are of unsigned types; scans are sums.
hipError_t reduce(Operator op, ElementType type, const Call &c);
// The most workgroups of threads that the device holds at once of any of these kernels.
hipError_t residents(int device, unsigned threads, unsigned *blocks);

} // namespace shmem::kernels
