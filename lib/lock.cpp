// SPDX-License-Identifier: MIT
// Locks are served in the order of asking: the lock is two counters, the tickets given out and the
// tickets served. Only the object of one PE is used, the lock's home; homes are spread by the
// lock's place, so that an array of locks does not burden one.
#include "lock.hpp"
#include "address.hpp"
#include "gpu.hpp"
#include "sync.hpp"

namespace shmem::api {

namespace {

struct Counters { // what a long of 64 bits holds; zero means free
  uint32_t served, given;
};
static_assert(sizeof(Counters) == sizeof(long));

Counters *home(const char *fn, long *lock) {
  if (self.check) [[unlikely]]
    check_symmetric(fn, "lock", lock, sizeof *lock, alignof(long));
  uintptr_t base = self.heap.has(lock)     ? self.heap.base
                   : self.device.has(lock) ? self.device.base
                                           : self.data.base;
  int pe = self.ready ? int((uintptr_t(lock) - base) / sizeof(long) % unsigned(self.n)) : 0;
  return reinterpret_cast<Counters *>(at(fn, "lock", lock, 1, pe));
}

// One of the two, in host memory, or in device memory where the GPU does it.
class Word {
  uint32_t &w;
  bool on_gpu;

public:
  explicit Word(uint32_t &w) : w(w), on_gpu(self.careful && gpu::does_atomics(&w)) {}
  uint32_t load() const {
    return on_gpu ? gpu::atomic(gpu::op_fetch, &w)
                  : std::atomic_ref(w).load(std::memory_order_acquire);
  }
  uint32_t next(std::memory_order order) const {
    return on_gpu ? gpu::atomic(gpu::op_add, &w, 1u) : std::atomic_ref(w).fetch_add(1, order);
  }
  bool replace(uint32_t old, uint32_t value) const {
    return on_gpu ? gpu::atomic(gpu::op_cas, &w, value, old) == old
                  : std::atomic_ref(w).compare_exchange_strong(old, value,
                                                               std::memory_order_acquire);
  }
};

} // namespace

void set_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  uint32_t mine = Word(c->given).next(std::memory_order_relaxed);
  const Word served(c->served);
  wait_while({c, true}, [&] { return served.load() != mine; });
}

void clear_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  // Releases what the holder has stored (its quiet), and is a full fence for ring.
  if (self.careful) {
    gpu::finish();
    full_fence();
  }
  Word(c->served).next(std::memory_order_seq_cst);
  ring({c, true});
}

int test_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  uint32_t served = Word(c->served).load();
  return !Word(c->given).replace(served, served + 1);
}

} // namespace shmem::api
