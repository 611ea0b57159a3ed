// SPDX-License-Identifier: MIT
// Active messages: what is asked of a PE and its answer; and messages of collectives.
#include "../../copy.hpp"
#include "../../gpu/copy.hpp"
#include "../../gpu/heap.hpp"
#include "../../gpu/task.hpp"
#include "ucx.hpp"
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace shmem::net {

namespace {

// What is asked of a PE, and its answer. Data follows a put's question and a get's answer.
enum Kind : uint8_t { atomic_op, put_blocks, get_blocks, keys, stores, pulse, end_of_job };
struct Question {
  uint64_t id = 0, clock = 0; // of who waits for the answer, or of a store, see below
  Kind kind = atomic_op;
  uint8_t op = 0, bytes = 0; // of an atomic: an Amo
  uint16_t region = 0;
  uint64_t offset = 0, value = 0,
           cond = 0; // of blocks: bytes of each, and how many; of stores: how many
  uint64_t stride = 0;
};
struct Answer {
  uint64_t id, value;
};
struct Keys { // which follow it
  uint64_t base[regions];
  uint32_t length[regions];
};
enum : unsigned { question_id = 1, answer_id = 2 };
// Nobody waits for the answer to a store but quiet: its id is the lane and the peer, and the
// answer's value the clock when it was begun.
constexpr uint64_t store_id = uint64_t(1) << 63;
constexpr int lane_shift = 32;
constexpr size_t piece = 64 << 10; // of data in a message
constexpr int most_unsent = 4096;

// Stores at one PE that wait for company, of a thread that lets them: each a Question and its data.
// They are the processor's there, or the GPU's, which has them in words: of a request of the ring
// there are 40 bytes, and a few more cost a kernel no more.
constexpr size_t pack_bytes = 16 << 10, most_far = 64;
struct Pack {
  int pe = -1;
  bool far = false;
  size_t n = 0, bytes = 0;
  char data[pack_bytes];
};
thread_local Pack *pack;
size_t padded(size_t bytes) {
  return round_up(bytes, sizeof(uint64_t));
}

struct Waiting {
  uint64_t value = 0;
  Peer *peer = nullptr; // whose keys come, of this region or from this on
  int region = 0;
  void *data = nullptr; // where data goes
  size_t bytes = 0;
  std::atomic<bool> *done = nullptr;
  void (*then)(void *, uint64_t) = nullptr; // where nobody waits: it is called, and this freed
  void *arg = nullptr;
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
    unsent.fetch_sub(1, std::memory_order_relaxed);
  };
  // All of it is data: a header has a limit.
  ucs_status_ptr_t request = ucp_am_send_nbx(ep, id, nullptr, 0, all, bytes + data_bytes, &p);
  began(UCS_PTR_IS_ERR(request) ? request : nullptr, nullptr, "a message to another node");
  if (UCS_PTR_IS_PTR(request))
    unsent.fetch_add(1, std::memory_order_relaxed);
  else
    free(all);
}

template <class A, class T> uint64_t apply(A a, Amo op, T value, T cond) {
  switch (op) {
  case Amo::fetch:
    return uint64_t(a.load());
  case Amo::set:
    a.store(value);
    return 0;
  case Amo::swap:
    return uint64_t(a.exchange(value));
  case Amo::compare_swap:
    a.compare_exchange_strong(cond, value);
    return uint64_t(cond);
  case Amo::add:
    return uint64_t(a.fetch_add(value));
  case Amo::and_:
    return uint64_t(a.fetch_and(value));
  case Amo::or_:
    return uint64_t(a.fetch_or(value));
  case Amo::xor_:
    return uint64_t(a.fetch_xor(value));
  }
  return 0;
}
template <class T> uint64_t apply(void *p, const Question &q) {
  return apply(std::atomic_ref<T>(*static_cast<T *>(p)), Amo(q.op), T(q.value), T(q.cond));
}

// Blocks to and from one piece, in memory of the host.
void spread(char *to, size_t stride, const char *from, size_t bytes, size_t n) {
  for (size_t i = 0; i < n; i++) copy(to + i * stride, from + i * bytes, bytes);
}
void gather(char *to, const char *from, size_t stride, size_t bytes, size_t n) {
  for (size_t i = 0; i < n; i++) memcpy(to + i * bytes, from + i * stride, bytes);
}

// In memory that this processor reaches. Gives what was there before.
uint64_t store(const Question &q, const char *follows) {
  auto *const p = reinterpret_cast<char *>(registered[q.region].span->base + q.offset);
  if (q.kind == put_blocks) return spread(p, q.stride, follows, q.value, q.cond), 0;
  return q.bytes == 1   ? apply<uint8_t>(p, q)
         : q.bytes == 2 ? apply<uint16_t>(p, q)
         : q.bytes == 4 ? apply<uint32_t>(p, q)
                        : apply<uint64_t>(p, q);
}

// Whether all that is named is inside of the region; what no PE of this job sends is not obeyed.
bool inside(const Question &q, size_t follows) {
  if (q.region >= std::size(registered) || !registered[q.region].span) return false;
  if (q.kind == keys) return q.region == 0 || q.region >= regions;
  const size_t size = registered[q.region].span->size;
  if (q.offset > size) return false;
  const size_t room = size - q.offset;
  if (q.kind == atomic_op)
    return (q.bytes == 1 || q.bytes == 2 || q.bytes == 4 || q.bytes == 8) &&
           (registered[q.region].span->base + q.offset) % q.bytes == 0 && q.bytes <= room &&
           follows == 0;
  const size_t bytes = q.value, n = q.cond;
  if (bytes == 0 || n == 0 || bytes > piece || n > piece || bytes * n > piece || bytes > room ||
      (n > 1 && q.stride > (room - bytes) / (n - 1)))
    return false;
  return follows == (q.kind == put_blocks ? bytes * n : 0);
}

// Our keys, and where our memory is: of all regions, which are asked for as 0, or of one part.
int keys_of(int region) {
  return region < regions ? regions : 1;
}
size_t pack_keys(int region, char *packed, size_t room) {
  Keys k{};
  size_t at = sizeof k;
  for (int i = 0; i < keys_of(region); i++) {
    const Registered &r = registered[region + i];
    k.base[i] = r.span->base;
    if (!r.memory) continue;
    void *key;
    size_t n;
    must(ucp_rkey_pack(context, r.memory, &key, &n), "ucp_rkey_pack");
    if (at + n > room) fatal("a key of memory of %zu bytes: more than expected", n);
    memcpy(packed + at, key, n);
    k.length[i] = uint32_t(n);
    at += n;
    ucp_rkey_buffer_release(key);
  }
  memcpy(packed, &k, sizeof k);
  return at;
}
void unpack_keys(Peer &peer, int region, const char *packed, size_t bytes) {
  TheirPart *const part = region < regions ? nullptr : registered[region].theirs + (&peer - peers);
  std::atomic<bool> &known = part ? part->known : peer.known;
  if (known) return; // two threads have asked
  Keys k;
  size_t at = sizeof k;
  if (bytes < sizeof k) fatal("keys of memory that are cut off");
  memcpy(&k, packed, sizeof k);
  for (int i = 0; i < keys_of(region); i++) {
    Theirs &theirs = part ? *part : peer.region[i];
    theirs.base = k.base[i];
    if (k.length[i] > bytes - at) fatal("keys of memory that are cut off");
    if (k.length[i])
      must(ucp_ep_rkey_unpack(peer.ep, packed + at, &theirs.key), "ucp_ep_rkey_unpack");
    at += k.length[i];
  }
  known.store(true, std::memory_order_release);
}

bool is_set(const Question &q) {
  return q.kind == atomic_op && Amo(q.op) == Amo::set;
}
// In the largest words that there are.
void add_stores(std::vector<device::Stores::One> &all, uint64_t p, const char *from, size_t bytes) {
  while (bytes) {
    const size_t unit = std::min(size_t(1) << std::countr_zero(p | 8), std::bit_floor(bytes));
    device::Stores::One one = device::Stores::One::at(p, unit);
    memcpy(&one.value, from, unit);
    all.push_back(one);
    p += unit, from += unit, bytes -= unit;
  }
}
// Gives those that are the GPU's.
std::vector<device::Stores::One> store_all(size_t n, const char *follows, size_t length) {
  std::vector<device::Stores::One> far;
  for (Question q; n-- && length >= sizeof q;) {
    memcpy(&q, follows, sizeof q);
    follows += sizeof q, length -= sizeof q;
    const size_t data = q.kind == put_blocks ? q.value * q.cond : 0;
    if (q.kind > put_blocks || data > length || !inside(q, data)) break;
    if (!registered[q.region].far)
      store(q, follows);
    else if (const uint64_t p = registered[q.region].span->base + q.offset; is_set(q))
      add_stores(far, p, reinterpret_cast<const char *>(&q.value), q.bytes);
    else if (q.kind == put_blocks && q.cond == 1)
      add_stores(far, p, follows, data);
    else
      break;
    follows += std::min(length, padded(data)), length -= std::min(length, padded(data));
  }
  return far;
}

struct Asked : gpu::Task {
  ucp_ep_h from; // or null
  Answer answer;
  void done() override {
    if (!from) return;
    if (kind == atomic && !(answer.id & store_id)) answer.value = value;
    std::lock_guard guard(lock);
    message(from, answer_id, &answer, sizeof answer, data.get(), kind == get ? bytes * n : 0, 0);
  }
};

// What UCX calls, under the lock. What is shorter than its head, no PE of this job has sent.
template <class Head, void take(const Head &, const char *follows, size_t length, ucp_ep_h from)>
ucs_status_t received(void *, const void *, size_t, void *data, size_t length,
                      const ucp_am_recv_param_t *param) {
  Head head;
  if (length < sizeof head || param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) return UCS_OK;
  memcpy(&head, data, sizeof head);
  take(head, static_cast<char *>(data) + sizeof head, length - sizeof head,
       param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP ? param->reply_ep : nullptr);
  return UCS_OK;
}

void on_question(const Question &q, const char *follows, size_t length, ucp_ep_h from) {
  if (q.kind > end_of_job || (q.kind <= keys && !inside(q, length))) return;
  Answer a{q.id, q.clock};
  static char behind[piece]; // one thread at a time, under the lock
  size_t bytes = 0;
  char *const p = q.kind <= get_blocks
                      ? reinterpret_cast<char *>(registered[q.region].span->base + q.offset)
                      : nullptr;
  if (p && registered[q.region].far) {
    auto task = std::make_unique<Asked>();
    task->from = from;
    task->answer = a;
    task->p = p;
    if (q.kind == atomic_op) {
      task->kind = gpu::Task::atomic;
      task->op = Amo(q.op), task->bytes = q.bytes, task->value = q.value, task->cond = q.cond;
    } else {
      task->kind = q.kind == put_blocks ? gpu::Task::put : gpu::Task::get;
      task->bytes = q.value, task->n = q.cond, task->stride = q.stride;
    }
    if (length) {
      task->data.reset(new char[length]);
      memcpy(task->data.get(), follows, length);
    }
    return gpu::start(std::move(task));
  }
  switch (q.kind) {
  case atomic_op:
  case put_blocks:
    if (const uint64_t seen = store(q, follows); !(q.id & store_id)) a.value = seen;
    break;
  case stores:
    if (const auto far = store_all(q.value, follows, length); !far.empty()) {
      auto task = std::make_unique<Asked>();
      task->from = from;
      task->answer = a;
      task->kind = gpu::Task::stores;
      task->n = far.size();
      task->data.reset(new char[far.size() * sizeof far[0]]);
      memcpy(task->data.get(), far.data(), far.size() * sizeof far[0]);
      return gpu::start(std::move(task));
    }
    break;
  case get_blocks:
    gather(behind, p, q.stride, q.value, q.cond);
    bytes = q.cond * q.value;
    break;
  case keys:
    bytes = pack_keys(q.region, behind, sizeof behind);
    break;
  case end_of_job:
    ended_elsewhere(int(q.value));
    break;
  default: // a pulse: the answer is all
    break;
  }
  if (from) message(from, answer_id, &a, sizeof a, behind, bytes, 0);
}

void on_answer(const Answer &a, const char *follows, size_t length, ucp_ep_h) {
  if (a.id & store_id) {
    const uint64_t pe = uint32_t(a.id), lane = (a.id & ~store_id) >> lane_shift;
    if (pe >= uint64_t(self.n) || lane >= lanes) return;
    uint64_t &done = peers[pe].stored[lane].done;
    done = std::max(done, a.value);
    return tell_quiet();
  }
  auto found = waiting.find(a.id);
  if (found == waiting.end()) return;
  Waiting *w = found->second;
  if (w->data && w->bytes != length) return;
  waiting.erase(found);
  w->value = a.value;
  if (w->peer) unpack_keys(*w->peer, w->region, follows, length);
  if (w->data) memcpy(w->data, follows, length);
  if (w->then) {
    w->then(w->arg, a.value);
    delete w;
  } else {
    w->done->store(true, std::memory_order_release);
  }
}

// Under the lock. The answer finds w.
void send(int pe, Question q, Waiting *w) {
  q.id = ++last_id;
  waiting.emplace(q.id, w);
  message(endpoint(pe), question_id, &q, sizeof q, nullptr, 0, UCP_AM_SEND_FLAG_REPLY);
}

uint64_t ask(int pe, const Question &q, Peer *peer = nullptr, void *data = nullptr,
             size_t bytes = 0) {
  std::atomic<bool> done{false};
  Waiting w{0, peer, q.region, data, bytes, &done};
  {
    std::lock_guard guard(lock);
    send(pe, q, &w);
  }
  wait_for([&] { return !done.load(std::memory_order_acquire); });
  return w.value;
}

Lane lane_of(const Question &q, bool whole) {
  return !registered[q.region].far ? whole ? in_order : by_host
         : q.kind == atomic_op && !gpu::Task::is_copy(Amo(q.op), q.bytes) ? by_gpu
                                                                          : by_copy;
}

// A store, on that lane. Gives when it was begun.
uint64_t tell_at_once(int pe, Lane lane, Question q, const void *data, size_t bytes) {
  // What the other end does not take yet is memory here.
  if (unsent.load(std::memory_order_relaxed) > most_unsent)
    wait_for([] { return unsent.load(std::memory_order_relaxed) > most_unsent / 2; });
  std::lock_guard guard(lock);
  Peer &peer = peers[pe];
  q.id = store_id | uint64_t(lane) << lane_shift | uint64_t(pe);
  q.clock = tick(peer, peer.stored[lane]);
  message(endpoint(pe), question_id, &q, sizeof q, data, bytes,
          lane == in_order ? 0 : UCP_AM_SEND_FLAG_REPLY);
  return q.clock;
}

} // namespace

void gather_stores(bool on) {
  delete pack;
  pack = on ? new Pack : nullptr;
}
void send_gathered() {
  if (!pack || !pack->n) return;
  tell_at_once(pack->pe, pack->far ? by_copy : by_host, {.kind = stores, .value = pack->n},
               pack->data, pack->bytes);
  pack->n = pack->bytes = 0;
}

namespace {

// Done at the next quiet. Gives when it was begun. whole: a message of one fragment, of which UCX
// keeps the order; larger ones may go by several interfaces.
uint64_t tell(int pe, Question q, bool whole, const void *data = nullptr, size_t bytes = 0) {
  const Lane lane = lane_of(q, whole);
  const bool far =
      lane == by_copy && (is_set(q) || (q.kind == put_blocks && q.cond == 1 && bytes <= most_far));
  if (!pack || (lane != in_order && !far)) return tell_at_once(pe, lane, q, data, bytes);
  const size_t all = sizeof q + padded(bytes);
  if (pack->pe != pe || pack->far != far || all > pack_bytes - pack->bytes) send_gathered();
  char *const at = pack->data + pack->bytes;
  memcpy(at, &q, sizeof q);
  if (bytes) memcpy(at + sizeof q, data, bytes);
  pack->pe = pe, pack->far = far, pack->n++, pack->bytes += all;
  return 0;
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
  handle(question_id, received<Question, on_question>);
  handle(answer_id, received<Answer, on_answer>);
}

const Theirs &reach(int pe, int region) {
  Peer &peer = peers[pe];
  TheirPart *const part = region < regions ? nullptr : registered[region].theirs + pe;
  if (!(part ? part->known : peer.known).load(std::memory_order_acquire)) [[unlikely]]
    ask(pe, {.kind = keys, .region = uint16_t(part ? region : 0)}, &peer);
  return part ? *part : peer.region[region];
}

void pulse_in_order(Peer &peer) {
  const int pe = int(&peer - peers);
  peer.pulsed = peer.stored[in_order].last;
  const Question q{.id = store_id | uint64_t(in_order) << lane_shift | uint64_t(pe),
                   .clock = peer.pulsed,
                   .kind = pulse};
  message(endpoint(pe), question_id, &q, sizeof q, nullptr, 0, UCP_AM_SEND_FLAG_REPLY);
}

void ask_pulse(int pe, std::atomic<bool> *answered) {
  static Waiting w{}; // one at a time
  std::lock_guard guard(lock);
  w.done = answered;
  *answered = false;
  send(pe, {.kind = pulse}, &w);
}

static Question about(void *p, int pe, Amo op, size_t bytes, uint64_t value, uint64_t cond) {
  const Name name = name_of(p, pe);
  return {.kind = atomic_op,
          .op = uint8_t(op),
          .bytes = uint8_t(bytes),
          .region = uint16_t(name.region),
          .offset = name.offset,
          .value = value,
          .cond = cond};
}
uint64_t atomic(void *p, int pe, Amo op, size_t bytes, uint64_t value, uint64_t cond) {
  const Question q = about(p, pe, op, bytes, value, cond);
  return ask(pe, q);
}
void atomic_later(void *p, int pe, Amo op, size_t bytes, uint64_t value, uint64_t cond,
                  void (*then)(void *, uint64_t), void *arg) {
  const Question q = about(p, pe, op, bytes, value, cond);
  if (!then) {
    tell(pe, q, true);
    return;
  }
  auto *w = new Waiting{.then = then, .arg = arg};
  std::lock_guard guard(lock);
  send(pe, q, w);
}

void move_by_message(Way way, const Name &there, int pe, void *here, const Blocks &b) {
  const std::unique_ptr<char[]> data(new char[piece]);
  const size_t few = std::max<size_t>(1, piece / b.bytes); // blocks in a message, or a part of one
  const bool whole = b.n * b.bytes <= small_block;
  unsigned pieces = 0;
  for (size_t i = 0; i < b.n; i += few)
    for (size_t at = 0; at < b.bytes; at += piece) {
      const size_t n = std::min(few, b.n - i), bytes = std::min(piece, b.bytes - at);
      const Question q{.kind = way == Way::put ? put_blocks : get_blocks,
                       .region = uint16_t(there.region),
                       .offset = there.offset + i * b.there + at,
                       .value = bytes,
                       .cond = n,
                       .stride = b.there};
      char *const p = static_cast<char *>(here) + i * b.here + at;
      if (way == Way::get) {
        ask(pe, q, nullptr, data.get(), bytes * n);
        if (!gpu::is_device_only(p))
          spread(p, b.here, data.get(), bytes, n);
        else if (n == 1)
          gpu::copy(p, data.get(), bytes);
        else
          gpu::copy_2d(p, b.here, data.get(), bytes, bytes, n);
        continue;
      }
      if (!gpu::is_device_only(p))
        gather(data.get(), p, b.here, bytes, n);
      else if (n == 1)
        gpu::copy(data.get(), p, bytes);
      else
        gpu::copy_2d(data.get(), bytes, p, b.here, bytes, n);
      const uint64_t begun = tell(pe, q, whole, data.get(), bytes * n);
      // So that no more than a megabyte is on its way.
      if (++pieces % 16 == 0)
        wait_for([=] {
          std::lock_guard guard(lock);
          return !peers[pe].answers(begun);
        });
    }
}

void put_message(const Name &there, int pe, const void *here, size_t bytes) {
  const Question q{.kind = put_blocks,
                   .region = uint16_t(there.region),
                   .offset = there.offset,
                   .value = bytes,
                   .cond = 1};
  tell(pe, q, true, here, bytes);
}

// Answered, so that no connection is half made when this process ends: UCX 1.13 aborts the peer of
// such a one (2026-11-22).
void tell_exit(int status) {
  if (!worker) return;
  static std::vector<std::atomic<bool>> answered(size_t(self.n)); // late answers may still come
  std::vector<int> told;
  {
    std::lock_guard guard(lock);
    Question q{.kind = end_of_job, .value = uint64_t(uint32_t(status))};
    for (int pe = 0; pe < self.n; pe++)
      if (first_of(pe) == pe && pe != self.node_first) {
        q.id = ++last_id;
        waiting.emplace(q.id, new Waiting{.done = &answered[size_t(pe)]});
        message(endpoint(pe), question_id, &q, sizeof q, nullptr, 0, UCP_AM_SEND_FLAG_REPLY);
        told.push_back(pe);
      }
  }
  for (int tries = 0; tries < 1000; tries++) {
    progress();
    if (std::all_of(told.begin(), told.end(), [&](int pe) { return answered[size_t(pe)].load(); }))
      return;
    usleep(1000);
  }
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
