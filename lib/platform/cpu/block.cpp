// SPDX-License-Identifier: MIT
// A block of threads on one thread of the host. Each thread of the GPU that has to wait for another
// is a fiber; they take turns where they wait: at a meeting (__syncthreads, a wave operation) and
// in pause(). A fiber whose thread ends takes the next thread that has not begun, so those that
// never wait share one.
#include "launch.hpp"
#include "sanitize.hpp"
#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>

namespace hip_cpu {

namespace context = boost::context::detail;
using impl::Launch;

namespace {

#if defined HIP_CPU_ASAN || defined HIP_CPU_TSAN
constexpr size_t stack_bytes = 256 << 10; // reports are printed from here
#else
constexpr size_t stack_bytes = 64 << 10;
#endif
constexpr size_t guard_bytes = 4096;
constexpr unsigned no_sync = 1; // of __tsan_switch_to_fiber

struct RunningBlock;

} // namespace

// A fiber, and the thread of the block that it runs.
struct Fiber {
  RunningBlock *block;
  Fiber *next; // in the queue that it is in
  uint32_t number;
  uint3 index;
  context::fcontext_t context;
  const void *stack; // the lowest address
  size_t bytes;
  void *fake_stack, *tsan;
};

namespace {

struct Queue {
  Fiber *head, *tail;
  int n;

  HIP_CPU_NO_TSAN void push(Fiber *l) {
    l->next = nullptr;
    (head ? tail->next : head) = l;
    tail = l;
    n++;
  }
  HIP_CPU_NO_TSAN Fiber *pop() {
    Fiber *l = head;
    if (!l) return nullptr;
    head = l->next;
    n--;
    return l;
  }
  HIP_CPU_NO_TSAN void take(Queue &other) {
    if (!other.head) return;
    (head ? tail->next : head) = other.head;
    tail = other.tail;
    n += other.n;
    other = {};
  }
};

// Where all threads that have not ended come together. What they bring lies in two slots by turns,
// because a fast one may come to the next meeting while others still read.
struct Gathering {
  int alive, arrived;
  unsigned turn;
  Queue waiting;
  char turns[2]; // for TSan, their addresses
};
struct WaveThreads {
  Gathering meeting;
  uint64_t values[2][impl::warp_size], present[2], votes[2];
};

struct RunningBlock {
  // What belongs to the host's thread, on which the block stays; finding it costs a call.
  Fiber *&lane = hip_cpu::lane;
  uint3 &thread_index = threadIdx;
  const Launch *launch;
  uint32_t threads, begun;
  Fiber *current, main; // main is the thread itself, which waits for the end
  Queue ready, polling, idle;
  Gathering all;
  int count[2], total[2];
  WaveThreads waves[impl::max_block / impl::warp_size];
  int polled; // since anything but a poll happened
  int rounds; // of nothing but polls
  long since; // ns, when the first of those rounds ended
  void *shared;
  size_t shared_bytes;
  char start, end; // for TSan
};

HIP_CPU_NO_TSAN long now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

// No fiber of the block can go on before another thread or process acts, so the block polls again
// at once, then yields the core, then sleeps for an eighth of the time that has passed. This way 64
// blocks that wait in 8 processes leave 2 cores to others; with naps of at most 50 us they took
// both (2026-11).
HIP_CPU_NO_TSAN void back_off(RunningBlock &b) {
  constexpr int at_once = 32;
  constexpr long yields_ns = 50000, most_ns = 1000000;
  if (++b.rounds < at_once) return;
  long now = now_ns();
  if (b.rounds == at_once) b.since = now;
  long waited = now - b.since;
  if (waited < yields_ns) {
    sched_yield();
    return;
  }
  timespec t{0, std::min(waited / 8, most_ns)};
  nanosleep(&t, nullptr);
}

HIP_CPU_NO_TSAN void goes_on(RunningBlock &b) {
  b.polled = b.rounds = 0;
}

[[noreturn]] void fatal(const char *what) {
  fprintf(stderr, "hip: %s\n", what);
  abort();
}

[[noreturn]] void deadlock(const RunningBlock &b) {
  int waves = 0;
  for (const WaveThreads &w : b.waves) waves += w.meeting.waiting.n;
  fprintf(stderr,
          "hip: deadlock in block (%u, %u, %u) of %u threads: %d wait in __syncthreads, %d in an "
          "operation of their wave, and the others have ended\n",
          blockIdx.x, blockIdx.y, blockIdx.z, b.threads, b.all.waiting.n, waves);
  abort();
}

void run_lane(context::transfer_t from);

HIP_CPU_NO_TSAN Fiber *make_lane(RunningBlock &b) {
  void *p = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (p == MAP_FAILED || mprotect(p, guard_bytes, PROT_NONE))
    fatal("no memory for a kernel's stacks");
  char *stack = static_cast<char *>(p) + guard_bytes;
  Fiber *l = new Fiber{};
  l->block = &b;
  l->stack = stack;
  l->bytes = stack_bytes;
  l->context = context::make_fcontext(stack + stack_bytes, stack_bytes, run_lane);
  l->tsan = __tsan_create_fiber(0);
  return l;
}

// The next thread of the block that has not begun, for that fiber.
HIP_CPU_NO_TSAN void begin(RunningBlock &b, Fiber *l) {
  const dim3 &d = b.launch->block;
  uint32_t n = l->number = b.begun++;
  l->index = {n % d.x, n / d.x % d.y, n / d.x / d.y};
}

// The fiber that runs next, when the current one cannot.
HIP_CPU_NO_TSAN Fiber *pick(RunningBlock &b) {
  if (Fiber *l = b.ready.pop()) {
    goes_on(b);
    return l;
  }
  if (b.begun < b.threads) {
    goes_on(b);
    Fiber *l = b.idle.pop();
    if (!l) l = make_lane(b);
    begin(b, l);
    return l;
  }
  if (!b.polling.n) deadlock(b);
  if (b.polled++ >= b.polling.n) {
    b.polled = 1;
    back_off(b);
  }
  return b.polling.pop();
}

// After each switch, on the new side.
HIP_CPU_NO_TSAN void arrive(context::transfer_t from, void *fake_stack) {
  auto *l = static_cast<Fiber *>(from.data);
  l->context = from.fctx;
  // Only ASan knows where a thread's own stack lies.
  const bool main = l == &l->block->main;
  (void)main;
  __sanitizer_finish_switch_fiber(fake_stack, main ? &l->stack : nullptr,
                                  main ? &l->bytes : nullptr);
}

HIP_CPU_NO_TSAN void switch_to(RunningBlock &b, Fiber *to) {
  Fiber *from = b.current;
  b.thread_index = to->index; // may be the same fiber with another thread
  if (to == from) return;
  b.current = to;
  b.lane = to == &b.main ? nullptr : to;
  __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->bytes);
  __tsan_switch_to_fiber(to->tsan, no_sync);
  arrive(context::jump_fcontext(to->context, from), from->fake_stack);
}

HIP_CPU_NO_TSAN void release(RunningBlock &b, Gathering &m) {
  m.arrived = 0;
  m.turn++;
  b.ready.take(m.waiting);
}

HIP_CPU_NO_TSAN void meet(RunningBlock &b, Gathering &m) {
  void *turn = &m.turns[m.turn & 1];
  __tsan_release(turn);
  if (++m.arrived == m.alive) {
    release(b, m);
    goes_on(b);
  } else {
    m.waiting.push(b.current);
    switch_to(b, pick(b));
  }
  __tsan_acquire(turn);
}

HIP_CPU_NO_TSAN void leave(RunningBlock &b, Gathering &m) {
  m.alive--;
  if (m.arrived && m.arrived == m.alive) release(b, m);
}

void run_thread(RunningBlock &b) {
  __tsan_acquire(&b.start);
  b.launch->kernel->run(b.launch->kernel);
  __tsan_release(&b.end);
}

HIP_CPU_NO_TSAN void run_lane(context::transfer_t from) {
  arrive(from, nullptr);
  Fiber *l = lane;
  RunningBlock &b = *l->block;
  for (;;) {
    run_thread(b);
    leave(b, b.waves[l->number / impl::warp_size].meeting);
    leave(b, b.all);
    if (b.begun < b.threads) {
      begin(b, l);
      b.thread_index = l->index;
      continue;
    }
    b.idle.push(l);
    switch_to(b, b.all.alive ? pick(b) : &b.main);
  }
}

HIP_CPU_NO_TSAN WaveThreads &wave_of(const Fiber *lane) {
  return lane->block->waves[lane->number / impl::warp_size];
}

// Brings a value and a vote to the wave; returns the slot where the others' lie.
HIP_CPU_NO_TSAN int meet_wave(WaveThreads &w, const Fiber *lane, uint64_t value, bool vote) {
  const int slot = int(w.meeting.turn & 1);
  const uint32_t me = lane->number % impl::warp_size;
  if (!w.meeting.arrived) w.present[slot] = w.votes[slot] = 0;
  w.values[slot][me] = value;
  w.present[slot] |= uint64_t(1) << me;
  w.votes[slot] |= uint64_t(vote) << me;
  meet(*lane->block, w.meeting);
  return slot;
}

} // namespace

__thread Fiber *lane;
uint32_t fence_word;

inline namespace names {
__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;
} // namespace names

namespace impl {

HIP_CPU_NO_TSAN void run_block(const Launch &launch, uint64_t number) {
  thread_local RunningBlock *mine; // its fibers and stacks stay
  if (!mine) {
    mine = new RunningBlock{};
    mine->main.block = mine;
    mine->main.tsan = __tsan_get_current_fiber();
    prctl(PR_SET_TIMERSLACK, 1000); // so that a short nap is one
  }
  RunningBlock &b = *mine;
  b.launch = &launch;
  b.threads = launch.block.x * launch.block.y * launch.block.z;
  b.begun = 0;
  b.all = {};
  b.all.alive = int(b.threads);
  for (uint32_t first = 0, w = 0; first < b.threads; first += warp_size, w++) {
    b.waves[w].meeting = {};
    b.waves[w].meeting.alive = int(std::min(b.threads - first, uint32_t(warp_size)));
  }
  if (b.shared_bytes != launch.shared) { // no more than asked for, so that ASan sees who takes more
    free(b.shared);
    b.shared = nullptr;
    if (launch.shared && posix_memalign(&b.shared, 128, launch.shared)) fatal("no shared memory");
    b.shared_bytes = launch.shared;
  }
  const dim3 &grid = gridDim = launch.grid;
  blockDim = launch.block;
  blockIdx = {uint32_t(number % grid.x), uint32_t(number / grid.x % grid.y),
              uint32_t(number / grid.x / grid.y)};
  goes_on(b);
  b.current = &b.main;
  __tsan_release(&b.start);
  switch_to(b, pick(b));
  __tsan_acquire(&b.end);
}

} // namespace impl

HIP_CPU_NO_TSAN void pause() {
  Fiber *l = lane;
  if (!l) {
    sched_yield();
    return;
  }
  RunningBlock &b = *l->block;
  b.polling.push(l);
  switch_to(b, pick(b));
}
HIP_CPU_NO_TSAN void progress() {
  if (const Fiber *l = lane) goes_on(*l->block);
}

HIP_CPU_NO_TSAN void *dynamic_shared() {
  return lane->block->shared;
}

HIP_CPU_NO_TSAN Votes sync_block(bool vote) {
  RunningBlock &b = *lane->block;
  const int slot = int(b.all.turn & 1);
  if (!b.all.arrived) b.count[slot] = b.total[slot] = 0;
  b.count[slot] += vote;
  b.total[slot]++;
  meet(b, b.all);
  return {b.count[slot], b.total[slot]};
}

HIP_CPU_NO_TSAN uint64_t wave_values(uint64_t value, int from) {
  Fiber *l = lane;
  WaveThreads &w = wave_of(l);
  const int slot = meet_wave(w, l, value, false);
  return w.present[slot] >> from & 1 ? w.values[slot][from] : 0;
}
HIP_CPU_NO_TSAN uint64_t wave_votes(bool vote, uint64_t *present) {
  Fiber *l = lane;
  WaveThreads &w = wave_of(l);
  const int slot = meet_wave(w, l, 0, vote);
  if (present) *present = w.present[slot];
  return w.votes[slot];
}
HIP_CPU_NO_TSAN int lane_number() {
  const Fiber *l = lane;
  return l ? int(l->number % impl::warp_size) : 0;
}

} // namespace hip_cpu
