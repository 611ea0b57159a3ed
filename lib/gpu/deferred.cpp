// SPDX-License-Identifier: MIT
// Deferred work: operations that other nodes request on device-only memory, see Deferred. A
// progress thread does them by engines and by kernels of the library.
#include "deferred.hpp"
#include "../../device/kernels.hpp"
#include "../../device/runtime.hpp"
#include "../net.hpp"
#include "../sync.hpp"
#include "../thread.hpp"
#include "copy.hpp"
#include "hip.hpp"
#include "stream.hpp"
#include <bit>
#include <deque>
#include <iterator>
#include <mutex>
#include <utility>

namespace shmem::gpu {

namespace {

using device::DeferredStores;
using DeferredQueue = std::deque<std::unique_ptr<Deferred>>;

std::mutex mutex; // guards queue; no thread calls anything under it
DeferredQueue queue;
device::Served *served;
uint64_t *offered; // on the device, see device::Tickets
hipStream_t kernels;

// The stores that a kernel does together.
struct {
  DeferredStores *area, *there; // in host memory, and where the GPU sees it
  unsigned n, fill = 1;         // fill: how often the area has been filled
  // Where the area has the store to an address: by a hash of the address, or in the next free slot.
  struct {
    unsigned fill, index;
  } found[2 * DeferredStores::most];
} batch;

std::atomic_ref<uint32_t> state() {
  return std::atomic_ref(batch.area->state);
}
// False when the kernel does not start soon. Kernels that wait may leave no room for it, and may
// wait for just these stores; then engines do them. An idle H100 starts in 10 us (2026-11-24).
bool done_by_kernel() {
  constexpr long patience = 200000; // ns
  static bool late;                 // the last kernel, which may still be about to decline
  if (late && !tried(hipStreamQuery(kernels))) return false;
  late = false;
  const std::atomic_ref taken_back(batch.area->taken_back);
  state() = DeferredStores::launched;
  taken_back = 0;
  MUST(kernels::batch_on_stream(batch.there, batch.n, kernels), "a kernel for other nodes' stores");
  const long since = now_ns();
  for (uint32_t now; (now = state()) != DeferredStores::done;) {
    if (now == DeferredStores::launched && now_ns() - since > patience) {
      taken_back = 1; // before the kernel's word is read once more
      late = state() == DeferredStores::launched;
    }
    late |= now == DeferredStores::declined;
    if (late) return false;
    if (self.oversubscribed)
      sched_yield();
    else
      pause_core();
  }
  return true;
}
// Copies of one or two words take less time than a kernel takes to start.
void do_stores() {
  constexpr unsigned few = 2;
  if (batch.n && (batch.n <= few || !done_by_kernel())) {
    for (unsigned i = 0; i < batch.n; i++) {
      const DeferredStores::One &s = batch.area->stores[i];
      start_copy(reinterpret_cast<void *>(s.address()), &s.value, s.width());
    }
    wait(stream());
  }
  batch.n = 0, batch.fill++;
}
// The kernel's threads store in no order. So of two stores to one address, as of a flag that grows,
// only the later one is kept.
void add_store(const DeferredStores::One &s) {
  if (batch.n == DeferredStores::most) do_stores();
  constexpr size_t slots = std::size(batch.found);
  size_t at = (s.where * 0x9e3779b97f4a7c15) >> (64 - std::countr_zero(slots));
  for (; batch.found[at].fill == batch.fill; at = (at + 1) % slots)
    if (auto &earlier = batch.area->stores[batch.found[at].index]; earlier.where == s.where) {
      earlier.value = s.value;
      return;
    }
  batch.found[at] = {batch.fill, batch.n};
  batch.area->stores[batch.n++] = s;
}

// Starts what engines do. It is done after do_stores, and once the thread's stream is.
void start_copies(Deferred &d) {
  if (!d.stores.empty()) {
    for (const DeferredStores::One &s : d.stores) add_store(s);
    return;
  }
  uint64_t &value = d.op.operands.value;
  const Blocks &b = d.op.transfer;
  const size_t stride = b.remote_stride ? b.remote_stride : b.bytes;
  switch (d.op.kind) {
  case Operation::put:
    if (b.count == 1) return start_copy(d.p, d.data.get(), b.bytes);
    return copy_2d(d.p, stride, d.data.get(), b.bytes, b.bytes, b.count);
  case Operation::get:
    d.data.reset(new char[b.bytes * b.count]);
    if (b.count == 1) return start_copy(d.data.get(), d.p, b.bytes);
    return copy_2d(d.data.get(), b.bytes, d.p, stride, b.bytes, b.count);
  default: // a store or a load
    if (d.op.amo == Amo::set) return start_copy(d.p, &value, d.op.width);
    value = 0;
    return start_copy(&value, d.p, d.op.width);
  }
}

struct Masks {
  uint64_t keep, flip, plus; // see device::DeferredAtomic
};
// Offers an atomic to kernels. Its slot is free: the one that was there is done, and they are in
// order.
void offer(const Deferred &d, uint64_t number) {
  device::DeferredAtomic &a = served->deferred[number % device::deferred_slots];
  const auto store = [](auto &word, auto value) {
    __atomic_store_n(&word, value, __ATOMIC_RELAXED);
  };
  const uint64_t v = d.op.operands.value, all = ~uint64_t(0);
  const Amo amo = d.op.amo;
  const Masks m = amo == Amo::fetch  ? Masks{all, 0, 0}
                  : amo == Amo::add  ? Masks{all, 0, v}
                  : amo == Amo::and_ ? Masks{v, 0, 0}
                  : amo == Amo::or_  ? Masks{~v, v, 0}
                  : amo == Amo::xor_ ? Masks{all, v, 0}
                                     : Masks{0, v, 0};
  store(a.p, uintptr_t(d.p));
  store(a.keep, m.keep), store(a.flip, m.flip), store(a.plus, m.plus);
  store(a.compare, d.op.operands.compare), store(a.care, amo == Amo::compare_swap ? -1 : 0);
  store(a.width, d.op.width);
  __atomic_store_n(&served->given, number + 1, __ATOMIC_RELEASE);
}
bool is_done(Deferred &d, uint64_t number) {
  device::DeferredAtomic &a = served->deferred[number % device::deferred_slots];
  if (__atomic_load_n(&a.done, __ATOMIC_ACQUIRE) != number + 1) return false;
  d.op.operands.value = a.seen;
  return true;
}

void loop();
Service service("does deferred work", loop);

// What has been queued; waits for some where `idle`.
DeferredQueue take_queued(bool idle) {
  for (;;) {
    {
      std::lock_guard guard(mutex);
      if (!queue.empty() || !idle || service.stops()) return std::exchange(queue, {});
    }
    if (net::held_back()) // a reply of this thread, whose way is free again without waking it
      net::progress(false), sched_yield();
    else
      service.nap(-1);
  }
}

void loop() {
  OnDevice on;
  own_stream(Copier::deferred);
  DeferredQueue atomics, given;
  uint64_t next = 0, last_offer = 0;
  unsigned idle = 0;
  for (;;) {
    const bool empty = atomics.empty() && given.empty();
    DeferredQueue now = take_queued(empty);
    if (empty && now.empty()) return;
    bool copies = false;
    for (auto &d : now)
      if (d->is_copy()) start_copies(*d), copies |= d->stores.empty();
    do_stores();
    if (copies) wait(stream());
    for (auto &d : now) {
      if (d->is_copy())
        d->done();
      else
        atomics.push_back(std::move(d));
    }
    while (!atomics.empty() && given.size() < device::deferred_slots) {
      offer(*atomics.front(), next++);
      given.push_back(std::move(atomics.front()));
      atomics.pop_front();
    }
    if (given.empty()) continue;
    // The kernel may wait for room until all kernels that wait are over.
    const hipError_t last = hipStreamQuery(kernels);
    if (tried(last))
      MUST(kernels::deferred_on_stream(kernels), "a kernel for atomics of other nodes");
    else if (last != hipErrorNotReady)
      MUST(last, "hipStreamQuery");
    if (last_offer != next) copy(offered, &next, sizeof *offered), last_offer = next;
    const size_t before = given.size();
    while (!given.empty() && is_done(*given.front(), next - given.size())) {
      given.front()->done();
      given.pop_front();
    }
    net::progress(false);
    if (given.size() != before)
      idle = 0;
    else if (++idle < 1000)
      sched_yield();
    else
      service.nap(20000);
  }
}

} // namespace

void defer(std::unique_ptr<Deferred> work) {
  {
    std::lock_guard guard(mutex);
    queue.push_back(std::move(work));
  }
  service.wake();
}

void open_deferred(device::Served *s, uint64_t *o) {
  served = s, offered = o;
  kernels = make_stream();
  void *there;
  batch.area = static_cast<DeferredStores *>(shared_memory(sizeof *batch.area, &there));
  batch.there = static_cast<DeferredStores *>(there);
  service.start();
}

void close_deferred() {
  service.stop();
  if (self.exiting) return;
  MUST(hipStreamDestroy(kernels), "hipStreamDestroy");
  MUST(hipHostFree(batch.area), "hipHostFree");
}

} // namespace shmem::gpu
