// SPDX-License-Identifier: MIT
#include "thread.hpp"
#include <csignal>

namespace shmem {

int start_thread(pthread_t *thread, void *(*run)(void *), void *argument, size_t stack_bytes) {
  sigset_t all, before;
  sigfillset(&all);
  // The program's signals are for the program's threads.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, stack_bytes);
  int error = pthread_create(thread, &attr, run, argument);
  pthread_attr_destroy(&attr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

} // namespace shmem
