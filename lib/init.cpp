// SPDX-License-Identifier: MIT
// Bring-up and tear-down, in one readable order.
#include "init.hpp"
#include "bind.hpp"
#include "bootstrap.hpp"
#include "bootstrap/variables.hpp"
#include "built.h"
#include "copy.hpp"
#include "exit.hpp"
#include "gpu/choice.hpp"
#include "gpu/heap.hpp"
#include "log.hpp"
#include "memory/buffer.hpp"
#include "memory/heap.hpp"
#include "memory/segment.hpp"
#include "net.hpp"
#include "order.hpp"
#include "state.hpp"
#include "team.hpp"
#include "tune.hpp"
#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <dlfcn.h>
#include <pshmem.h>
#include <shmemx.h>
#include <unistd.h>

namespace shmem {

Env::gpu device_of_attributes = Env::gpu::any;

namespace {

bool by_attributes; // this process has left a job that shmemx_init_attr had made
bool by_start_pes;  // the program began with start_pes: it may end without finalize

void choose_spins() {
  int cores = 0;
  for (const auto &word : self.job->cores) cores += std::popcount(word.load());
  self.oversubscribed = self.n_local > cores;
  self.spins = self.oversubscribed ? least_spins : most_spins;
}

void print_info() {
  if (self.me != 0) return;
  if (self.env.version || self.env.info)
    printf("libshmem %s, OpenSHMEM %d.%d\n", SHMEM_LIBRARY_VERSION, SHMEM_MAJOR_VERSION,
           SHMEM_MINOR_VERSION);
  if (self.env.info)
    for (size_t i = 0; i < n_variables; i++) print_variable(variables[i]);
  fflush(stdout);
}

void finalize_at_exit();

void find_neighbours(const std::vector<int> &on_node) {
  int *const pes = new int[on_node.size()], *const locals = new int[size_t(self.n)];
  std::fill_n(locals, self.n, -1);
  for (size_t i = 0; i < on_node.size(); i++) locals[pes[i] = on_node[i]] = int(i);
  self.pes = pes, self.locals = locals;
}

// Done once in a job. Under a launcher, which starts a job once, a process stays joined and mapped
// from then on: shmem_init after shmem_finalize brings the library up again in the same job.
void join_job() {
  self.init_began = now_ns();
  look_for_threads();
  gpu::look(); // before a network, which may start the GPU's runtime, too
  char message[256];
  const bool right = read_env(&self.env, message, sizeof message);
  if (device_of_attributes != Env::gpu::any) self.env.gpu_choice = device_of_attributes;
  if (!bootstrap::means) bootstrap::means = &bootstrap::launcher;
  if (right) bootstrap::choose_means();
  if (by_attributes && bootstrap::means == &bootstrap::launcher)
    fatal("shmem_init: this process has left the job that shmemx_init_attr made: shmemx_init_attr "
          "makes the next one");
  bootstrap::Place place = bootstrap::join();
  self.me = place.me;
  self.n = place.n;
  if (!right) fatal_all("%s", message);
  if (self.env.p2p == Env::network) place = bootstrap::alone(place);
  self.local = place.local;
  self.n_local = place.n_local;
  if (self.n > max_pes) fatal_all("%d PEs: this build takes at most %d", self.n, max_pes);
  find_neighbours(place.pes);
  net::check(place);
  segment::join(place);
  net::open();
  self.pid = getpid();
  catch_exit(finalize_at_exit);
  Slot &slot = self.slots[self.local];
  show_cores();
  print_info();
  if (self.me == 0 && !self.env.quiet) unknown_variables([](const char *line) { say("%s", line); });
  if (*self.env.trace) {
    auto *traced =
        reinterpret_cast<void (*)(const char *, int)>(dlsym(RTLD_DEFAULT, "shmem_traced"));
    if (traced)
      traced(self.env.trace, self.env.trace_records);
    else if (self.me == 0)
      say("SHMEM_TRACE: nothing is recorded, since oshrun did not start this; "
          "LD_PRELOAD=libshmem_trace.so does it, too");
  }
  slot.pid.store(self.pid, std::memory_order_release);
}

// Waits until every PE of the node has come for the first time. It sleeps, because the others need
// the cores to start (8 PEs on 2 cores, 2026-11: 30 ms with yields, 12 ms with sleeps). A PE that
// takes long may never come.
void wait_for_all() {
  auto missing = [] {
    for (int i = 0; i < self.n_local; i++)
      if (self.slots[i].pid.load(std::memory_order_acquire) == 0) return true;
    return false;
  };
  for (int tries = 1; missing(); tries++) {
    usleep(tries < 100 ? 100 : 1000);
    if (tries % 500 == 0) check_started();
  }
}

void bring_up(int thread_level) {
  const bool first = !self.job;
  if (first) join_job();
  self.spins = least_spins;
  make_teams();
  self.slots[self.local].phase = Slot::up;
  net::start();
  if (first)
    wait_for_all(); // so the watch knows every process
  else
    sync(*self.world);
  if (self.local == 0) self.job->departed = 0;
  choose_spins();
  start_watch();
  self.check = self.env.check;
  self.stream_bytes = stream_threshold();
  if (!self.one_node()) tune::open("", {1, 1, 1}); // where there is no GPU
  gpu::open();
  bind(thread_level);
  reset_heaps();
  choose_spans();
  self.ready = true;
  debug("up: %d PEs, process %d", self.n, self.pid);
}

// Without a launcher this PE may be in another job next, of other PEs.
void leave_job() {
  stop_watching();
  net::close();
  segment::leave();
  delete[] self.pes;
  delete[] self.locals;
  by_attributes = !*self.env.bootstrap;
  by_start_pes = false;
  bootstrap::means = nullptr;
  reset_state();
}

void tear_down() {
  const bool for_good = bootstrap::means == &bootstrap::group && !self.exiting;
  Slot &slot = self.slots[self.local];
  if (!self.one_node()) {
    net::quiet();
    sync(*self.world); // all have come to leave
    net::leave();
  }
  sync(*self.world); // no PE uses this PE's heap any more
  buffer::drop_all();
  sync(*self.world); // no PE leaves while members of its buffers wait for it
  self.ready = self.check = self.careful = false;
  self.fast = self.word = self.read = {};
  // Before close, which waits for the others: one of them in a barrier would wait in vain.
  uint32_t none = 0;
  self.job->departed.compare_exchange_strong(none, uint32_t(self.local) + 1);
  gpu::close();
  if (for_good) close_heaps(), gpu::leave();
  segment::drop_heap(0, self.heap.size);
  if (self.local == 0) forget_shares();
  net::stop();
  slot.phase = Slot::done;
  stop_watch();
  unbind();
  destroy_teams();
  if (data::has_file()) {
    bootstrap::leave();
  } else {
    // PMIx would wait for its own thread, which has lost its descriptors as well.
    last_word(
        "shmem_finalize: the program has closed the descriptors of the launcher's library (by "
        "close_range?): this PE ends here");
    flush_together();
    _exit(1);
  }
  debug("down");
  if (for_good) leave_job();
}

// Does shmem_finalize's work, called by exit().
void finalize_at_exit() {
  uint32_t none = 0;
  if (!by_start_pes) self.job->departed.compare_exchange_strong(none, uint32_t(self.local) + 1);
  self.slots[self.local].phase = Slot::leaving;
  self.inits = 0;
  tear_down();
}

} // namespace

namespace api {

int init_thread(const char *fn, int requested, int *provided) {
  if (requested < SHMEM_THREAD_SINGLE || requested > SHMEM_THREAD_MULTIPLE) {
    say("%s: requested = %d: not a thread level", fn, requested);
    return 1;
  }
  if (self.inits++ == 0) {
    self.thread_level = SHMEM_THREAD_MULTIPLE;
    bring_up(requested);
  } else {
    sync(*self.world);
  }
  if (provided) *provided = self.thread_level;
  return 0;
}

void init(const char *fn) {
  init_thread(fn, SHMEM_THREAD_SINGLE, nullptr);
}

void start_pes(const char *fn, int) {
  if (self.inits) return;
  by_start_pes = true;
  init(fn);
}

void query_thread(const char *, int *provided) {
  *provided = self.thread_level;
}
void query_initialized(const char *, int *initialized) {
  *initialized = self.inits > 0;
}

void finalize(const char *fn) {
  if (self.inits == 0) {
    say("%s: called without shmem_init", fn);
    return;
  }
  full_fence(); // the quiet
  if (self.careful) finish();
  if (--self.inits) return sync(*self.world);
  tear_down();
}

void global_exit(const char *, int status) {
  shmem::global_exit(status);
}

} // namespace api
} // namespace shmem

// C cannot pass "..." on, so these two are not generated. The level is for tools that profile;
// there is nothing to do here.
extern "C" void pshmem_pcontrol(int, ...) {}
extern "C" decltype(pshmem_pcontrol) shmem_pcontrol __attribute__((weak, alias("pshmem_pcontrol")));
// For tools/shmem_trace, which puts its own in their place.
extern "C" void shmemx_trace_start() {}
extern "C" void shmemx_trace_stop() {}
extern "C" void shmemx_trace_event(unsigned) {}
extern "C" [[gnu::visibility("default")]] void shmemx_traced_add(void *) {}
extern "C" [[gnu::visibility("default")]] void shmemx_traced_remove(void *) {}
