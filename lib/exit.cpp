// SPDX-License-Identifier: MIT
#include "exit.hpp"
#include "bootstrap.hpp"
#include "log.hpp"
#include "memory/segment.hpp"
#include "net.hpp"
#include "rendezvous.hpp"
#include "state.hpp"
#include "sync.hpp"
#include "thread.hpp"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shmem {

namespace {

std::atomic<int> exit_status; // what the program has called exit with, without shmem_finalize

// Ends the process. If its program is in exit(), that call gets 10 s: the program's handlers, the
// GPU's runtime or a leak checker may take longer than the rest of the job (1.2 s under
// LeakSanitizer on a busy machine, 2026-11-30). The process has the program's status in any case.
[[noreturn]] void end_process(int status) {
  for (int tenths = 0; exit_status && tenths < 100; tenths++) usleep(100'000);
  _exit(exit_status ? exit_status.load() : status);
}

// A PE has died, and the first PE that noticed has reported it. The launcher, which has noticed as
// well, gets a second to end the job in its own way, with the program's status.
[[noreturn]] void end_after_death() {
  sleep(1);
  end_process(1);
}

void report_death(int local) {
  uint32_t none = 0;
  if (self.job->dead.compare_exchange_strong(none, uint32_t(local) + 1))
    last_word("PE %d (process %d) has died without shmem_finalize: the job ends", self.pe_of(local),
              self.slots[local].pid.load());
  bootstrap::means->report({self.pe_of(local), 1, true});
  alarm_all();
}

constexpr char root_has_ended[] = "the process that made the unique id has ended: the job ends";

void (*finalize)(); // what exit() does for a program that has not called shmem_finalize

pthread_t watcher;
int stop_fd = -1;

constexpr int watched = 2;         // PEs that a PE watches
int processes[watched] = {-1, -1}; // their pidfds
bool met;                          // the PEs of the node have met

// Whether this PE of the job has come to init.
bool has_come(int pe) {
  const int local = local_of(pe);
  if (local < 0 || local >= self.n_local) return false;
  return rendezvous::has_come(local) || (self.job && self.slots[local].pid);
}

// Waits for the line that another PE prints about this end: one on the dead PE's node, for which
// the teller waits as well, or the teller.
bootstrap::JobEnd wait_for_line(bootstrap::JobEnd end) {
  true_within(bootstrap::means->teller(end) == self.me ? 300 : 1000,
              [&] { return end.said || (end = bootstrap::means->heard().value_or(end)).said; });
  return end;
}

// Reads the connections to PEs of other nodes. A PE on the dead PE's node reports the death; a PE
// of another node only where none of that node is left to report it.
void look_elsewhere() {
  auto end = bootstrap::means->heard();
  if (!end) return;
  const int local = end->pe < 0 ? -1 : local_of(end->pe);
  if (!end->said && local >= 0 && local < self.n_local) {
    if (self.slots[local].phase != Slot::done) report_death(local);
    return;
  }
  end = wait_for_line(*end);
  uint64_t none = 0;
  if (!self.job->exit.compare_exchange_strong(none, uint64_t(1) << 32 | uint32_t(end->status)))
    return;
  if (!end->said) {
    if (end->pe == bootstrap::root_ended)
      last_word("%s", root_has_ended);
    else
      last_word("PE %d, on %s, has died without shmem_finalize: the job ends", end->pe,
                bootstrap::host_of(end->pe).name);
    bootstrap::means->report({end->pe, end->status, true});
  }
  alarm_all();
}

// The launcher hears of a death as well, and may kill the neighbour of the dead PE before it has
// reported the death: then the neighbour's neighbour would report the neighbour (1 of some thousand
// deaths on a busy machine, 2026-11-25). So a PE watches the next two, and reports the farther one
// if both are gone.
void *watch(void *) {
  constexpr int pipe = watched, stop = watched + 1;
  const int n = std::min(watched, self.n_local - 1);
  const auto local = [](int i) { return (self.local + 1 + i) % self.n_local; };
  std::vector<pollfd> fds(watched + 2);
  bool gone[watched] = {}, any_gone = false;
  for (int i = 0; i < watched; i++) fds[i] = {-1, POLLIN, 0};
  for (int i = 0; i < n; i++) {
    // A process that has ended has no pidfd; then only its phase tells whether it had left.
    if (processes[i] < 0)
      processes[i] = int(syscall(SYS_pidfd_open, self.slots[local(i)].pid.load(), 0));
    fds[i].fd = processes[i];
    any_gone |= gone[i] = fds[i].fd < 0 && errno == ESRCH;
    if (fds[i].fd < 0 && !gone[i])
      debug("pidfd_open: %s: left to the launcher to notice that a PE has died", strerror(errno));
  }
  fds[pipe] = {self.pipe_read, POLLIN, 0};
  fds[stop] = {stop_fd, POLLIN, 0};
  for (;;) {
    fds.resize(watched + 2);
    bootstrap::means->poll_for(&fds);
    if (!any_gone && poll(fds.data(), fds.size(), -1) < 0) continue;
    any_gone = false;
    if (fds[stop].revents) break;
    if (fds.size() > watched + 2) look_elsewhere();
    // Before deaths: the PE that ends the job may be gone already.
    if (uint64_t ending = self.job->exit) {
      flush_together();
      bootstrap::leave(); // else some launchers take the end, even with status 0, for a failure
      end_process(int(uint32_t(ending)));
    }
    for (int i = n - 1; i >= 0; i--) {
      if (!gone[i] && !fds[i].revents) continue;
      gone[i] = false;
      fds[i] = {-1, POLLIN, 0};
      if (self.slots[local(i)].phase != Slot::done) report_death(local(i));
    }
    if (self.job->dead) end_after_death();
  }
  return nullptr;
}

void at_exit(int status, void *) {
  if (getpid() != self.pid || self.exiting)
    return; // a forked child, or the job is being ended already
  self.exiting = true;
  if (self.inits == 0) return bootstrap::leave();
  if (status == 0) return finalize();
  if (self.n > 1) {
    exit_status = status;
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
    bootstrap::means->report({self.me, status, true});
    net::tell_exit(status); // before this node's PEs go, whose connections UCX may be making
    if (!claim_exit(status))
      for (;;) pause(); // another PE is ending the job, and this process with it
    flush_together();
  }
  bootstrap::leave();
  exit(status);
}

void check_started() {
  if (past_limit(self.init_began))
    fatal("waited for the other PEs longer than SHMEM_WAIT_LIMIT = %g seconds, in shmem_init",
          self.env.wait_limit);
  std::optional<bootstrap::JobEnd> end;
  if (const int local = rendezvous::ended(); local >= 0)
    end = {self.pe_of(local), 1, false};
  else if (self.local == 0 || !self.job) // the others learn of it from the leader's end
    end = bootstrap::ended(has_come);
  const uint64_t ending = self.job ? self.job->exit.load() : 0;
  bool named = ending || (self.job && self.job->dead) || (end && end->said); // a PE has said why
  if (!end && !named) return;
  if (!named && local_of(end->pe) < 0) end = wait_for_line(*end), named = end->said;
  if (!named && (self.local == 0 || self.local == (local_of(end->pe) + 1) % self.n_local)) {
    if (end->pe == bootstrap::root_ended) fatal("%s", root_has_ended);
    fatal("PE %d has ended and does not come to shmem_init: the job ends", end->pe);
  }
  usleep(300000); // another PE names it
  end_job(ending ? int(uint32_t(ending)) : end ? end->status : 1);
}

void start_watch() {
  if (self.n == 1) return;
  if (!met) rendezvous::end(processes);
  met = true;
  stop_fd = eventfd(0, EFD_CLOEXEC);
  if (int error = start_thread(&watcher, watch))
    fatal("starting the thread that watches for the end of the job: %s", strerror(error));
}

void stop_watch() {
  if (self.n == 1) return;
  if (!data::has_file()) { // nothing wakes the watch any more, and the process ends
    pthread_detach(watcher);
    return;
  }
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_fd, &one, sizeof one);
  pthread_join(watcher, nullptr);
  close(stop_fd);
}

void stop_watching() {
  for (int &fd : processes)
    if (fd >= 0) close(std::exchange(fd, -1));
  met = false;
}

void catch_exit(void (*finalize_at_exit)()) {
  if (!finalize) on_exit(at_exit, nullptr);
  finalize = finalize_at_exit;
}

} // namespace shmem
