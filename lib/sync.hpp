// SPDX-License-Identifier: MIT
// Waiting, in one place: poll, then yield, then sleep on a futex. Jobs with more PEs than cores are
// normal, so a waiter gives up its core early there, and late where every PE has a core.
#pragma once
#include "state.hpp"

namespace shmem {

inline void pause_core() {
#if defined __x86_64__
  __builtin_ia32_pause();
#elif defined __aarch64__
  asm volatile("isb" ::: "memory");
#endif
}

// The slow part of wait_while: yields, then sleeps.
[[gnu::noinline]] void wait_slow(bool (*blocked)(void *), void *context);

// Returns once blocked() is false. blocked() loads with acquire what another PE or thread stores.
template <class F> inline void wait_while(F &&blocked) {
  for (int i = self.spins; i > 0; i--) {
    if (!blocked()) return;
    pause_core();
  }
  wait_slow([](void *f) { return (*static_cast<std::remove_reference_t<F> *>(f))(); }, &blocked);
}

// Wakes sleeping waiters, after a store that they may be waiting for. Call it where a sleeper
// should not lie until its sleep ends by itself (at most a millisecond): barriers, signals, locks,
// and whoever starts to wait. The store before it must be a full fence, or be followed by one: it
// must not pass the load of sleepers.
[[gnu::cold, gnu::noinline]] void ring_sleepers();
inline void ring() {
  if (self.job->sleepers.load(std::memory_order_seq_cst)) [[unlikely]]
    ring_sleepers();
}

} // namespace shmem
