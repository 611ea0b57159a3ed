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

// Does f(one of the two).
template <class F> auto with(uint32_t &word, F f) {
  if (self.careful && gpu::is_far(&word)) return f(gpu::Atomic<uint32_t>(&word));
  return f(std::atomic_ref<uint32_t>(word));
}
uint32_t load(uint32_t &word) {
  return with(word, [](auto a) { return a.load(std::memory_order_acquire); });
}
uint32_t next(uint32_t &word, std::memory_order order) {
  return with(word, [=](auto a) { return a.fetch_add(1, order); });
}

} // namespace

void set_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  uint32_t mine = next(c->given, std::memory_order_relaxed);
  wait_while({c, true}, [=] { return load(c->served) != mine; });
}

void clear_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  if (self.careful) gpu::finish();
  // Releases what the holder has stored (its quiet), and is a full fence for ring.
  next(c->served, std::memory_order_seq_cst);
  ring({c, true});
}

int test_lock(const char *fn, long *lock) {
  Counters *c = home(fn, lock);
  uint32_t served = load(c->served);
  const int failed = with(c->given, [=](auto given) {
    uint32_t free = served;
    return !given.compare_exchange_strong(free, served + 1, std::memory_order_acquire);
  });
  if (failed) poll_failed();
  return failed;
}

} // namespace shmem::api
