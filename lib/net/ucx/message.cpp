// SPDX-License-Identifier: MIT
// Active messages: what is asked of a PE and its answer; and messages of collectives.
#include "ucx.hpp"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace shmem::net {

namespace {

// What is asked of a PE, and its answer.
enum Kind : uint8_t { atomic_op, keys, end_of_job };
struct Question {
  uint64_t id; // of who waits for the answer, or of a store, see below
  Kind kind;
  Op op;
  uint8_t bytes, region;
  uint64_t offset, value, cond;
};
struct Answer {
  uint64_t id, value, base[regions];
  uint32_t length[regions]; // of the keys behind this
};
enum : unsigned { question_id = 1, answer_id = 2 };
// Nobody waits for the answer to a store but quiet: its id is the peer, and its cond, which comes back as
// the value, when it was begun.
constexpr uint64_t store_id = uint64_t(1) << 63;

struct Waiting {
  uint64_t value;
  Peer *peer; // whose keys come
  std::atomic<bool> done;
};
std::unordered_map<uint64_t, Waiting *> waiting; // under the lock
uint64_t last_id;

// An active message whose bytes live as long as it needs.
void message(ucp_ep_h ep, unsigned id, const void *head, size_t bytes, const void *data,
             size_t data_bytes, unsigned flags) {
  auto *all = static_cast<char *>(malloc(bytes + data_bytes));
  if (!all) fatal("no memory for a message");
  memcpy(all, head, bytes);
  if (data_bytes) memcpy(all + bytes, data, data_bytes);
  ucp_request_param_t p{};
  p.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  p.flags = flags | UCP_AM_SEND_FLAG_EAGER;
  p.user_data = all;
  p.cb.send = [](void *request, ucs_status_t, void *all) {
    free(all);
    ucp_request_free(request);
  };
  // All of it is data: a header has a limit.
  ucs_status_ptr_t request = ucp_am_send_nbx(ep, id, nullptr, 0, all, bytes + data_bytes, &p);
  began(UCS_PTR_IS_ERR(request) ? request : nullptr, nullptr, "a message to another node");
  if (!UCS_PTR_IS_PTR(request)) free(all);
}

template <class T> uint64_t apply(void *p, const Question &q) {
  std::atomic_ref<T> a(*static_cast<T *>(p));
  const T value = T(q.value);
  switch (q.op) {
  case Op::load:
    return a.load();
  case Op::store:
    a.store(value);
    return 0;
  case Op::swap:
    return a.exchange(value);
  case Op::compare_swap: {
    T seen = T(q.cond);
    a.compare_exchange_strong(seen, value);
    return seen;
  }
  case Op::add:
    return a.fetch_add(value);
  case Op::bit_and:
    return a.fetch_and(value);
  case Op::bit_or:
    return a.fetch_or(value);
  case Op::bit_xor:
    return a.fetch_xor(value);
  }
  return 0;
}

// Under the lock, as all that UCX calls. A message that no PE of this job sends is not obeyed.
ucs_status_t on_question(void *, const void *, size_t, void *data, size_t length,
                         const ucp_am_recv_param_t *param) {
  Question q;
  if (length != sizeof q || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return UCS_OK;
  memcpy(&q, data, sizeof q);
  Answer a{};
  a.id = q.id;
  char packed[2048];
  size_t bytes = 0;
  if (q.kind == end_of_job) ended_elsewhere(int(q.value));
  if (q.kind == atomic_op) {
    const size_t b = q.bytes;
    if (q.region >= regions || (b != 1 && b != 2 && b != 4 && b != 8) || q.offset % b ||
        q.offset > registered[q.region]->size || registered[q.region]->size - q.offset < b)
      return UCS_OK;
    void *p = reinterpret_cast<void *>(registered[q.region]->base + q.offset);
    a.value = b == 1   ? apply<uint8_t>(p, q)
              : b == 2 ? apply<uint16_t>(p, q)
              : b == 4 ? apply<uint32_t>(p, q)
                       : apply<uint64_t>(p, q);
    if (q.id & store_id) a.value = q.cond;
  } else if (q.kind == keys) {
    for (int i = 0; i < regions; i++) {
      void *key;
      size_t n;
      a.base[i] = registered[i]->base;
      if (registered[i]->size == 0) continue;
      must(ucp_rkey_pack(context, memory[i], &key, &n), "ucp_rkey_pack");
      if (bytes + n > sizeof packed) fatal("a key of memory of %zu bytes: more than expected", n);
      memcpy(packed + bytes, key, n);
      a.length[i] = uint32_t(n);
      bytes += n;
      ucp_rkey_buffer_release(key);
    }
  } else if (q.kind != end_of_job) {
    return UCS_OK;
  }
  if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)
    message(param->reply_ep, answer_id, &a, sizeof a, packed, bytes, 0);
  return UCS_OK;
}

ucs_status_t on_answer(void *, const void *, size_t, void *data, size_t length,
                       const ucp_am_recv_param_t *param) {
  Answer a;
  if (length < sizeof a || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return UCS_OK;
  memcpy(&a, data, sizeof a);
  if (a.id & store_id) {
    const uint64_t pe = a.id & ~store_id;
    if (pe < uint64_t(self.n)) peers[pe].answered = std::max(peers[pe].answered, a.value);
    return UCS_OK;
  }
  auto found = waiting.find(a.id);
  if (found == waiting.end()) return UCS_OK;
  Waiting *w = found->second;
  waiting.erase(found);
  w->value = a.value;
  if (Peer *peer = w->peer) {
    if (length != sizeof a + a.length[0] + a.length[1]) fatal("keys of memory that are cut off");
    const char *key = static_cast<char *>(data) + sizeof a;
    for (int i = 0; i < regions; key += a.length[i++]) {
      peer->base[i] = a.base[i];
      if (a.length[i]) must(ucp_ep_rkey_unpack(peer->ep, key, &peer->key[i]), "ucp_ep_rkey_unpack");
    }
    peer->known.store(true, std::memory_order_release);
  }
  w->done.store(true, std::memory_order_release);
  return UCS_OK;
}

uint64_t ask(int pe, Question q, Peer *peer) {
  Waiting w{0, peer, false};
  {
    std::lock_guard guard(lock);
    q.id = ++last_id;
    waiting.emplace(q.id, &w);
    message(endpoint(pe), question_id, &q, sizeof q, nullptr, 0, UCP_AM_SEND_FLAG_REPLY);
  }
  wait_for([&] { return !w.done.load(std::memory_order_acquire); });
  return w.value;
}

} // namespace

void listen() {
  auto handle = [](unsigned id, ucp_am_recv_callback_t f) {
    ucp_am_handler_param_t p{};
    p.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                   UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    p.id = id;
    p.cb = f;
    p.flags = UCP_AM_FLAG_WHOLE_MSG;
    must(ucp_worker_set_am_recv_handler(worker, &p), "ucp_worker_set_am_recv_handler");
  };
  handle(question_id, on_question);
  handle(answer_id, on_answer);
}

Peer &reach(int pe) {
  Peer &peer = peers[pe];
  if (!peer.known.load(std::memory_order_acquire)) [[unlikely]]
    ask(pe, {0, keys, Op::load, 0, 0, 0, 0, 0}, &peer);
  return peer;
}

uint64_t atomic(void *p, int pe, Op op, size_t bytes, uint64_t value, uint64_t cond) {
  const int r = region_of(p);
  Question q{0,     atomic_op, op, uint8_t(bytes), uint8_t(r), uintptr_t(p) - registered[r]->base,
             value, cond};
  if (op != Op::store) return ask(pe, q, nullptr);
  std::lock_guard guard(lock);
  Peer &peer = peers[pe];
  q.id = store_id | uint64_t(pe);
  q.cond = peer.stored = tick(peer);
  message(endpoint(pe), question_id, &q, sizeof q, nullptr, 0, UCP_AM_SEND_FLAG_REPLY);
  return 0;
}

// Answered, so that no connection is half made when this process ends: UCX 1.13 aborts the peer of such a
// one (2026-11-22).
void tell_exit(int status) {
  if (!worker) return;
  std::vector<std::unique_ptr<Waiting>> told;
  {
    std::lock_guard guard(lock);
    Question q{0, end_of_job, Op::load, 0, 0, 0, uint64_t(uint32_t(status)), 0};
    for (int pe = 0; pe < self.n; pe++)
      if (first_of(pe) == pe && pe != self.node_first) {
        q.id = ++last_id;
        waiting.emplace(q.id, told.emplace_back(new Waiting{}).get());
        message(endpoint(pe), question_id, &q, sizeof q, nullptr, 0, UCP_AM_SEND_FLAG_REPLY);
      }
  }
  for (int tries = 0; tries < 1000; tries++) {
    progress();
    bool all = true;
    for (const auto &w : told) all = all && w->done;
    if (all) break;
    usleep(1000);
  }
  for (auto &w : told) (void)w.release(); // a late answer may still come; the process ends
}

void Messages::send(int pe, uint64_t tag, const void *p, size_t bytes) {
  std::lock_guard guard(lock);
  const ucp_request_param_t param = counted(&open);
  began(ucp_tag_send_nbx(endpoint(pe), p, bytes, tag, &param), &open, "a message to another node");
}

void Messages::receive(uint64_t tag, void *p, size_t bytes) {
  std::lock_guard guard(lock);
  ucp_request_param_t param = counted(&open);
  param.cb.recv = [](void *request, ucs_status_t status, const ucp_tag_recv_info_t *, void *count) {
    done(request, status, count);
  };
  began(ucp_tag_recv_nbx(worker, p, bytes, tag, ~uint64_t(0), &param), &open,
        "a message from another node");
}

void Messages::wait() {
  wait_for([this] { return open.load(std::memory_order_acquire) != 0; });
}
Messages::~Messages() {
  wait();
}

} // namespace shmem::net
