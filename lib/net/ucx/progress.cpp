// SPDX-License-Identifier: MIT
// The progress thread: it replies to other nodes while the program computes, and sleeps while calls
// poll. It also ends the job when a peer is lost, and asks the next node whether it is there.
#include "../../exit.hpp"
#include "ucx.hpp"
#include <poll.h>
#include <shmemx.h>
#include <unistd.h>

namespace shmem::net {

namespace {

// Ends the job because a PE is lost.
void report_loss(int pe, const char *what) {
  if (over_soon()) return;
  last_word("%s: %s: the job ends", with_host(pe).text, what);
  end_job(1);
}

uint64_t polls() {
  return watched.polls.load(std::memory_order_relaxed);
}
// Sleeps while calls poll, because the thread would only be in their way: with 4 PEs on 4 cores a
// barrier of two nodes took 64 us, and takes 42 so (2026-11-22). It wakes from time to time to look
// at other things. The longer calls have polled, the longer it sleeps: where all cores are busy,
// some thread loses its core each time this one wakes.
void leave_to_callers(uint64_t seen) {
  uint64_t now;
  for (int i = 0; i < 25 && !progress_thread.stops() && !watched.failed && !watched.ends;
       i++, seen = now) {
    if ((now = polls()) == seen) return;
    usleep(i < 2 ? 1000 : 4000);
  }
}

// A cut cable breaks no connection, and a firewall makes none. So the first PE of each node asks
// the first one of the next node whether it is there, four times in SHMEM_NET_TIMEOUT.
class Watch {
  static inline std::atomic<bool> replied; // the reply may come after this has gone
  int next = -1;                           // the PE to ask
  double asked = 0;
  bool heard = false; // a reply, ever

public:
  Watch() {
    replied = true;
    if (self.local != 0 || self.one_node() || self.env.p2p == Env::network) return;
    next = self.me;
    do next = (next + 1) % self.n;
    while (first_of(next) != next);
  }
  // Returns the time in ms after which to call it again, or -1.
  int look() {
    if (next < 0) return -1;
    const double limit = self.env.net_timeout, now = shmemx_wtime();
    if (over()) return int(limit * 250) + 1;
    if (replied && now - asked >= limit / 4) {
      heard = asked > 0;
      asked = now;
      ask_alive(next, &replied);
    } else if (!replied && now - asked >= limit) {
      report_loss(next, heard
                            ? print("no answer for %g seconds (SHMEM_NET_TIMEOUT)", limit).text
                            : print("no answer in %g seconds (SHMEM_NET_TIMEOUT), nor ever one: a "
                                    "firewall between the nodes, or the wrong network (%s)?",
                                    limit, ways().text)
                                  .text);
    }
    return int(limit * 250) + 1;
  }
};

void loop() {
  int events;
  must(ucp_worker_get_efd(worker, &events), "ucp_worker_get_efd");
  Watch watch;
  int refused = 0;
  for (;;) {
    unsigned n = 0;
    ucs_status_t status = UCS_ERR_BUSY;
    const int rest = watch.look();
    const uint64_t before = polls();
    // A thread that waits for the lock would be woken by each poll of a call, too late. So this one
    // tries the lock, but not for ever: there are calls that send and never poll.
    std::unique_lock guard(lock, std::defer_lock);
    if (refused == 10) guard.lock();
    if (guard || guard.try_lock()) {
      refused = 0;
      while (ucp_worker_progress(worker)) {
        n++;
        if (polls() != before) break;
      }
      status = ucp_worker_arm(worker);
      guard.unlock();
    } else { // a call that sends has it, and will poll next
      usleep(1000);
      refused = polls() == before ? refused + 1 : 0;
    }
    if (watched.ends && status != UCS_ERR_BUSY) { // the reply is out
      leaving = true;
      return void(claim_exit(watched.status));
    }
    // A thread that sleeps until an object of this PE changes does not hear of stores from here.
    if (n) wake_at({nullptr, false});
    if (status == UCS_ERR_BUSY) {
      leave_to_callers(before);
      continue;
    }
    if (progress_thread.stops()) return;
    if (watched.failed && !over())
      report_loss(int(watched.failed.load() - peers), ucs_status_string(watched.failure));
    const uint64_t seen = polls();
    pollfd event{events, POLLIN, 0};
    poll(&event, 1, rest);
    leave_to_callers(seen);
  }
}

} // namespace

Service progress_thread("replies to other nodes", loop, [] { ucp_worker_signal(worker); });

void start() {
  if (!worker) return;
  leaving = false;
  progress_thread.start();
}

void leave() {
  leaving = true;
}

void stop() {
  if (!worker) return;
  // The messages of the last barrier are out.
  std::atomic<int> count{0};
  {
    std::lock_guard guard(lock);
    const ucp_request_param_t p = counted(&count);
    began(ucp_worker_flush_nbx(worker, &p), &count, "ucp_worker_flush");
  }
  wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
  drop_copies();
  progress_thread.stop();
}

} // namespace shmem::net
