// SPDX-License-Identifier: MIT
#include "exit.hpp"
#include "bootstrap.hpp"
#include "log.hpp"
#include "net.hpp"
#include "state.hpp"
#include "sync.hpp"
#include "thread.hpp"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shmem {

namespace {

// A PE is gone without having left. The first that notices reports it. Then the launcher, which has
// noticed as well, has a second to end the job in its own way, with the status that the program
// had.
[[noreturn]] void end_after_death() {
  sleep(1);
  _exit(1);
}

void report_death(int local) {
  uint32_t none = 0;
  if (self.job->dead.compare_exchange_strong(none, uint32_t(local) + 1))
    last_word("PE %d (process %d) has died without shmem_finalize: the job ends", self.pe_of(local),
              self.slots[local].pid.load());
  alarm_all();
}

void (*finalize)(); // what exit() does for a program that has not called shmem_finalize

pthread_t watcher;
int stop_fd = -1;

void *watch(void *) {
  const int next = (self.local + 1) % self.n_local;
  Slot &slot = self.slots[next];
  // A process that has ended has no pidfd; then only its phase tells whether it had left.
  int pidfd = int(syscall(SYS_pidfd_open, slot.pid.load(), 0));
  bool gone = pidfd < 0 && errno == ESRCH;
  if (pidfd < 0 && !gone)
    debug("pidfd_open: %s: left to the launcher to notice that a PE has died", strerror(errno));
  pollfd fds[3] = {{pidfd, POLLIN, 0}, {self.pipe_read, POLLIN, 0}, {stop_fd, POLLIN, 0}};
  for (;;) {
    if (!gone && poll(fds, 3, -1) < 0) continue;
    if (fds[2].revents) break;
    if (gone || fds[0].revents) {
      gone = false;
      fds[0].fd = -1;
      if (slot.phase != Slot::done) report_death(next);
    }
    if (self.job->dead) end_after_death();
    if (uint64_t ending = self.job->exit) {
      flush_together();
      bootstrap::leave(); // else some launchers take the end, even with status 0, for a failure
      _exit(int(uint32_t(ending)));
    }
  }
  if (pidfd >= 0) close(pidfd);
  return nullptr;
}

void at_exit(int status, void *) {
  if (getpid() != self.pid || self.exiting)
    return; // a forked child, or the job is being ended already
  self.exiting = true;
  if (self.inits == 0) return bootstrap::leave();
  if (status == 0) return finalize();
  if (self.n > 1) {
    uint32_t none = 0;
    if (self.job->dead.compare_exchange_strong(none, uint32_t(self.local) + 1))
      last_word("exit(%d) without shmem_finalize: the job ends", status);
    alarm_all();
  }
}

} // namespace

void global_exit(int status) {
  self.exiting = true;
  no_last_word();
  if (self.job && self.n > 1) {
    net::tell_exit(status); // before this node's PEs go, whose connections UCX may be making
    if (!claim_exit(status))
      for (;;) pause(); // somebody else is ending the job, and this process with it
    flush_together();
  }
  bootstrap::leave();
  exit(status);
}

void check_started() {
  static const long since = now_ns();
  if (past_limit(since))
    fatal("waited for the other PEs longer than SHMEM_WAIT_LIMIT = %g seconds, in shmem_init",
          self.env.wait_limit);
  int pe = bootstrap::ended();
  if (pe < 0) return;
  if (self.local == (local_of(pe) + 1) % self.n_local)
    fatal("PE %d has ended before shmem_init: the job ends", pe);
  usleep(300000); // its neighbour reports it
  end_job(1);
}

void start_watch() {
  if (self.n == 1) return;
  stop_fd = eventfd(0, EFD_CLOEXEC);
  if (int error = start_thread(&watcher, watch))
    fatal("starting the thread that watches for the end of the job: %s", strerror(error));
}

void stop_watch() {
  if (self.n == 1) return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_fd, &one, sizeof one);
  pthread_join(watcher, nullptr);
  close(stop_fd);
}

void catch_exit(void (*finalize_at_exit)()) {
  if (!finalize) on_exit(at_exit, nullptr);
  finalize = finalize_at_exit;
}

} // namespace shmem
