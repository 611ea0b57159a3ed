// SPDX-License-Identifier: MIT
#pragma once

namespace shmem {

// What is done while no other thread of this process runs. Both parts may use the stack and
// syscall() only: a thread that is stopped may hold any lock. They return 0, or an errno.
struct Alone {
  // Copies, and may be called again.
  int (*prepare)(void *);
  // Takes effect in one system call.
  int (*exchange)(void *);
  void *with;
};

// Stops the other threads, calls both parts, and lets the threads go on. A system call in which a
// thread waits goes on, too. No signal is handled by this thread meanwhile.
int while_alone(const Alone &work);

} // namespace shmem
