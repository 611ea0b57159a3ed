// SPDX-License-Identifier: MIT
#include "thread.hpp"
#include <csignal>

namespace shmem {

int start_thread(pthread_t *thread, void *(*run)(void *)) {
  sigset_t all, before;
  sigfillset(&all);
  // The program's signals are for the program's threads.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 256 << 10);
  int error = pthread_create(thread, &attr, run, nullptr);
  pthread_attr_destroy(&attr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

} // namespace shmem
