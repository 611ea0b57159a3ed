// SPDX-License-Identifier: MIT
// Messages between PEs of two nodes: one struct for each kind, at the head of its data. UCX calls
// the handler of the kind at the other PE, under the lock.
#pragma once
#include "../../gpu/deferred.hpp"
#include "ucx.hpp"
#include <bit>
#include <cstring>

namespace shmem::net {

// A call waits for the reply: an atomic that fetches, or a get.
struct RemoteCall {
  static constexpr unsigned number = 1;
  uint64_t id;
  Operation op;
};
// Data of a get follows.
struct RemoteReply {
  static constexpr unsigned number = 2;
  uint64_t id, value;
};
// Says that stores on a lane are done up to this number of Course.
struct Receipt {
  static constexpr unsigned number = 3;
  Lane lane;
  int pe; // that has them done
  uint64_t begun;
};
// A put, whose data follows, or an atomic that fetches nothing. Quiet waits for the receipt.
struct RemoteStore {
  static constexpr unsigned number = 4;
  Receipt receipt;
  Operation op;
};
// `count` operations follow, each with its data.
struct StoreBatch {
  static constexpr unsigned number = 5;
  Receipt receipt;
  uint64_t count;
};
// Asks for the receipt alone.
struct Pulse {
  static constexpr unsigned number = 6;
  Receipt receipt;
};
struct KeyRequest {
  static constexpr unsigned number = 7;
  int pe;     // that is asked
  int region; // a buffer or a chunk; or 0 for all regions
};
// The keys follow.
struct KeyReply {
  static constexpr unsigned number = 8;
  KeyRequest request;
  uint64_t base[Operation::regions];
  uint32_t length[Operation::regions];
};
// Whether the PE is there. The reply has no value.
struct AliveRequest {
  static constexpr unsigned number = 9;
  uint64_t id;
};
// Another node has ended the job. The reply has no value.
struct EndOfJob {
  static constexpr unsigned number = 10;
  uint64_t id;
  int status;
};

inline constexpr size_t piece = 64 << 10; // the most data of a message

// Sends a message, under the lock. Its bytes are copied.
void send_bytes(ucp_ep_h ep, unsigned number, const void *head, size_t head_bytes, const void *data,
                size_t bytes, bool replies);
// replies: the handler gets an endpoint to reply to.
template <class Message>
void send(ucp_ep_h ep, const Message &m, bool replies, const void *data = nullptr,
          size_t bytes = 0) {
  send_bytes(ep, Message::number, &m, sizeof m, data, bytes, replies);
}

// A file that handles messages has on(message, data, from) for each kind, where `from` is the
// endpoint to reply to, or null; and one Handles<kinds...>, which listen() gives to the worker.
struct MessageData {
  const char *p;
  size_t bytes;
};
struct Handler {
  const unsigned number;
  const ucp_am_recv_callback_t call;
  Handler *const next;
  static inline Handler *all;
  Handler(unsigned number, ucp_am_recv_callback_t call) : number(number), call(call), next(all) {
    all = this;
  }
};
// No PE of this job sends a message that is shorter than its head, or one that has to be fetched.
template <class Message>
ucs_status_t received(void *, const void *, size_t, void *bytes, size_t length,
                      const ucp_am_recv_param_t *param) {
  Message m;
  if (length < sizeof m || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return UCS_OK;
  memcpy(&m, bytes, sizeof m);
  on(m, MessageData{static_cast<char *>(bytes) + sizeof m, length - sizeof m},
     param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP ? param->reply_ep : nullptr);
  return UCS_OK;
}
template <class... Message> struct Handles {
  Handler handlers[sizeof...(Message)] = {{Message::number, received<Message>}...};
};

// Sends a RemoteStore or a StoreBatch on a lane, once there is room. Fills in its receipt, and
// returns the store's number.
uint64_t send_store(int pe, Lane lane, RemoteStore s, const void *data, size_t bytes);
uint64_t send_store(int pe, Lane lane, StoreBatch b, const void *data, size_t bytes);
// Puts a store into this thread's batch; false if the thread has none, or the store does not fit
// there.
bool add_to_batch(int pe, Lane lane, const Operation &op, const void *data, size_t bytes);

// Whether a request names only memory of its region, with as much data as it needs. Others are
// dropped: no PE of this job sends them.
bool is_valid(const Operation &op, size_t bytes);
// Does a store in memory that this processor reaches. Returns the old value of an atomic.
uint64_t do_store(const Operation &op, const char *data);
// Deferred work that sends a receipt when it is done.
std::unique_ptr<gpu::Deferred> deferred_store(const Receipt &receipt, ucp_ep_h from);

// Blocks between memory of the host and one piece of data.
void spread(char *to, size_t stride, const char *from, size_t bytes, size_t n);
void gather(char *to, const char *from, size_t stride, size_t bytes, size_t n);

} // namespace shmem::net
