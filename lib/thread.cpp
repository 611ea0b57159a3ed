// SPDX-License-Identifier: MIT
#include "thread.hpp"
#include "log.hpp"
#include <csignal>
#include <cstdint>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
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
  event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  stopping = woken = false;
  const auto run = [](void *service) -> void * {
    static_cast<Service *>(service)->loop();
    return nullptr;
  };
  if (int error = event < 0 ? errno : start_thread(&thread, run, this))
    fatal("starting the thread that %s: %s", does, strerror(error));
  running.store(true, std::memory_order_release);
}

void Service::stop() {
  if (!running.exchange(false)) return;
  stopping.store(true, std::memory_order_release);
  wake();
  pthread_join(thread, nullptr);
  close(event);
  event = -1;
}

void Service::wake() {
  const uint64_t one = 1;
  if (!woken.exchange(true)) [[maybe_unused]]
    const ssize_t n = write(event, &one, sizeof one);
}

bool Service::nap(long ns, int fd) {
  pollfd fds[] = {{event, POLLIN, 0}, {fd, POLLIN, 0}};
  const timespec limit{ns / 1000000000, ns % 1000000000};
  ppoll(fds, 2, ns < 0 ? nullptr : &limit, nullptr);
  if (fds[0].revents) {
    uint64_t times;
    [[maybe_unused]] const ssize_t n = read(event, &times, sizeof times);
    woken.exchange(false); // acquires what a thread stored whose wake found this set
  }
  return fds[0].revents;
}

} // namespace shmem
