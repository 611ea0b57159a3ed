// SPDX-License-Identifier: MIT
// Puts and gets: by UCX, or by messages where UCX does not know the memory or is slower. A transfer
// that spans chunks of a heap is cut where the next chunk begins.
#include "../../gpu/heap.hpp"
#include "ucx.hpp"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace shmem::net {

namespace {

// A put returns when its source may change. UCX over tcp says so only after a round trip, so a
// small put goes from a copy (8 B over tcp: 27 us, and 16 so; 2026-11-22). Without a card UCX puts
// by messages and acknowledges each. Messages of the library are faster then, because quiet asks
// for one receipt (put + wait_until of 8 B over tcp, one way: 17 us, and 7.5 so; 2026-11-24).
struct PutCopy {
  PutCopy *next;
  char bytes[small_block];
};
PutCopy *free_copies; // under the lock
int n_copies;
constexpr int most_copies = 256;

PutCopy *take_copy() {
  PutCopy *c = free_copies;
  if (c)
    free_copies = c->next;
  else if (n_copies < most_copies && (c = static_cast<PutCopy *>(malloc(sizeof *c))))
    n_copies++;
  return c;
}
void give_copy(void *arg) {
  auto *c = static_cast<PutCopy *>(arg);
  c->next = std::exchange(free_copies, c);
}

// False when all copies are in use.
bool put_copy(Peer &peer, const void *source, size_t bytes, uint64_t there, ucp_rkey_h key) {
  std::lock_guard guard(lock);
  PutCopy *const c = take_copy();
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
  while (PutCopy *c = free_copies) {
    free_copies = c->next;
    free(c);
    n_copies--;
  }
}

// The operation has a resolved name, and all of it is in one region, buffer or chunk.
static void transfer_within(const Operation &op, int pe, bool later) {
  const Operation::Transfer &b = op.transfer;
  void *const here = reinterpret_cast<void *>(b.local);
  const bool puts = op.kind == Operation::put, small = b.bytes <= small_block,
             device_only = registered[op.region].device_only,
             device_only_here = gpu::is_device_only(here);
  // A small put that processors can do on both sides, or whose target is the GPU's and not UCX's.
  const bool small_put = puts && b.count == 1 && small && !device_only_here;
  const bool unknown = device_only && !ucx_knows_gpu;
  if (unknown && small_put) return put_by_message(op, pe);
  // Small blocks share a message: a request of UCX for each costs more than the copies.
  if (unknown || (!ucx_knows_gpu && device_only_here) || (b.count > 1 && small))
    return transfer_by_message(op, pe, device_only_here);
  const RemoteMemory &memory = keys_of(pe, op.region);
  Peer &peer = peers[pe];
  const uint64_t there = memory.base + op.offset;
  if (small_put && !device_only) {
    if (!peer.by_card) return put_by_message(op, pe);
    if (!later) return wait_for([&] { return !put_copy(peer, here, b.bytes, there, memory.key); });
  }
  std::atomic<int> count{0};
  std::atomic<int> *const counts = later ? nullptr : &count;
  for (size_t i = 0; i < b.count; i++) {
    const std::lock_guard guard(lock);
    const ucp_request_param_t p = counted(counts);
    const uint64_t at = there + i * b.remote_stride;
    void *const local = reinterpret_cast<void *>(b.local + i * b.local_stride);
    if (puts || later) tick(peer, peer.moved); // a get that has returned is done
    began(puts ? ucp_put_nbx(peer.ep, local, b.bytes, at, memory.key, &p)
               : ucp_get_nbx(peer.ep, local, b.bytes, at, memory.key, &p),
          counts, "a transfer to another node");
  }
  if (!later) wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
}

void transfer(const Operation &op, int pe, bool later) {
  const Operation::Transfer &all = op.transfer;
  if (all.count == 0 || all.bytes == 0) return;
  Operation part = op;
  if ((all.count - 1) * all.remote_stride + all.bytes <= resolve(part, pe)) [[likely]]
    return transfer_within(part, pe, later);
  // From one chunk of a heap into another: as many whole blocks as have room, or one that is cut.
  for (size_t i = 0; i < all.count;) {
    const auto resolve_at = [&](size_t at) { // in block i
      part = op;
      part.offset += i * all.remote_stride + at;
      part.transfer.local += i * all.local_stride + at;
      return resolve(part, pe);
    };
    const size_t room = resolve_at(0);
    if (all.bytes <= room) {
      const size_t n = std::min(all.count - i, (room - all.bytes) / all.remote_stride + 1);
      part.transfer.count = n;
      transfer_within(part, pe, later);
      i += n;
      continue;
    }
    for (size_t at = 0, bytes; at < all.bytes; at += bytes) {
      bytes = std::min(all.bytes - at, resolve_at(at));
      part.transfer = {one_block(bytes), part.transfer.local};
      transfer_within(part, pe, later);
    }
    i++;
  }
}

} // namespace shmem::net
