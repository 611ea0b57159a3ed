// SPDX-License-Identifier: MIT
// Asks other PEs for operations, by messages. A call waits for its reply; quiet waits for the
// receipts of stores.
#include "../../copy.hpp"
#include "../../gpu/copy.hpp"
#include "message.hpp"
#include <unistd.h>
#include <unordered_map>

namespace shmem::net {

namespace {

// A call whose reply has not come.
struct Waiting {
  uint64_t value = 0;
  void *data = nullptr; // where data goes
  size_t bytes = 0;
  std::atomic<bool> *done = nullptr;
  void (*then)(void *, uint64_t) = nullptr; // or no thread waits: it is called, and this deleted
  void *arg = nullptr;
};
std::unordered_map<uint64_t, Waiting *> waiting; // under the lock

// Under the lock.
template <class Message> void start_call(int pe, Message m, Waiting *w) {
  static uint64_t last;
  m.id = ++last;
  waiting.emplace(m.id, w);
  send(endpoint(pe), m, true);
}

uint64_t call(int pe, const Operation &op, void *data = nullptr, size_t bytes = 0) {
  std::atomic<bool> done{false};
  Waiting w{0, data, bytes, &done};
  {
    const std::lock_guard guard(lock);
    start_call(pe, RemoteCall{0, op}, &w);
  }
  wait_for([&] { return !done.load(std::memory_order_acquire); });
  return w.value;
}

// Starts a store, which quiet completes. one_fragment: UCX keeps the order of such messages; larger
// ones may go by several interfaces. Returns the store's number, or 0 for one in a batch.
uint64_t store(int pe, const Operation &op, bool one_fragment, const void *data = nullptr,
               size_t bytes = 0) {
  const Lane lane = !registered[op.region].device_only ? one_fragment ? in_order : by_host
                    : gpu::Deferred::is_copy(op)       ? by_engine
                                                       : by_gpu;
  if (add_to_batch(pe, lane, op, data, bytes)) return 0;
  return send_store(pe, lane, RemoteStore{{}, op}, data, bytes);
}

// A part of blocks in memory here, which the processor may not reach, to one piece or from it.
void pack(char *packed, const void *p, size_t stride, size_t bytes, size_t n, bool device_only) {
  if (!device_only)
    gather(packed, static_cast<const char *>(p), stride, bytes, n);
  else if (n == 1)
    gpu::copy(packed, p, bytes);
  else
    gpu::copy_2d(packed, bytes, p, stride, bytes, n);
}
void unpack(void *p, size_t stride, const char *packed, size_t bytes, size_t n, bool device_only) {
  if (!device_only)
    spread(static_cast<char *>(p), stride, packed, bytes, n);
  else if (n == 1)
    gpu::copy(p, packed, bytes);
  else
    gpu::copy_2d(p, stride, packed, bytes, bytes, n);
}

} // namespace

static void on(const RemoteReply &reply, MessageData data, ucp_ep_h) {
  const auto found = waiting.find(reply.id);
  if (found == waiting.end()) return;
  Waiting *const w = found->second;
  if (w->data && w->bytes != data.bytes) return;
  waiting.erase(found);
  w->value = reply.value;
  if (w->data) memcpy(w->data, data.p, data.bytes);
  if (w->then) {
    w->then(w->arg, reply.value);
    delete w;
  } else {
    w->done->store(true, std::memory_order_release);
  }
}

static void on(const Receipt &r, MessageData, ucp_ep_h) {
  if (unsigned(r.pe) >= unsigned(self.n) || r.lane >= lanes) return;
  uint64_t &done = peers[r.pe].stored[r.lane].done;
  done = std::max(done, r.begun);
  tell_quiet();
}

void send_pulse(Peer &peer) {
  const int pe = int(&peer - peers);
  peer.pulsed = peer.stored[in_order].last;
  send(endpoint(pe), Pulse{{in_order, pe, peer.pulsed}}, true);
}

void ask_alive(int pe, std::atomic<bool> *replied) {
  static Waiting w{}; // one at a time
  const std::lock_guard guard(lock);
  w.done = replied;
  *replied = false;
  start_call(pe, AliveRequest{}, &w);
}

uint64_t atomic(const Operation &op, int pe) {
  Operation named = op;
  resolve(named, pe);
  return call(pe, named);
}
void atomic_later(const Operation &op, int pe, void (*then)(void *, uint64_t), void *arg) {
  Operation named = op;
  resolve(named, pe);
  if (!then) return void(store(pe, named, true));
  auto *const w = new Waiting{.then = then, .arg = arg};
  const std::lock_guard guard(lock);
  start_call(pe, RemoteCall{0, named}, w);
}

void put_by_message(const Operation &op, int pe) {
  store(pe, op, true, reinterpret_cast<const void *>(op.transfer.local), op.transfer.bytes);
}

// Small blocks share a message, and a large block takes several.
void transfer_by_message(const Operation &op, int pe, bool device_only_here) {
  const Operation::Transfer &all = op.transfer;
  const std::unique_ptr<char[]> packed(new char[piece]);
  const size_t few = std::max<size_t>(1, piece / all.bytes);
  const bool one_fragment = all.count * all.bytes <= small_block;
  unsigned pieces = 0;
  for (size_t i = 0; i < all.count; i += few)
    for (size_t at = 0; at < all.bytes; at += piece) {
      const size_t n = std::min(few, all.count - i), bytes = std::min(piece, all.bytes - at);
      Operation part = op;
      part.offset += i * all.remote_stride + at;
      part.transfer = {{bytes, n, all.remote_stride, all.local_stride}, 0};
      auto *const p = reinterpret_cast<void *>(all.local + i * all.local_stride + at);
      if (op.kind == Operation::get) {
        call(pe, part, packed.get(), bytes * n);
        unpack(p, all.local_stride, packed.get(), bytes, n, device_only_here);
        continue;
      }
      pack(packed.get(), p, all.local_stride, bytes, n, device_only_here);
      const uint64_t begun = store(pe, part, one_fragment, packed.get(), bytes * n);
      // At most a megabyte is on its way.
      if (++pieces % 16 == 0)
        wait_for([=] {
          const std::lock_guard guard(lock);
          return !peers[pe].has_receipts(begun);
        });
    }
}

void forget_calls() {
  const std::lock_guard guard(lock);
  waiting.clear();
}

// Waits for replies, so that no connection is half made when this process ends: UCX 1.13 aborts the
// peer of such a connection (2026-11-22).
void tell_exit(int status) {
  if (!worker) return;
  static std::vector<std::atomic<bool>> replied(size_t(self.n)); // a reply may come later
  std::vector<int> told;
  {
    const std::lock_guard guard(lock);
    for (int pe = 0; pe < self.n; pe++)
      if (first_of(pe) == pe && pe != self.pe_of(0)) {
        start_call(pe, EndOfJob{0, status}, new Waiting{.done = &replied[size_t(pe)]});
        told.push_back(pe);
      }
  }
  for (int tries = 0; tries < 1000; tries++) {
    progress();
    if (std::all_of(told.begin(), told.end(), [&](int pe) { return replied[size_t(pe)].load(); }))
      return;
    usleep(1000);
  }
}

static Handles<RemoteReply, Receipt> handles;

} // namespace shmem::net
