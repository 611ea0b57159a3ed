// SPDX-License-Identifier: MIT
// Puts and gets.
#include "../../gpu/heap.hpp"
#include "ucx.hpp"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace shmem::net {

namespace {

// A put returns when its source may change. UCX over tcp says so only when the target has answered,
// a round trip later, so a small one goes from a copy (8 B over tcp: 27 us, and 16 so; 2026-11-22).
// Where no card does it UCX puts by messages, and answers each: then ours are better, of which quiet
// asks for one answer (put + wait_until of 8 B over tcp, one way: 17 us, and 7.5 so; 2026-11-24).
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
  tick(peer, peer.moved);
  ucs_status_ptr_t request = ucp_put_nbx(peer.ep, c->bytes, bytes, there, key, &p);
  began(request, nullptr, "a transfer to another node");
  if (!UCS_PTR_IS_PTR(request)) give_copy(c);
  return true;
}

} // namespace

void drop_copies() {
  std::lock_guard guard(lock);
  while (Copy *c = free_copies) {
    free_copies = c->next;
    free(c);
    n_copies--;
  }
}

// All of it is in one region, buffer or chunk there.
static void move_within(Way way, const Name &name, int pe, void *here, const Blocks &b,
                        bool later) {
  const bool far = registered[name.region].far && !ucx_knows_gpu;
  if (far && way == Way::put && b.n == 1 && b.bytes <= small_block && !gpu::is_device_only(here))
    return put_message(name, pe, here, b.bytes);
  // Small blocks share a message: a request for each costs more than the copies.
  if (far || (!ucx_knows_gpu && gpu::is_device_only(here)) || (b.n > 1 && b.bytes <= small_block))
    return move_by_message(way, name, pe, here, b);
  const Theirs &theirs = reach(pe, name.region);
  Peer &peer = peers[pe];
  const uint64_t base = theirs.base + name.offset;
  if (way == Way::put && b.n == 1 && b.bytes <= small_block && !registered[name.region].far &&
      !gpu::is_device_only(here)) {
    if (!peer.by_card) return put_message(name, pe, here, b.bytes);
    if (!later) return wait_for([&] { return !put_copy(peer, here, b.bytes, base, theirs.key); });
  }
  std::atomic<int> count{0};
  for (size_t i = 0; i < b.n; i++) {
    std::lock_guard guard(lock);
    const ucp_request_param_t p = counted(later ? nullptr : &count);
    const uint64_t at = base + i * b.there;
    char *const p_here = static_cast<char *>(here) + i * b.here;
    if (way == Way::put || later) tick(peer, peer.moved); // a get that has returned is done
    began(way == Way::put ? ucp_put_nbx(peer.ep, p_here, b.bytes, at, theirs.key, &p)
                          : ucp_get_nbx(peer.ep, p_here, b.bytes, at, theirs.key, &p),
          later ? nullptr : &count, "a transfer to another node");
  }
  if (!later) wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
}

void move(Way way, void *there, int pe, void *here, const Blocks &b, bool later) {
  if (b.n == 0 || b.bytes == 0) return;
  const Name name = name_of(there, pe);
  if ((b.n - 1) * b.there + b.bytes <= name.room) [[likely]]
    return move_within(way, name, pe, here, b, later);
  // Of a heap that grows, from one chunk into another: as many whole blocks as have room, or one
  // that is cut.
  for (size_t i = 0; i < b.n;) {
    char *const p = static_cast<char *>(there) + i * b.there;
    char *const p_here = static_cast<char *>(here) + i * b.here;
    const Name first = name_of(p, pe);
    if (b.bytes <= first.room) {
      const size_t n = std::min(b.n - i, (first.room - b.bytes) / b.there + 1);
      move_within(way, first, pe, p_here, {b.bytes, n, b.there, b.here}, later);
      i += n;
      continue;
    }
    for (size_t at = 0, bytes; at < b.bytes; at += bytes) {
      const Name part = name_of(p + at, pe);
      bytes = std::min(b.bytes - at, part.room);
      move_within(way, part, pe, p_here + at, {bytes}, later);
    }
    i++;
  }
}

} // namespace shmem::net
