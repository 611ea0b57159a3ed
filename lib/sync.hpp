// SPDX-License-Identifier: MIT
// Waiting, in one place: poll, then yield, then sleep on a futex. Jobs with more PEs than cores are
// normal, so a waiter gives up its core early there, and late where every PE has a core.
#pragma once
#include "state.hpp"
#include <type_traits>

namespace shmem {

// Orders this thread's accesses before it and after it, plain ones too. ThreadSanitizer knows no
// fences, but understands a read-modify-write of one object.
inline void full_fence() {
#ifdef __SANITIZE_THREAD__
  static std::atomic<int> all;
  all.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
// Orders earlier accesses before later stores.
inline void release_fence() {
#ifdef __SANITIZE_THREAD__
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

// The pause between two polls. It reads the clock, which waits for the load before it, so a flag
// travels faster than with the `pause` instruction (ns one way, clock / `pause`, 2026-11: two
// threads of a core of an EPYC 40 / 54, two of its cores 188 / 314; two cores of a Xeon 160 / 165).
inline void pause_core() {
#if defined __x86_64__
  const unsigned long long start = __builtin_ia32_rdtsc();
  while (__builtin_ia32_rdtsc() - start < 60) {
  }
#elif defined __aarch64__
  asm volatile("isb" ::: "memory");
#endif
}

long now_ns(); // of the clock by which waits are measured
// Whether a wait that began then has lasted longer than SHMEM_WAIT_LIMIT.
bool past_limit(long start);

// The location that a wait is about, so that only threads that wait for it are woken: a word of the
// library's own, an object of the program, or null for several objects of the program.
struct Location {
  const void *p;
  bool own; // the library's
};

// The slow part of wait_while: yields, then sleeps.
[[gnu::noinline]] void wait_slow(Location where, bool (*blocked)(void *), void *context);

// How often wait_while polls before it yields. The number adapts to what yielding finds, see
// sync.cpp. net_spins: the most in a job of several nodes, because the network stands still during
// these polls.
inline constexpr int least_spins = 5, most_spins = 500, net_spins = 50;

// Returns once blocked() is false. blocked() loads with acquire what another PE or thread stores.
template <class F> inline void wait_while(Location where, F &&blocked) {
  // Stores of another node come by progress, so their waiter makes some at once (p + wait_until
  // over shared memory, one way: 0.6 us in place of 2.5; 2026-11-24).
  const bool here = where.own || self.one_node();
  for (int i = here ? self.spins.load(std::memory_order_relaxed) : 1; i > 0; i--) {
    if (!blocked()) return;
    pause_core();
  }
  wait_slow(
      where, [](void *f) { return (*static_cast<std::remove_reference_t<F> *>(f))(); }, &blocked);
}

// A program may wait in a loop of its own, by tests, reads or swaps that fail. If it shares its
// core with the PE that it waits for, it would keep that core until the scheduler's next tick (two
// PEs on one core, 2026-11: 7 to 16 ms a round by shmem_test, 4 us by wait_until). So it yields as
// often as a waiter does.
[[gnu::cold, gnu::noinline]] void give_way();
inline void poll_failed() {
  const int failed = self.failed.load(std::memory_order_relaxed) + 1; // roughly is enough
  self.failed.store(failed, std::memory_order_relaxed);
  if (failed >= self.spins.load(std::memory_order_relaxed)) [[unlikely]]
    give_way();
}
// A read by the program on the slow path. It has failed when the same place gives the same value as
// the last time.
void polled(const void *p, const void *value, size_t bytes);

// Wakes the threads that sleep until this location changes. The store to it must be a full fence,
// or be followed by one, because it must not pass the load of sleepers. Plain puts and atomics wake
// no thread: they would pay for it. A sleeper looks by itself once in a millisecond. A thread that
// goes to sleep wakes the others before, so that no two wait for each other longer than a
// millisecond.
[[gnu::cold, gnu::noinline]] void wake_sleepers(Location where);
inline void wake_at(Location where) {
  if (self.job->sleepers.load(std::memory_order_seq_cst)) [[unlikely]]
    wake_sleepers(where);
}

} // namespace shmem
