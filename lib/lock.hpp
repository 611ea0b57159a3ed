// SPDX-License-Identifier: MIT
// Ticket locks, which are served in the order of asking: a lock is two counters, the tickets given
// out and the tickets served. Only the object of one PE is used, the lock's home. The lock's
// address selects the home among all PEs, or among the team that has the memory, so that an array
// of locks does not burden one PE.
#pragma once
#include "address.hpp"
#include "memory/buffer.hpp"
#include "order.hpp"
#include "sync.hpp"

namespace shmem::api {

struct Counters { // what a long of 64 bits holds; zero means free
  uint32_t served, given;
};
static_assert(sizeof(Counters) == sizeof(long));

// The counters in use are PE pe's. p: where they are mapped, or the lock here if they are not.
struct Home {
  Counters *p;
  int pe;
  bool mapped;
};

inline Home home(const char *fn, long *lock) {
  if (self.check) [[unlikely]]
    check_symmetric(fn, "lock", lock, sizeof *lock, alignof(long));
  const Region *r = region(lock); // without one, or before init, at() says what is wrong
  int pe = 0;
  if (r) {
    const uintptr_t place = (uintptr_t(lock) - r->base) / sizeof(long);
    const Team *const team = r->team;
    pe = team ? team->pe(int(place % unsigned(team->n))) : int(place % unsigned(self.n));
  }
  if (local_of(pe) < 0) return {reinterpret_cast<Counters *>(lock), pe, false};
  auto *const there = reinterpret_cast<Counters *>(at(fn, "lock", lock, 1, pe));
  if (self.careful) buffer::check_atomic(fn, "lock", lock, pe);
  return {there, pe, true};
}

// Calls f(one of the two).
template <class F> auto with(const Home &h, uint32_t Counters::*which, F f) {
  uint32_t *const word = &(h.p->*which);
  return with_object(h.mapped ? word : nullptr, word, h.pe, f);
}
inline uint32_t load(const Home &h, uint32_t Counters::*which) {
  return with(h, which, [](auto a) { return a.fetch(std::memory_order_acquire); });
}
inline uint32_t next(const Home &h, uint32_t Counters::*which, std::memory_order order) {
  return with(h, which, [=](auto a) { return a.template fetch_op<Amo::add>(1, order); });
}

inline void set_lock(const char *fn, long *lock) {
  const Home h = home(fn, lock);
  const uint32_t mine = next(h, &Counters::given, std::memory_order_relaxed);
  wait_while({h.p, true}, [=] { return load(h, &Counters::served) != mine; });
}

inline void clear_lock(const char *fn, long *lock) {
  const Home h = home(fn, lock);
  if (self.careful) finish();
  // The holder's stores come before this store (its quiet), and wake_at's load of sleepers after
  // it.
  next(h, &Counters::served, std::memory_order_seq_cst);
  wake_at({h.p, true});
}

inline int test_lock(const char *fn, long *lock) {
  const Home h = home(fn, lock);
  const uint32_t served = load(h, &Counters::served);
  const int failed = with(h, &Counters::given, [=](auto given) {
    uint32_t free = served;
    return !given.compare_swap(free, served + 1, std::memory_order_acquire);
  });
  if (failed) poll_failed();
  return failed;
}

} // namespace shmem::api
