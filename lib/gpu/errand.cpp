// SPDX-License-Identifier: MIT
// What other nodes ask of device memory that the host does not reach: see Task and device::Errand.
#include "../../device/kernels.hpp"
#include "../../device/runtime.hpp"
#include "../net.hpp"
#include "../sync.hpp"
#include "../thread.hpp"
#include "copy.hpp"
#include "hip.hpp"
#include "stream.hpp"
#include "task.hpp"
#include <bit>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <iterator>
#include <mutex>
#include <unistd.h>

namespace shmem::gpu {

namespace {

using Tasks = std::deque<std::unique_ptr<Task>>;

std::mutex mutex; // guards tasks and stop, and nobody calls anything under it
std::condition_variable wake;
Tasks tasks;
bool stop;
pthread_t server;
device::Served *served;
uint64_t *bell; // on the device
hipStream_t kernels;
device::Stores *area, *area_there; // of the stores that a kernel does, here and on the GPU
unsigned n_stores;
// Where in the area each of its places is, by a sum of the place, or the next free one behind it.
struct {
  unsigned fill, index; // of what filling of the area
} in_area[2 * device::Stores::most];
unsigned fill = 1;

std::atomic_ref<uint32_t> state() {
  return std::atomic_ref(area->state);
}
// A kernel does them, if it begins soon: where kernels that wait leave no room for one, the stores
// may be what they wait for, and copies find room. An idle H100 begins in 10 us (2026-11-24).
bool done_by_kernel() {
  constexpr long patience = 200000; // ns
  static bool late;                 // the last one, which may still be about to decline
  if (late && !tried(hipStreamQuery(kernels))) return false;
  late = false;
  const std::atomic_ref taken_back(area->taken_back);
  state() = device::Stores::launched;
  taken_back = 0;
  MUST(kernels::stores_on_stream(area_there, n_stores, kernels),
       "a kernel for other nodes' stores");
  const long since = now_ns();
  for (uint32_t now; (now = state()) != device::Stores::done;) {
    if (now == device::Stores::launched && now_ns() - since > patience) {
      taken_back = 1; // before the kernel's word is read once more
      late = state() == device::Stores::launched;
    }
    late |= now == device::Stores::declined;
    if (late) return false;
    if (self.oversubscribed)
      sched_yield();
    else
      pause_core();
  }
  return true;
}
// One or two take less time as copies than a kernel takes to begin.
void do_stores() {
  constexpr unsigned few = 2;
  if (n_stores && (n_stores <= few || !done_by_kernel())) {
    for (unsigned i = 0; i < n_stores; i++) {
      const device::Stores::One &one = area->one[i];
      start_copy(reinterpret_cast<void *>(one.address()), &one.value, one.bytes());
    }
    wait(stream());
  }
  n_stores = 0, fill++;
}
// Threads of the kernel store in no order. Of two stores to one place, as flags have them that
// grow, the later one is what counts.
void add_store(const device::Stores::One &one) {
  if (n_stores == device::Stores::most) do_stores();
  constexpr size_t places = std::size(in_area);
  size_t at = (one.where * 0x9e3779b97f4a7c15) >> (64 - std::countr_zero(places));
  for (; in_area[at].fill == fill; at = (at + 1) % places)
    if (device::Stores::One &there = area->one[in_area[at].index]; there.where == one.where) {
      there.value = one.value;
      return;
    }
  in_area[at] = {fill, n_stores};
  area->one[n_stores++] = one;
}

// It is there when the thread's stream is done, and do_stores was called.
void start_one(Task &t) {
  switch (t.kind) {
  case Task::stores:
    for (size_t i = 0; i < t.n; i++) {
      device::Stores::One one;
      memcpy(&one, t.data.get() + i * sizeof one, sizeof one);
      add_store(one);
    }
    return;
  case Task::put:
    if (t.n == 1) return start_copy(t.p, t.data.get(), t.bytes);
    return copy_2d(t.p, t.stride ? t.stride : t.bytes, t.data.get(), t.bytes, t.bytes, t.n);
  case Task::get:
    t.data.reset(new char[t.bytes * t.n]);
    if (t.n == 1) return start_copy(t.data.get(), t.p, t.bytes);
    return copy_2d(t.data.get(), t.bytes, t.p, t.stride ? t.stride : t.bytes, t.bytes, t.n);
  case Task::atomic: // of one or two bytes none but a store and a load
    if (t.op == Amo::set) return start_copy(t.p, &t.value, t.bytes);
    t.value = 0;
    return start_copy(&t.value, t.p, t.bytes);
  }
}

struct Operation {
  uint64_t keep, flip, plus; // see device::Errand
};
// An errand's place is free again when the task that was there has been done, and they are in
// order.
void give(const Task &t, uint64_t number) {
  device::Errand &e = served->errands[number % device::errand_places];
  const auto store = [](auto &word, auto value) {
    __atomic_store_n(&word, value, __ATOMIC_RELAXED);
  };
  const uint64_t v = t.value, all = ~uint64_t(0);
  const Operation o = t.op == Amo::fetch  ? Operation{all, 0, 0}
                      : t.op == Amo::add  ? Operation{all, 0, v}
                      : t.op == Amo::and_ ? Operation{v, 0, 0}
                      : t.op == Amo::or_  ? Operation{~v, v, 0}
                      : t.op == Amo::xor_ ? Operation{all, v, 0}
                                          : Operation{0, v, 0};
  store(e.p, uintptr_t(t.p));
  store(e.keep, o.keep), store(e.flip, o.flip), store(e.plus, o.plus);
  store(e.cond, t.cond), store(e.care, t.op == Amo::compare_swap ? -1 : 0);
  store(e.bytes, uint32_t(t.bytes));
  __atomic_store_n(&served->given, number + 1, __ATOMIC_RELEASE);
}
bool is_done(Task &t, uint64_t number) {
  device::Errand &e = served->errands[number % device::errand_places];
  if (__atomic_load_n(&e.done, __ATOMIC_ACQUIRE) != number + 1) return false;
  t.value = e.seen;
  return true;
}

void *serve(void *) {
  OnDevice on;
  own_stream(Copier::errands);
  Tasks waiting, given; // atomics
  uint64_t next = 0, rung = 0;
  unsigned idle = 0;
  for (;;) {
    Tasks now;
    {
      std::unique_lock guard(mutex);
      if (waiting.empty() && given.empty()) {
        // An answer that is held back wakes nobody.
        while (tasks.empty() && !stop && net::held_back())
          guard.unlock(), net::progress(false), sched_yield(), guard.lock();
        wake.wait(guard, [] { return stop || !tasks.empty(); });
        if (tasks.empty()) break;
      }
      now.swap(tasks);
    }
    bool copies = false;
    for (auto &t : now)
      if (t->is_copy()) start_one(*t), copies |= t->kind != Task::stores;
    do_stores();
    if (copies) wait(stream());
    for (auto &t : now) {
      if (t->is_copy())
        t->done();
      else
        waiting.push_back(std::move(t));
    }
    while (!waiting.empty() && given.size() < device::errand_places) {
      give(*waiting.front(), next++);
      given.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
    if (given.empty()) continue;
    // It may wait for room until all kernels are over that wait.
    const hipError_t last = hipStreamQuery(kernels);
    if (tried(last))
      MUST(kernels::errands_on_stream(kernels), "a kernel for atomics of other nodes");
    else if (last != hipErrorNotReady)
      MUST(last, "hipStreamQuery");
    if (rung != next) copy(bell, &next, sizeof *bell), rung = next;
    const size_t before_these = given.size();
    while (!given.empty() && is_done(*given.front(), next - given.size())) {
      given.front()->done();
      given.pop_front();
    }
    net::progress(false);
    if (given.size() != before_these)
      idle = 0;
    else if (++idle < 1000)
      sched_yield();
    else
      usleep(20);
  }
  return nullptr;
}

} // namespace

void start(std::unique_ptr<Task> task) {
  std::lock_guard guard(mutex);
  tasks.push_back(std::move(task));
  wake.notify_one();
}

void open_errands(device::Served *s, uint64_t *b) {
  served = s, bell = b;
  kernels = make_stream();
  void *there;
  area = static_cast<device::Stores *>(shared_memory(sizeof *area, &there));
  area_there = static_cast<device::Stores *>(there);
  stop = false;
  if (int error = start_thread(&server, serve))
    fatal("starting the thread that copies for other nodes: %s", strerror(error));
}

void close_errands() {
  {
    std::lock_guard guard(mutex);
    stop = true;
    wake.notify_one();
  }
  pthread_join(server, nullptr);
  if (self.exiting) return;
  MUST(hipStreamDestroy(kernels), "hipStreamDestroy");
  MUST(hipHostFree(area), "hipHostFree");
}

} // namespace shmem::gpu
