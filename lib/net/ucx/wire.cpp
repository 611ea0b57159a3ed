// SPDX-License-Identifier: MIT
// Sends messages as UCX's active messages, and hands those that come to their handlers. A message
// is copied before it goes, so its sender waits only while thousands are held back.
#include "message.hpp"
#include <cstdlib>

namespace shmem::net {

void send_bytes(ucp_ep_h ep, unsigned number, const void *head, size_t head_bytes, const void *data,
                size_t bytes, bool replies) {
  auto *const all = static_cast<char *>(malloc(head_bytes + bytes));
  if (!all) fatal("no memory for a message");
  memcpy(all, head, head_bytes);
  if (bytes) memcpy(all + head_bytes, data, bytes);
  ucp_request_param_t p{};
  p.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  p.flags = UCP_AM_SEND_FLAG_EAGER | (replies ? UCP_AM_SEND_FLAG_REPLY : 0);
  p.user_data = all;
  p.cb.send = [](void *request, ucs_status_t, void *all) {
    free(all);
    ucp_request_free(request);
    unsent.fetch_sub(1, std::memory_order_relaxed);
  };
  // The head is sent as data, because UCX limits the size of a header.
  ucs_status_ptr_t request = ucp_am_send_nbx(ep, number, nullptr, 0, all, head_bytes + bytes, &p);
  began(UCS_PTR_IS_ERR(request) ? request : nullptr, nullptr, "a message to another node");
  if (UCS_PTR_IS_PTR(request))
    unsent.fetch_add(1, std::memory_order_relaxed);
  else
    free(all);
}

template <class Message>
static uint64_t send_on(int pe, Lane lane, Message &m, const void *data, size_t bytes) {
  // Messages that the other end does not take yet are memory here.
  constexpr int most = 4096;
  if (unsent.load(std::memory_order_relaxed) > most)
    wait_for([] { return unsent.load(std::memory_order_relaxed) > most / 2; });
  const std::lock_guard guard(lock);
  Peer &peer = peers[pe];
  m.receipt = {lane, pe, tick(peer, peer.stored[lane])};
  send(endpoint(pe), m, lane != in_order, data, bytes);
  return m.receipt.begun;
}
uint64_t send_store(int pe, Lane lane, RemoteStore s, const void *data, size_t bytes) {
  return send_on(pe, lane, s, data, bytes);
}
uint64_t send_store(int pe, Lane lane, StoreBatch b, const void *data, size_t bytes) {
  return send_on(pe, lane, b, data, bytes);
}

void listen() {
  for (const Handler *h = Handler::all; h; h = h->next) {
    ucp_am_handler_param_t p{};
    p.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                   UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    p.id = h->number;
    p.cb = h->call;
    p.flags = UCP_AM_FLAG_WHOLE_MSG;
    must(ucp_worker_set_am_recv_handler(worker, &p), "ucp_worker_set_am_recv_handler");
  }
}

} // namespace shmem::net
