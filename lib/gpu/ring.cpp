// SPDX-License-Identifier: MIT
// The host's end of the ring: a progress thread does what kernels request. A store of a GPU wakes
// no thread, so this one polls. After a while without a request it naps, longer and longer: a
// request that comes after a pause waits for a fiftieth of the pause.
#include "ring.hpp"
#include "../../device/runtime.hpp"
#include "../net.hpp"
#include "../sync.hpp"
#include "../thread.hpp"
#include "deferred.hpp"
#include "heap.hpp"
#include "hip.hpp"
#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>

namespace shmem::gpu {

namespace {

using device::Reply, device::Request, device::ring_size;

// In host memory, one after the other.
struct Shared {
  Request requests[ring_size];
  Reply replies[ring_size];
  alignas(cache_line) device::Served served;
};
Shared *shared;
device::Tickets *tickets;
uint64_t (*flag_there)(uint64_t at, int pe); // see open_ring
std::atomic<int> awaited;                    // atomics whose replies have not come

void loop();
Service service("serves kernels", loop);

std::atomic_ref<uint64_t> done() {
  return std::atomic_ref(shared->served.done);
}

bool posted(uint64_t ticket) {
  return __atomic_load_n(&shared->requests[ticket % ring_size].lap, __ATOMIC_ACQUIRE) ==
         uint32_t(ticket / ring_size + 1);
}

void reply(const Request &r, const void *words, size_t bytes) {
  Reply &to = shared->replies[r.reply % ring_size];
  memcpy(to.words, words, bytes);
  __atomic_store_n(&to.number, uint32_t(r.reply), __ATOMIC_RELEASE);
}

// Waits until all requests so far are done.
void complete() {
  net::send_batch();
  wait_while({nullptr, false}, [] { return awaited.load(std::memory_order_acquire) != 0; });
  net::quiet();
}

// The request stays in its slot, with its data, until complete() has returned. A kernel may have
// stored into the ring by mistake: no such request is done.
void serve(const Request &r) {
  const Operation &op = r.op;
  auto *const object = reinterpret_cast<void *>(op.offset);
  const bool good = op.kind == Operation::atomic ? op.amo <= Amo::xor_
                    : op.kind == Operation::get_words
                        ? op.width <= sizeof Reply::words
                        : op.kind <= Operation::fence && op.width <= sizeof op.words;
  if (!good || r.pe >= self.n)
    fatal("a kernel's request of kind %u for PE %d at %llu: not one that this library posts",
          op.kind, r.pe, (unsigned long long)op.offset);
  switch (op.kind) {
  case Operation::put:
  case Operation::get:
    return net::transfer(op, r.pe, true);
  case Operation::put_words:
    return net::put(object, r.pe, op.words, one_block(op.width), true);
  case Operation::get_words: {
    uint64_t words[std::size(Reply{}.words)];
    net::get(words, object, r.pe, one_block(op.width), false);
    return reply(r, words, sizeof words);
  }
  case Operation::set_flags: {
    auto *const flag = reinterpret_cast<uint64_t *>(self.flags.base + flag_there(op.offset, r.pe));
    for (unsigned i = 0; i < op.width / sizeof *flag; i++)
      net::atomic_later(Operation::of_atomic(Amo::set, sizeof *flag, flag + i, op.words[i]), r.pe);
    return;
  }
  case Operation::fence:
    return complete();
  case Operation::atomic:
    break;
  }
  if (!r.reply) return net::atomic_later(op, r.pe);
  awaited.fetch_add(1, std::memory_order_relaxed);
  const auto then = [](void *request, uint64_t seen) {
    reply(*static_cast<const Request *>(request), &seen, sizeof seen);
    awaited.fetch_sub(1, std::memory_order_release);
  };
  net::atomic_later(op, r.pe, then, const_cast<Request *>(&r));
}

// All requests that have come are done together, with one wait for all of them.
void loop() {
  OnDevice on;
  own_stream(Copier::ring);
  net::batch_stores(true);
  uint64_t next = 0;
  unsigned idle = 0;
  const unsigned patience =
      self.oversubscribed ? 20 : 20000;                // polls; the latter take a millisecond
  constexpr long least_nap = 20000, most_nap = 500000; // ns
  long pause = 0;                                      // when it started
  for (;;) {
    const uint64_t before = next;
    while (next - before < ring_size / 2 && posted(next))
      serve(shared->requests[next++ % ring_size]);
    if (next != before) {
      complete();
      done().store(next, std::memory_order_release);
      idle = 0;
    } else if (service.stops()) {
      return net::batch_stores(false);
    } else if (++idle < patience) {
      pause = 0;
      if (self.oversubscribed)
        sched_yield();
      else
        pause_core();
    } else {
      const long now = now_ns();
      if (!pause) pause = now;
      service.nap(std::clamp((now - pause) / 50, least_nap, most_nap));
    }
  }
}

} // namespace

device::Ring open_ring(uint64_t (*of_flag)(uint64_t at, int pe)) {
  flag_there = of_flag;
  void *there, *own;
  shared = static_cast<Shared *>(shared_memory(sizeof *shared, &there));
  memset(static_cast<void *>(shared), 0, sizeof *shared);
  // The host stores into Tickets::offered, so this is the memory that flags have.
  MUST(runtime::malloc_flags(&own, sizeof *tickets, chosen),
       "hipExtMallocWithFlags of %zu bytes for tickets", sizeof *tickets);
  MUST(hipMemset(own, 0, sizeof *tickets), "hipMemset of the tickets");
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  tickets = static_cast<device::Tickets *>(own);
  make_own_streams();
  open_deferred(&shared->served, &tickets->offered);
  auto *s = static_cast<Shared *>(there);
  return {s->requests, s->replies, &s->served, tickets};
}

// A program of the host alone has no thread that polls. Its quiet has nothing to look for, which
// took 1.1 us with 1,024 slots (2026-11-24).
void serve_kernels() {
  static std::mutex starting;
  if (!shared || service.runs()) return; // a job of one node has no ring
  std::lock_guard guard(starting);
  if (!service.runs()) service.start();
}

void close_ring() {
  if (!shared) return;
  service.stop();
  close_deferred();
  if (self.exiting) return; // the runtime may have taken itself down
  MUST(hipFree(tickets), "hipFree");
  MUST(hipHostFree(shared), "hipHostFree");
  shared = nullptr;
}

// A kernel that is over has posted all of its requests. A running kernel may be about to fill the
// slot after the last done request, and requests of the other kernel may lie behind it.
void finish_ring() {
  if (!service.runs()) return;
  const uint64_t before = done().load(std::memory_order_acquire);
  uint64_t last = before;
  for (uint64_t ticket = before; ticket < before + ring_size; ticket++)
    if (posted(ticket)) last = ticket + 1;
  if (last == before) return;
  wait_while({nullptr, false}, [&] { return done().load(std::memory_order_acquire) < last; });
}

} // namespace shmem::gpu
