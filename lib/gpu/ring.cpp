// SPDX-License-Identifier: MIT
// The host's end of the ring: a thread that does what kernels ask for. A store of a GPU wakes
// nobody, so the thread polls, and naps where nothing has come for a while, for longer the longer
// that is: what comes after a pause waits for a fiftieth of it.
#include "ring.hpp"
#include "../../device/runtime.hpp"
#include "../net.hpp"
#include "../sync.hpp"
#include "../thread.hpp"
#include "copy.hpp"
#include "heap.hpp"
#include "hip.hpp"
#include "task.hpp"
#include <algorithm>
#include <cstring>
#include <ctime>
#include <iterator>
#include <mutex>

namespace shmem::gpu {

namespace {

using device::Reply, device::Request, device::ring_size;

// What lies in host memory, one after the other.
struct Shared {
  Request requests[ring_size];
  Reply replies[ring_size];
  alignas(line) device::Served served;
};
Shared *shared;
device::Tickets *tickets;
pthread_t server;
std::mutex starting;
std::atomic<bool> serving, stop;
uint64_t (*flag_there)(uint64_t at, int pe); // see open_ring

std::atomic_ref<uint64_t> done() {
  return std::atomic_ref(shared->served.done);
}

bool posted(uint64_t ticket) {
  return __atomic_load_n(&shared->requests[ticket % ring_size].lap, __ATOMIC_ACQUIRE) ==
         uint32_t(ticket / ring_size + 1);
}

void answer(const Request &q, const void *words, size_t bytes) {
  Reply &r = shared->replies[q.reply % ring_size];
  memcpy(r.word, words, bytes);
  __atomic_store_n(&r.number, q.reply, __ATOMIC_RELEASE);
}

// Atomics with answers that are on their way.
std::atomic<int> asked;

// All requests so far are done.
void complete() {
  net::send_gathered();
  wait_while({nullptr, false}, [] { return asked.load(std::memory_order_acquire) != 0; });
  net::quiet();
}

// Nobody is to read or write here what a kernel makes of the ring by mistake.
[[noreturn, gnu::cold]] void bad_request(const Request &q) {
  fatal("a kernel's request of kind %u for PE %d at %llu: not one that this library posts", q.what,
        q.pe, (unsigned long long)q.at);
}

// It stays in its place until complete() was called, and its words with it.
void serve_one(const Request &q) {
  char *const at = reinterpret_cast<char *>(self.device.base + q.at);
  char *const local = reinterpret_cast<char *>(self.device.base + q.move.local);
  switch (q.what) {
  case Request::put:
    return net::put(at, q.pe, local, {q.move.bytes, q.move.n, q.move.dst, q.move.sst}, true);
  case Request::get:
    return net::get(local, at, q.pe, {q.move.bytes, q.move.n, q.move.sst, q.move.dst}, true);
  case Request::put_words:
    if (q.bytes > sizeof q.word) bad_request(q);
    return net::put(at, q.pe, q.word, {q.bytes}, true);
  case Request::get_words: {
    uint64_t words[std::size(Reply{}.word)];
    if (q.bytes > sizeof words) bad_request(q);
    net::get(words, at, q.pe, {q.bytes}, false);
    return answer(q, words, sizeof words);
  }
  case Request::flags: {
    if (q.bytes > sizeof q.word) bad_request(q);
    auto *flag = reinterpret_cast<uint64_t *>(self.flags.base + flag_there(q.at, q.pe));
    for (unsigned i = 0; i < q.bytes / sizeof *q.word; i++)
      net::atomic_later(flag + i, q.pe, Amo::set, sizeof *q.word, q.word[i], 0);
    return;
  }
  case Request::fence:
    return complete();
  }
  if (q.what > unsigned(Amo::xor_)) bad_request(q);
  if (!q.reply) return net::atomic_later(at, q.pe, Amo(q.what), q.bytes, q.word[0], q.word[1]);
  asked.fetch_add(1, std::memory_order_relaxed);
  net::atomic_later(
      at, q.pe, Amo(q.what), q.bytes, q.word[0], q.word[1],
      [](void *request, uint64_t seen) {
        answer(*static_cast<const Request *>(request), &seen, sizeof seen);
        asked.fetch_sub(1, std::memory_order_release);
      },
      const_cast<Request *>(&q));
}

// Requests are done together, all that have come: one wait for all of them.
void *serve(void *) {
  OnDevice on;
  own_stream(Copier::ring);
  net::gather_stores(true);
  uint64_t next = 0;
  unsigned idle = 0;
  const unsigned patience =
      self.oversubscribed ? 20 : 20000;                // polls; the latter take a millisecond
  constexpr long least_nap = 20000, most_nap = 500000; // ns
  long pause = 0;                                      // since when
  for (;;) {
    const uint64_t before = next;
    while (next - before < ring_size / 2 && posted(next))
      serve_one(shared->requests[next++ % ring_size]);
    if (next != before) {
      complete();
      done().store(next, std::memory_order_release);
      idle = 0;
    } else if (stop.load(std::memory_order_relaxed)) {
      net::gather_stores(false);
      return nullptr;
    } else if (++idle < patience) {
      pause = 0;
      if (self.oversubscribed)
        sched_yield();
      else
        pause_core();
    } else {
      const long now = now_ns();
      if (!pause) pause = now;
      const timespec nap{0, std::clamp((now - pause) / 50, least_nap, most_nap)};
      nanosleep(&nap, nullptr);
    }
  }
}

} // namespace

device::Ring open_ring(uint64_t (*of_flag)(uint64_t at, int pe)) {
  flag_there = of_flag;
  void *there, *own;
  shared = static_cast<Shared *>(shared_memory(sizeof *shared, &there));
  memset(static_cast<void *>(shared), 0, sizeof *shared);
  // As flags are, because of the bell.
  MUST(runtime::malloc_flags(&own, sizeof *tickets, chosen),
       "hipExtMallocWithFlags of %zu bytes for tickets", sizeof *tickets);
  MUST(hipMemset(own, 0, sizeof *tickets), "hipMemset of the tickets");
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  tickets = static_cast<device::Tickets *>(own);
  make_own_streams();
  open_errands(&shared->served, &tickets->bell);
  auto *s = static_cast<Shared *>(there);
  return {s->requests, s->replies, &s->served, tickets};
}

// Programs of the host alone have no thread that polls, and nothing to look for in a quiet (of
// 1,024 places it took 1.1 us, 2026-11-24).
void serve_kernels() {
  if (!shared || serving.load(std::memory_order_acquire)) return; // also in a job of one node
  std::lock_guard guard(starting);
  if (serving.load(std::memory_order_relaxed)) return;
  stop = false;
  if (int error = start_thread(&server, serve))
    fatal("starting the thread that serves kernels: %s", strerror(error));
  serving.store(true, std::memory_order_release);
}

void close_ring() {
  if (!shared) return;
  if (serving.exchange(false)) {
    stop = true;
    pthread_join(server, nullptr);
  }
  close_errands();
  if (self.exiting) return; // the runtime may have taken itself down
  MUST(hipFree(tickets), "hipFree");
  MUST(hipHostFree(shared), "hipHostFree");
  shared = nullptr;
}

// A kernel that is over has posted all of its requests. The place after the last that are done may
// be one that a running kernel is about to fill, and those of the other are behind it.
void finish_ring() {
  if (!serving.load(std::memory_order_acquire)) return;
  const uint64_t before = done().load(std::memory_order_acquire);
  uint64_t last = before;
  for (uint64_t ticket = before; ticket < before + ring_size; ticket++)
    if (posted(ticket)) last = ticket + 1;
  if (last == before) return;
  wait_while({nullptr, false}, [&] { return done().load(std::memory_order_acquire) < last; });
}

} // namespace shmem::gpu
