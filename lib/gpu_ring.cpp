// SPDX-License-Identifier: MIT
// The host's end of the ring: a thread that does what kernels ask for, as the routines of the host
// do. A store of a GPU wakes nobody, so the thread polls, and naps where nothing has come for a while.
#include "amo.hpp"
#include "exit.hpp"
#include "gpu_hip.hpp"
#include "order.hpp"
#include "rma.hpp"
#include <cstring>
#include <ctime>

namespace shmem::gpu {

namespace {

using device::Reply, device::Request, device::ring_size;

// What lies in host memory, one after the other.
struct Shared {
  Request requests[ring_size];
  Reply replies[ring_size];
  alignas(line) std::atomic<uint64_t> done;
};
Shared *shared;
device::Tickets *tickets;
pthread_t server;
std::atomic<bool> stop;
constexpr const char *name = "a kernel's request";

bool posted(uint64_t ticket) {
  return __atomic_load_n(&shared->requests[ticket % ring_size].lap, __ATOMIC_ACQUIRE) ==
         uint32_t(ticket / ring_size + 1);
}

void answer(const Request &q, const void *words, size_t bytes) {
  Reply &r = shared->replies[q.reply % ring_size];
  memcpy(r.word, words, bytes);
  __atomic_store_n(&r.number, q.reply, __ATOMIC_RELEASE);
}

template <class T> T amo(const Request &q, T *p) {
  const World all;
  const T value = T(q.word[0]), cond = T(q.word[1]);
  if constexpr (sizeof(T) >= 4) switch (Amo(q.what)) {
    case Amo::swap:
      return api::atomic_swap(name, all, p, value, q.pe);
    case Amo::compare_swap:
      return api::atomic_compare_swap(name, all, p, cond, value, q.pe);
    case Amo::add:
      return api::atomic_fetch_add(name, all, p, value, q.pe);
    case Amo::and_:
      return api::atomic_fetch_and(name, all, p, value, q.pe);
    case Amo::or_:
      return api::atomic_fetch_or(name, all, p, value, q.pe);
    case Amo::xor_:
      return api::atomic_fetch_xor(name, all, p, value, q.pe);
    default:;
    }
  if (Amo(q.what) == Amo::fetch) return api::g(name, all, p, q.pe);
  api::p(name, all, p, value, q.pe);
  return 0;
}

// Nobody is to read or write here what a kernel makes of the ring by mistake.
[[noreturn, gnu::cold]] void bad_request(const Request &q) {
  fatal("%s of kind %u for PE %d at %llu: not one that this library posts", name, q.what, q.pe,
        (unsigned long long)q.at);
}

void serve_one(const Request &q) {
  const World all;
  char *const at = reinterpret_cast<char *>(self.device.base + q.at);
  switch (q.what) {
  case Request::put:
  case Request::get: {
    char *const local = reinterpret_cast<char *>(self.device.base + q.move.local);
    const auto bytes = size_t(q.move.bytes), n = size_t(q.move.n);
    const auto dst = ptrdiff_t(q.move.dst), sst = ptrdiff_t(q.move.sst);
    if (n == 1)
      q.what == Request::put ? api::put_nbi(name, all, at, local, bytes, q.pe)
                             : api::get_nbi(name, all, local, at, bytes, q.pe);
    else
      q.what == Request::put ? api::ibput(name, all, at, local, dst, sst, bytes, n, q.pe)
                             : api::ibget(name, all, local, at, dst, sst, bytes, n, q.pe);
    return;
  }
  case Request::put_words: // which stay there until they are done
    return api::put_nbi(name, all, at, reinterpret_cast<const char *>(q.word), q.bytes, q.pe);
  case Request::get_words: {
    uint64_t words[7];
    if (q.bytes > sizeof words) bad_request(q);
    api::get(name, all, reinterpret_cast<char *>(words), at, q.bytes, q.pe);
    return answer(q, words, sizeof words);
  }
  case Request::flags:
    for (unsigned i = 0; i < q.bytes / sizeof *q.word; i++)
      net::Atomic<uint64_t>({reinterpret_cast<uint64_t *>(self.flags.base + q.at) + i, q.pe})
          .store(q.word[i]);
    return;
  case Request::fence:
    gpu::finish();
    if constexpr (net::built) net::quiet();
    return;
  }
  const auto act = [&](auto *p) {
    const uint64_t seen = uint64_t(amo(q, p));
    if (q.reply) answer(q, &seen, sizeof seen);
  };
  if (q.what > unsigned(Amo::xor_)) bad_request(q);
  switch (q.bytes) {
  case 1:
    return act(reinterpret_cast<uint8_t *>(at));
  case 2:
    return act(reinterpret_cast<uint16_t *>(at));
  case 4:
    return act(reinterpret_cast<uint32_t *>(at));
  case 8:
    return act(reinterpret_cast<uint64_t *>(at));
  }
  bad_request(q);
}

// Requests are done together, all that have come: one wait for all of them.
void *serve(void *) {
  OnDevice on;
  uint64_t next = 0;
  unsigned idle = 0;
  const unsigned patience =
      self.oversubscribed ? 20 : 20000; // polls; the latter take a millisecond
  for (;;) {
    const uint64_t before = next;
    while (next - before < ring_size / 2 && posted(next))
      serve_one(shared->requests[next++ % ring_size]);
    if (next != before) {
      gpu::finish();
      if constexpr (net::built) net::quiet();
      shared->done.store(next, std::memory_order_release);
      idle = 0;
    } else if (stop.load(std::memory_order_relaxed)) {
      return nullptr;
    } else if (++idle < patience) {
      if (self.oversubscribed)
        sched_yield();
      else
        __builtin_ia32_pause();
    } else {
      const timespec nap{0, 20000};
      nanosleep(&nap, nullptr);
    }
  }
}

} // namespace

device::Ring open_ring() {
  void *there, *own;
  shared = static_cast<Shared *>(shared_memory(sizeof *shared, &there));
  memset(static_cast<void *>(shared), 0, sizeof *shared);
  MUST(hipMalloc(&own, sizeof *tickets), "hipMalloc of %zu bytes for tickets", sizeof *tickets);
  MUST(hipMemset(own, 0, sizeof *tickets), "hipMemset of the tickets");
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  tickets = static_cast<device::Tickets *>(own);
  stop = false;
  if (int error = start_thread(&server, serve))
    fatal("starting the thread that serves kernels: %s", strerror(error));
  auto *s = static_cast<Shared *>(there);
  return {s->requests, s->replies, reinterpret_cast<uint64_t *>(&s->done), tickets};
}

void close_ring() {
  if (!shared) return;
  stop = true;
  pthread_join(server, nullptr);
  MUST(hipFree(tickets), "hipFree");
  MUST(hipHostFree(shared), "hipHostFree");
  shared = nullptr;
}

// A kernel that is over has posted all of its requests. The place after the last that are done may
// be one that a running kernel is about to fill, and those of the other are behind it.
void finish_ring() {
  if (!shared) return;
  const uint64_t done = shared->done.load(std::memory_order_acquire);
  uint64_t last = done;
  for (uint64_t ticket = done; ticket < done + ring_size; ticket++)
    if (posted(ticket)) last = ticket + 1;
  if (last == done) return;
  wait_while({nullptr, false}, [&] { return shared->done.load(std::memory_order_acquire) < last; });
}

} // namespace shmem::gpu
