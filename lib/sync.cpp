// SPDX-License-Identifier: MIT
#include "sync.hpp"
#include "gpu/heap.hpp"
#include "log.hpp"
#include "memory/buffer.hpp"
#include "net.hpp"
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <mutex>
#include <sched.h>
#include <shmemx.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shmem {

namespace {

constexpr long millisecond = 1000000; // ns

void check_limit(Location where, long start) {
  if (!past_limit(start)) return;
  const double limit = self.env.wait_limit;
  if (where.own)
    fatal("waited for the other PEs longer than SHMEM_WAIT_LIMIT = %g seconds, in a collective "
          "routine or for a lock",
          limit);
  if (where.p)
    fatal("waited for the object at %p longer than SHMEM_WAIT_LIMIT = %g seconds", where.p, limit);
  fatal("waited for one of several objects longer than SHMEM_WAIT_LIMIT = %g seconds", limit);
}

// The name that a location has on all PEs of the node: its offset in the segment, and a bit that is
// set for objects of the program.
constexpr uint64_t objects = 1, anything = ~uint64_t(0);

uint64_t name(Location where) {
  if (!where.p) return objects;
  auto at = uintptr_t(where.p);
  if (self.data.has(where.p)) at += self.heap.base + self.heap.size - self.data.base;
  // Blocks of device memory come behind the segment, each PE's at its place.
  if (int pe = gpu::owner(where.p); pe >= 0)
    at = uintptr_t(self.job) + self.job_bytes + size_t(pe) * self.device.size +
         (at - self.device.base - self.device.delta[local_of(pe)]);
  if (const uint64_t named = buffer::name(where.p)) return named << 1 | !where.own;
  return (at - uintptr_t(self.job)) << 1 | !where.own;
}

// Counts a thread of this PE that goes to sleep (+1) or wakes up (-1). Two threads that sleep for
// different locations are woken by any change.
void asleep(Slot &slot, int change, Location where) {
  static std::mutex mutex;
  static int threads;
  std::lock_guard guard(mutex);
  threads += change;
  slot.awaits = threads == 0 ? 0 : threads == 1 && change > 0 ? name(where) : anything;
}

// Called by a sleeper each time it wakes for nothing. A thread that waits for a PE that has left
// waits in vain. For a PE that is in exit() or finalize this is certain as soon as all others sleep
// and stay asleep.
void check_departed(long *since) {
  uint32_t departed = self.job->departed.load(std::memory_order_relaxed);
  if (!departed || !self.ready) return;
  const int local = int(departed) - 1, pe = self.pe_of(local);
  bool gone = self.slots[local].phase == Slot::done;
  if (self.exiting && !gone) return; // all may be in exit(), and only some have come to its barrier
  if (!gone && self.job->sleepers < uint32_t(self.n_local))
    *since = 0;
  else if (!*since)
    *since = now_ns();
  else if (now_ns() - *since > 250000000) {
    uint32_t none = 0; // the first that is sure reports it for all
    if (!self.job->dead.compare_exchange_strong(none, departed)) return;
    fatal(self.slots[local].phase == Slot::leaving
              ? "PE %d has called exit() without shmem_finalize, and this PE waits in vain"
              : "PE %d has left, and this PE waits in vain: did all PEs make the same collective "
                "calls?",
          pe);
  }
}

// The kernel leaves PEs that yield to each other where they are: two on one core beside an idle one
// (a flag takes 900 ns one way, and 60 to 260 from core to core; 2026-11), or seven of eight on
// one, because sleepers were woken there (a broadcast of 8 B by 8 PEs on 2 cores takes 4 to 8 us,
// and 1.8 to 2.8 with four on each). So a PE moves to another core that it may use when at least
// two PEs fewer wait there. Whether another program keeps that core busy is not asked: to move
// there and back every 5 ms costs no more than to ask.
//
// A PE counts for an eighth to a quarter of a millisecond after each yield, so one that sleeps,
// computes, or naps in a loop of its own holds no place. While it did, six PEs that nap between
// tests made a core that they had left look full, and two others took 2,300 ns in place of 70 in a
// quarter of all runs (2026-11).
constexpr int turn_bits = 17; // of the clock in ns
uint64_t place(long now, int core) {
  return uint64_t(now) >> turn_bits << 16 | uint64_t(core);
}

// Looks for the cores on which the fewest PEs wait; false if this one is good enough.
[[gnu::noinline]] bool look(long now, int here, cpu_set_t *there) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) < 0) return false;
  uint16_t pes[CPU_SETSIZE] = {};
  for (int pe = 0; pe < self.n_local; pe++)
    if (const uint64_t seen = self.slots[pe].place.load(std::memory_order_relaxed);
        seen >= place(now - (1l << turn_bits), 0))
      pes[seen % (1 << 16)]++;
  int least = pes[here];
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &all) && pes[core] < least) least = pes[core];
  if (pes[here] < least + 2) return false;
  CPU_ZERO(there);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &all) && pes[core] == least) CPU_SET(core, there);
  return true;
}

// Only one PE of the job moves in a millisecond, or all would meet again.
[[gnu::noinline]] bool move(long now, const cpu_set_t *there) {
  long last = self.job->moved.load();
  if (now - last < millisecond || !self.job->moved.compare_exchange_strong(last, now)) return false;
  cpu_set_t all;
  return sched_getaffinity(0, sizeof all, &all) == 0 &&
         sched_setaffinity(0, sizeof *there, there) == 0 &&
         sched_setaffinity(0, sizeof all, &all) == 0;
}

// Called after each yield; `alone` if no thread took the core.
void spread(long now, bool alone) {
  static std::atomic<long> next;
  Slot &slot = self.slots[self.local];
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return;
  if (const uint64_t seen = place(now, here); slot.place.load(std::memory_order_relaxed) != seen)
    slot.place.store(seen, std::memory_order_relaxed);
  if (alone || now < next.load(std::memory_order_relaxed)) return;
  next.store(now + millisecond, std::memory_order_relaxed);
  cpu_set_t there;
  if (look(now, here, &there) && move(now, &there))
    next.store(now + 5 * millisecond, std::memory_order_relaxed);
}

// A yield that took more than this many ns gave the core to another thread. A lone yield costs
// little more than a system call, whose cost differs from kernel to kernel, so calls that do
// nothing measure it (ns on an EPYC, 2026-11: such a call 60, a lone yield 130, a yield to a thread
// that polls 1,050).
long time_of_lone_yield() {
  long least = 1000000;
  for (int i = 0; i < 8; i++) {
    const long before = now_ns();
    syscall(SYS_getppid);
    least = std::min(least, now_ns() - before);
  }
  return 5 * std::max(least, 20l); // a coarse clock
}

// If a yield returns at once, no other thread wants this core, and the next wait polls for longer.
// If not, another thread makes better use of the core. Returns the time.
long yield_core(long before) {
  static const long lone = time_of_lone_yield();
  sched_yield();
  const long after = now_ns();
  const bool back = after - before < lone;
  const int most = self.one_node() ? most_spins : net_spins;
  self.spins.store(back ? most : least_spins, std::memory_order_relaxed);
  spread(after, back);
  return after;
}

// The state of one wait of a thread, from one sleep to the next.
struct Sleep {
  Location where;
  long start, nap = 50000, since = 0; // ns
  bool told = false;
};

// Sleeps until the thread is no longer blocked, or is woken too early, as by the first of many
// signals: then it stays awake for a while, because a sleeper costs each of the others a system
// call (256 KiB with a signal each, 2026-11: 2.24 us in place of 1.98).
bool still_blocked(Sleep &sleep, bool (*blocked)(void *), void *context) {
  Slot &slot = self.slots[self.local];
  asleep(slot, +1, sleep.where);
  // Other threads may sleep until they see what this thread has stored by puts and atomics, which
  // wake no thread. This thread wakes them once: two that did so again would keep each other awake.
  if (self.job->sleepers.fetch_add(1) && !sleep.told) wake_sleepers({nullptr, false});
  sleep.told = true;
  bool waits;
  for (;;) {
    const uint32_t wakes = slot.wakes.load();
    if (!(waits = blocked(context))) break;
    const timespec t{0, sleep.nap};
    syscall(SYS_futex, &slot.wakes, FUTEX_WAIT, wakes, &t, nullptr, 0);
    // UCX holds a message back while the receiver's queue is full, and sends it when a thread calls
    // the worker; no event tells of it. Without this call 1 of 7 floods of requests over shared
    // memory stopped (2026-11-22).
    if (net::progress(false)) {
      waits = blocked(context);
      break;
    }
    if (!(waits = blocked(context))) break;
    if (sleep.nap < 1000000) sleep.nap *= 2;
    check_departed(&sleep.since);
    check_limit(sleep.where, sleep.start);
    if (slot.wakes.load() != wakes) break;
  }
  self.job->sleepers.fetch_sub(1);
  asleep(slot, -1, sleep.where);
  return waits;
}

} // namespace

long now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

bool past_limit(long start) {
  const double limit = self.env.wait_limit;
  return limit > 0 && double(now_ns() - start) >= limit * 1e9;
}

void give_way() {
  self.failed.store(0, std::memory_order_relaxed);
  yield_core(now_ns());
}

void polled(const void *p, const void *value, size_t bytes) {
  static std::atomic<uintptr_t> place;
  static std::atomic<uint64_t> last;
  if (!self.oversubscribed) return;
  uint64_t word = 0;
  memcpy(&word, value, bytes < sizeof word ? bytes : sizeof word);
  if (place.exchange(uintptr_t(p), std::memory_order_relaxed) == uintptr_t(p) &&
      last.load(std::memory_order_relaxed) == word)
    return poll_failed();
  last.store(word, std::memory_order_relaxed);
}

void wait_slow(Location where, bool (*blocked)(void *), void *context) {
  // A PE with a core of its own stays awake for longer, because waking up takes some 50 us and
  // plain stores wake no thread.
  const long yield_ns = self.oversubscribed ? 100000 : 1000000;
  const bool net = !self.one_node();
  // Polls, and makes progress of the network: true when the wait has ended, and `some` is set when
  // there was progress. A wait for a neighbour makes progress only now and then, because the
  // neighbour wants the core (4 nodes of 2 PEs on 2 cores: a sum of 8 B takes 155 us in place of
  // 240; 2026-11-24).
  bool some = false;
  unsigned turn = 0;
  const auto poll = [&](int polls) {
    for (; polls > 0; polls--) {
      if (!where.own || ++turn % 8 == 0) some |= net::progress();
      if (!blocked(context)) return true;
    }
    return false;
  };
  if (net && poll(self.spins.load(std::memory_order_relaxed))) return;
  Sleep sleep{where, now_ns()};
  for (long awake = sleep.start;; awake = now_ns()) {
    for (long before = awake; before - awake < yield_ns;) {
      before = yield_core(before);
      if (!net) {
        if (!blocked(context)) return;
        continue;
      }
      // Where no other thread wants the core, more yields would make replies late (a fetch_add over
      // shared memory takes 0.69 us in place of 0.82, over tcp 15 in place of 17; 2026-11-24).
      const int spins = self.spins.load(std::memory_order_relaxed);
      some = false;
      if (poll(spins > least_spins ? spins : 1)) return;
      // A PE that other nodes send requests stays awake: while it sleeps, each reply has to wake a
      // thread.
      if (some) awake = before;
    }
    if (!still_blocked(sleep, blocked, context)) return;
  }
}

void wake_sleepers(Location where) {
  const uint64_t what = name(where);
  for (int pe = 0; pe < self.n_local; pe++) {
    Slot &slot = self.slots[pe];
    uint64_t awaits = slot.awaits.load(std::memory_order_seq_cst);
    bool match = awaits == what || awaits == anything ||
                 (!where.own && (awaits == objects || (what == objects && awaits & 1)));
    if (!awaits || !match) continue;
    slot.wakes.fetch_add(1);
    syscall(SYS_futex, &slot.wakes, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
  }
}

} // namespace shmem

extern "C" double shmemx_wtime(void) {
  return double(shmem::now_ns()) * 1e-9;
}
