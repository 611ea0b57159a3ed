// SPDX-License-Identifier: MIT
#include "thread.hpp"
#include "log.hpp"
#include <csignal>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

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

void Service::start() {
  stopping = false, woken = 0;
  const auto run = [](void *service) -> void * {
    static_cast<Service *>(service)->loop();
    return nullptr;
  };
  if (int error = start_thread(&thread, run, this))
    fatal("starting the thread that %s: %s", does, strerror(error));
  running.store(true, std::memory_order_release);
}

void Service::stop() {
  if (!running.exchange(false)) return;
  stopping.store(true, std::memory_order_release);
  wake();
  pthread_join(thread, nullptr);
}

void Service::wake() {
  if (signal)
    signal();
  else if (!woken.exchange(1))
    syscall(SYS_futex, &woken, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Service::nap(long ns) {
  const timespec limit{ns / 1000000000, ns % 1000000000};
  if (!woken.load())
    syscall(SYS_futex, &woken, FUTEX_WAIT_PRIVATE, 0, ns < 0 ? nullptr : &limit, nullptr, 0);
  woken.exchange(0); // acquires the stores of a thread whose wake found this set
}

} // namespace shmem
