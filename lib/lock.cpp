// SPDX-License-Identifier: MIT
// Locks are served in the order of asking: the lock is two counters, the tickets given out and the
// tickets served. Only the object of one PE is used, the lock's home; homes are spread by the
// lock's place, so that an array of locks does not burden one.
#include "lock.hpp"
#include "address.hpp"
#include "sync.hpp"

namespace shmem::api {

namespace {

struct Counters { // what a long of 64 bits holds; zero means free
  uint32_t served, given;
};
static_assert(sizeof(Counters) == sizeof(long));

Counters *home(const char *fn, long *lock) {
  if (self.check) check_symmetric(fn, "lock", lock, sizeof *lock, alignof(long));
  uintptr_t base = self.heap.has(lock) ? self.heap.base : self.data.base;
  int pe = self.ready ? int((uintptr_t(lock) - base) / sizeof(long) % unsigned(self.n)) : 0;
  return reinterpret_cast<Counters *>(at(fn, "lock", lock, 1, pe));
}

std::atomic_ref<uint32_t> word(uint32_t &n) {
  return std::atomic_ref<uint32_t>(n);
}

} // namespace

void set_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  uint32_t mine = word(c->given).fetch_add(1, std::memory_order_relaxed);
  wait_while({c, true}, [=] { return word(c->served).load(std::memory_order_acquire) != mine; });
}

void clear_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  // Releases what the holder has stored (its quiet), and is a full fence for ring.
  word(c->served).fetch_add(1, std::memory_order_seq_cst);
  ring({c, true});
}

int test_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  uint32_t served = word(c->served).load(std::memory_order_acquire), given = served;
  return !word(c->given).compare_exchange_strong(given, served + 1, std::memory_order_acquire);
}

} // namespace shmem::api
