// SPDX-License-Identifier: MIT
// Deferred work: operations that other nodes request on device-only memory. Only a build with a
// network has it.
#pragma once
#include "../../device/state.hpp"
#include <memory>
#include <vector>

namespace shmem::gpu {

// An operation that another node requests on device-only memory of this PE. A progress thread does
// it. No thread that holds a lock calls the driver: a call of the driver may wait for kernels,
// which may wait for the holder of the lock. Engines copy data and single stores, because they find
// room beside kernels that wait. See device::DeferredStores and device::DeferredAtomic for the
// rest.
struct Deferred {
  Operation op;                 // an atomic, a put or a get; an atomic's value becomes the old one
  char *p;                      // the object
  std::unique_ptr<char[]> data; // of a put, and then of a get
  std::vector<device::DeferredStores::One> stores; // a batch, in place of op
  // Whether engines do it. Those are done in the order of defer(), and so are the others.
  static bool is_copy(const Operation &op) {
    return op.kind != Operation::atomic || op.amo == Amo::set || op.width < 4;
  }
  bool is_copy() const { return !stores.empty() || is_copy(op); }
  virtual void done() = 0; // sends the reply
  virtual ~Deferred() = default;
};
void defer(std::unique_ptr<Deferred> work);

// Starts to do deferred work. offered: on the device, see device::Tickets.
void open_deferred(device::Served *served, uint64_t *offered);
void close_deferred();

} // namespace shmem::gpu
