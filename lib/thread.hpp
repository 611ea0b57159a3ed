// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

namespace shmem {

// Starts a thread of the library, which gets none of the program's signals. 0 or an errno.
int start_thread(pthread_t *thread, void *(*run)(void *), void *argument = nullptr,
                 size_t stack_bytes = 256 << 10);

// A thread that works in a loop of its own until the library stops it. `does` completes "the thread
// that", for an error message. signal: wakes a loop that sleeps by other means than nap.
class Service {
  const char *const does;
  void (*const loop)();
  void (*const signal)();
  pthread_t thread{};
  std::atomic<bool> running, stopping;
  std::atomic<uint32_t> woken; // a futex

public:
  constexpr Service(const char *does, void (*loop)(), void (*signal)() = nullptr)
      : does(does), loop(loop), signal(signal) {}
  void start();
  void stop(); // waits until the loop has returned
  bool runs() const { return running.load(std::memory_order_acquire); }
  void wake(); // also ends a nap that has not begun

  // For the loop:
  bool stops() const { return stopping.load(std::memory_order_acquire); }
  void nap(long ns); // until another thread calls wake or stop, for at most ns; -1: without limit
};

} // namespace shmem
