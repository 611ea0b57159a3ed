// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <pthread.h>

namespace shmem {

// Starts a thread of the library, which gets none of the program's signals. 0 or an errno.
int start_thread(pthread_t *thread, void *(*run)(void *), void *argument = nullptr,
                 size_t stack_bytes = 256 << 10);

// A progress thread: one that works in a loop of its own until the library stops it. `does`
// completes "the thread that", for an error message.
class Service {
  const char *const does;
  void (*const loop)();
  pthread_t thread;
  int event = -1; // an eventfd that ends a nap
  std::atomic<bool> running, stopping, woken;

public:
  constexpr Service(const char *does, void (*loop)()) : does(does), loop(loop), thread() {}
  void start();
  void stop(); // waits until the loop has returned
  bool runs() const { return running.load(std::memory_order_acquire); }

  // For the loop:
  bool stops() const { return stopping.load(std::memory_order_acquire); }
  // Sleeps until another thread calls wake or stop, for at most `ns` (-1: without limit), or until
  // the descriptor `fd` has something to read. True when wake or stop has been called.
  bool nap(long ns, int fd = -1);

  void wake(); // also ends a nap that has not begun
};

} // namespace shmem
