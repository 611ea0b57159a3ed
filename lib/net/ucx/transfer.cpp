// SPDX-License-Identifier: MIT
// Puts and gets, and what completes them.
#include "../../gpu.hpp"
#include "ucx.hpp"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace shmem::net {

namespace {

constexpr size_t small_block = 1024;

uint64_t now;               // the clock
std::vector<Peer *> busy;   // where something is begun that quiet is to complete
std::atomic<size_t> n_busy; // so that a quiet that has nothing to do takes no lock

// All that was begun there so far is done when this is. Under the lock.
void flush(Peer &peer) {
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.user_data = &peer;
  p.cb.send = [](void *request, ucs_status_t status, void *arg) {
    Peer &peer = *static_cast<Peer *>(arg);
    if (status == UCS_OK || over()) peer.done = std::exchange(peer.flushing, 0);
    ucp_request_free(request);
  };
  peer.flushing = now;
  ucs_status_ptr_t request = ucp_ep_flush_nbx(peer.ep, &p);
  began(UCS_PTR_IS_ERR(request) ? request : nullptr, nullptr, "ucp_ep_flush");
  if (!UCS_PTR_IS_PTR(request)) peer.done = std::exchange(peer.flushing, 0);
}

// Whether something is not done of what was begun up to then, at one peer or all. One endpoint's
// flush after the other's, and at most one on its way: what other threads begin meanwhile is not
// waited for.
bool completes(uint64_t until, const Peer *only) {
  std::lock_guard guard(lock);
  bool left = false;
  for (size_t i = 0; i < busy.size();) {
    Peer &peer = *busy[i];
    if (only && only != &peer) {
      i++;
      continue;
    }
    if (peer.done < std::min(peer.moved, until)) {
      left = true;
      if (!peer.flushing) flush(peer);
    }
    left |= peer.answered < std::min(peer.stored, until);
    if (peer.busy() || peer.flushing) {
      i++;
    } else {
      peer.listed = false;
      busy[i] = busy.back();
      busy.pop_back();
    }
  }
  n_busy.store(busy.size(), std::memory_order_relaxed);
  return left;
}

// A put returns when its source may change. UCX over tcp says so only when the target has answered,
// a round trip later, so a small one goes from a copy (8 B over tcp: 27 us, and 16 so; 2026-11-22).
struct Copy {
  Copy *next;
  char bytes[small_block];
};
Copy *free_copies; // under the lock
int n_copies;
constexpr int most_copies = 256;

Copy *take_copy() {
  Copy *c = free_copies;
  if (c)
    free_copies = c->next;
  else if (n_copies < most_copies && (c = static_cast<Copy *>(malloc(sizeof *c))))
    n_copies++;
  return c;
}
void give_copy(void *arg) {
  auto *c = static_cast<Copy *>(arg);
  c->next = std::exchange(free_copies, c);
}

// False when all copies are on their way.
bool put_copy(Peer &peer, const void *source, size_t bytes, uint64_t there, ucp_rkey_h key) {
  std::lock_guard guard(lock);
  Copy *const c = take_copy();
  if (!c) return false;
  memcpy(c->bytes, source, bytes);
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.user_data = c;
  p.cb.send = [](void *request, ucs_status_t, void *copy) {
    give_copy(copy);
    ucp_request_free(request);
  };
  peer.moved = tick(peer);
  ucs_status_ptr_t request = ucp_put_nbx(peer.ep, c->bytes, bytes, there, key, &p);
  began(request, nullptr, "a transfer to another node");
  if (!UCS_PTR_IS_PTR(request)) give_copy(c);
  return true;
}

} // namespace

uint64_t tick(Peer &peer) {
  if (!peer.listed) {
    peer.listed = true;
    busy.push_back(&peer);
    n_busy.store(busy.size(), std::memory_order_relaxed);
  }
  return ++now;
}

void move(Way way, void *there, int pe, void *here, const Blocks &b, bool later) {
  if (b.n == 0 || b.bytes == 0) return;
  const int r = region_of(there);
  // Small blocks share a message: a request for each costs more than the copies.
  if ((far[r] && !ucx_knows_gpu) || (!ucx_knows_gpu && gpu::is_far(here)) ||
      (b.n > 1 && b.bytes <= small_block))
    return move_by_message(way, there, pe, here, b);
  Peer &peer = reach(pe);
  const uint64_t base = peer.base[r] + (uintptr_t(there) - registered[r]->base);
  if (way == Way::put && !later && b.n == 1 && b.bytes <= small_block && !gpu::is_far(here))
    return wait_for([&] { return !put_copy(peer, here, b.bytes, base, peer.key[r]); });
  std::atomic<int> count{0};
  for (size_t i = 0; i < b.n; i++) {
    std::lock_guard guard(lock);
    const ucp_request_param_t p = counted(later ? nullptr : &count);
    const uint64_t at = base + i * b.there;
    char *const p_here = static_cast<char *>(here) + i * b.here;
    if (way == Way::put || later) peer.moved = tick(peer); // a get that has returned is done
    began(way == Way::put ? ucp_put_nbx(peer.ep, p_here, b.bytes, at, peer.key[r], &p)
                          : ucp_get_nbx(peer.ep, p_here, b.bytes, at, peer.key[r], &p),
          later ? nullptr : &count, "a transfer to another node");
  }
  if (!later) wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
}

static void quiet_of(const Peer *only) {
  if (n_busy.load(std::memory_order_relaxed) == 0) return;
  uint64_t until;
  {
    std::lock_guard guard(lock);
    until = now;
  }
  wait_for([=] { return completes(until, only); });
}
void quiet() {
  quiet_of(nullptr);
}
void quiet_at(int pe) {
  quiet_of(&peers[pe]);
}

} // namespace shmem::net
