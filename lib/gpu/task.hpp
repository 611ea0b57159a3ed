// SPDX-License-Identifier: MIT
// What another node asks of device memory that the host does not reach. A thread of the library
// does it: nobody who holds a lock calls the driver, which may wait for kernels, which may wait for
// who wants that lock. Copies are engines' work, and so is a store of one word that comes alone:
// they find room beside kernels that wait. For stores that come together see device::Stores, for
// other atomics device::Errand.
#pragma once
#include "../../device/kinds.hpp"
#include "../../device/state.hpp"
#include <memory>

namespace shmem::gpu {

struct Task {
  enum Kind : uint8_t { put, stores, get, atomic } kind;
  Amo op;
  void *p;
  size_t bytes, n, stride;      // n blocks of bytes, so many from each other; or n stores
  uint64_t value, cond;         // value: then what was there before
  std::unique_ptr<char[]> data; // of the blocks, or a device::Stores::One for each store
  // The ends of copies and stores are told in their order, and so are those of the others.
  static bool is_copy(Amo op, size_t bytes) { return op == Amo::set || bytes < 4; }
  bool is_copy() const { return kind != atomic || is_copy(op, bytes); }
  virtual void done() = 0; // is called then
  virtual ~Task() = default;
};
void start(std::unique_ptr<Task> task);

void open_errands(device::Served *served, uint64_t *bell);
void close_errands();

} // namespace shmem::gpu
