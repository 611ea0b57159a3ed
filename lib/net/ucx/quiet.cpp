// SPDX-License-Identifier: MIT
// Quiet: completes the operations that this PE has begun at others, or orders them. Transfers by
// UCX complete with a flush of the endpoint, and stores by message with their receipts.
#include "../../gpu/heap.hpp"
#include "ucx.hpp"
#include <algorithm>
#include <utility>
#include <vector>

namespace shmem::net {

namespace {

// Completes all transfers by UCX that have begun there. Under the lock.
void flush(Peer &peer) {
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.user_data = &peer;
  p.cb.send = [](void *request, ucs_status_t status, void *arg) {
    Peer &peer = *static_cast<Peer *>(arg);
    if (status == UCS_OK || over()) peer.moved.done = std::exchange(peer.flushing, 0);
    tell_quiet();
    ucp_request_free(request);
  };
  peer.flushing = last_begun();
  ucs_status_ptr_t request = ucp_ep_flush_nbx(peer.ep, &p);
  began(UCS_PTR_IS_ERR(request) ? request : nullptr, nullptr, "ucp_ep_flush");
  if (UCS_PTR_IS_PTR(request)) return;
  peer.moved.done = std::exchange(peer.flushing, 0);
  tell_quiet();
}

// Whether an operation up to that number is not done there; if so, starts to complete it. At most
// one flush of an endpoint is on its way, so operations that other threads begin meanwhile do not
// delay this one. Under the lock.
bool completes(Peer &peer, uint64_t until) {
  const bool moves = !peer.moved.is_done(until);
  if (moves && !peer.flushing) flush(peer);
  const Course &ordered = peer.stored[in_order];
  if (!ordered.is_done(until) && peer.pulsed < ordered.last) send_pulse(peer);
  return moves || !peer.has_receipts(until);
}
bool any_left(uint64_t until) {
  std::lock_guard guard(lock);
  bool left = false;
  auto &busy = begun.busy;
  for (size_t i = 0; i < busy.size();) {
    Peer &peer = *busy[i];
    left |= completes(peer, until);
    if (peer.busy() || peer.flushing) {
      i++;
    } else {
      peer.listed = false;
      busy[i] = busy.back();
      busy.pop_back();
    }
  }
  begun.n_busy.store(busy.size(), std::memory_order_relaxed);
  return left;
}

} // namespace

// left(): whether an operation is not done.
template <class F> static void wait_until_done(F left) {
  if (begun.n_busy.load(std::memory_order_relaxed) == 0) return;
  // Takes the lock only when something has become done: a thread that polls would have the lock for
  // nothing, and keep the progress thread from it.
  wait_for([&, seen = ~uint64_t(0)]() mutable {
    const uint64_t now = begun.news.load(std::memory_order_acquire);
    return std::exchange(seen, now) == now || left();
  });
}
void quiet(uint64_t until) {
  wait_until_done([&] { return any_left(until); });
}
void quiet() {
  send_batch();
  quiet(last_begun());
}
void quiet_at(const int *pes, size_t n, uint64_t until) {
  wait_until_done([&] {
    std::lock_guard guard(lock);
    bool left = false;
    for (size_t i = 0; i < n; i++) left |= completes(peers[pes[i]], until);
    return left;
  });
}
void quiet_at(int pe) {
  send_batch();
  quiet_at(&pe, 1, last_begun());
}

void put_in_order(void *dest, int pe, const void *source, size_t bytes) {
  for (size_t at = 0, n; at < bytes; at += n) { // once, unless it spans chunks of a heap
    auto *const p = static_cast<char *>(dest) + at;
    const auto *const from = static_cast<const char *>(source) + at;
    Operation op = Operation::of_transfer(Operation::put, p, from, one_block(bytes - at));
    n = op.transfer.bytes = std::min(bytes - at, resolve(op, pe));
    if (n <= small_block && !registered[op.region].device_only && !gpu::is_device_only(from)) {
      put_by_message(op, pe);
      continue;
    }
    put(p, pe, from, one_block(n), false);
    quiet_at(pe);
  }
}

} // namespace shmem::net
