// SPDX-License-Identifier: MIT
// PEs of other nodes by UCX: one context and one worker, whose lock is ours, because not every UCX is built
// for several threads. Endpoints are made and keys of memory fetched on first use.
#include "../exit.hpp"
#include "../log.hpp"
#include "../net.hpp"
#include "../team.hpp"
#include "built.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <ucp/api/ucp.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace shmem::net {

namespace {

constexpr int max_far_pes = 1 << 18; // a tag has 18 bits for a PE, see coll/nodes.hpp
constexpr int regions = 2;           // heap and data

// What a PE tells all others, once a node in the segment.
struct Entry {
  char version[16];
  uint64_t heap, data; // bytes
  int first;           // PE of its node
  int node;            // filled by who reads it
  int length;
  char address[212];
};
static_assert(sizeof(Entry) == 256);

Entry *book() {
  return static_cast<Entry *>(self.book);
}

ucp_context_h context;
ucp_worker_h worker;
ucp_mem_h memory[regions];
std::mutex lock;           // of the worker
std::atomic<bool> leaving; // a connection that ends is no fault
std::atomic<bool> ends;    // another node has ended the job, with this status
int ending;
int stop_fd = -1;
pthread_t server;

// A peer of another node. Untouched ones take no memory.
struct Peer {
  ucp_ep_h ep;
  ucp_rkey_h key[regions];
  uint64_t base[regions];
  std::atomic<bool> known; // keys and bases
};
Peer *peers;

void must(ucs_status_t status, const char *what) {
  if (status != UCS_OK) fatal("%s: %s", what, ucs_status_string(status));
}

const Region &region(int i) {
  return i == 0 ? self.heap : self.data;
}
int region_of(const void *p) {
  return self.data.has(p);
}

// What is asked of a PE, and its answer.
enum Kind : uint8_t { atomic_op, keys, end_of_job };
struct Question {
  uint64_t id; // of who waits for the answer, or 0
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

struct Waiting {
  uint64_t value;
  Peer *peer; // whose keys come
  std::atomic<bool> done;
};
std::unordered_map<uint64_t, Waiting *> waiting; // under the lock
uint64_t last_id;
std::atomic<uint64_t> unanswered; // stores that nobody waits for but quiet
// Puts and gets begun, and how many of them are known to be done.
std::atomic<uint64_t> begun, ended;

// Peers may be gone.
bool over() {
  return leaving || ends || self.exiting || self.job->exit || self.job->dead;
}

// A request that counts itself down, or nothing.
void done(void *request, ucs_status_t status, void *count) {
  if (status != UCS_OK && !over())
    fatal("a transfer to another node: %s", ucs_status_string(status));
  if (count) static_cast<std::atomic<int> *>(count)->fetch_sub(1, std::memory_order_release);
  ucp_request_free(request);
}
ucp_request_param_t counted(std::atomic<int> *count) {
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.cb.send = done;
  p.user_data = count;
  return p;
}
// What was begun may be done at once; then no callback comes.
void began(ucs_status_ptr_t request, std::atomic<int> *count, const char *what) {
  if (UCS_PTR_IS_ERR(request) && !over()) must(UCS_PTR_STATUS(request), what);
  if (!UCS_PTR_IS_PTR(request) && count) count->fetch_sub(1, std::memory_order_release);
}

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
  p.cb.send = [](void *request, ucs_status_t status, void *all) {
    free(all);
    done(request, status, nullptr);
  };
  // All of it is data: a header has a limit.
  ucs_status_ptr_t request = ucp_am_send_nbx(ep, id, nullptr, 0, all, bytes + data_bytes, &p);
  if (UCS_PTR_IS_ERR(request) && !over())
    must(UCS_PTR_STATUS(request), "a message to another node");
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
  if (q.kind == end_of_job) {
    ending = int(q.value);
    ends = true;
  }
  if (q.kind == atomic_op) {
    const size_t b = q.bytes;
    if (q.region >= regions || (b != 1 && b != 2 && b != 4 && b != 8) || q.offset % b ||
        q.offset > region(q.region).size || region(q.region).size - q.offset < b)
      return UCS_OK;
    void *p = reinterpret_cast<void *>(region(q.region).base + q.offset);
    a.value = b == 1   ? apply<uint8_t>(p, q)
              : b == 2 ? apply<uint16_t>(p, q)
              : b == 4 ? apply<uint32_t>(p, q)
                       : apply<uint64_t>(p, q);
  } else if (q.kind == keys) {
    for (int i = 0; i < regions; i++) {
      void *key;
      size_t n;
      a.base[i] = region(i).base;
      if (region(i).size == 0) continue;
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
  if (a.id == 0) {
    unanswered.fetch_sub(1, std::memory_order_release);
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

// A PE that is gone is what its launcher says, too; here it is known at once.
void lost(void *arg, ucp_ep_h, ucs_status_t status) {
  // The job may be ending there already, and who ends it is about to say so here.
  for (int tries = 0; tries < 30 && !over(); tries++) usleep(10000);
  if (over()) return;
  last_word("PE %d, on another node: %s: the job ends", int(static_cast<Peer *>(arg) - peers),
            ucs_status_string(status));
  end_job(1);
}

// Under the lock.
ucp_ep_h endpoint(int pe) {
  Peer &peer = peers[pe];
  if (peer.ep) return peer.ep;
  ucp_ep_params_t p{};
  p.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                 UCP_EP_PARAM_FIELD_ERR_HANDLER;
  p.address = reinterpret_cast<const ucp_address_t *>(book()[pe].address);
  p.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  p.err_handler = {lost, &peer};
  const ucs_status_t status = ucp_ep_create(worker, &p, &peer.ep);
  if (status != UCS_OK)
    fatal("PE %d, on another node, cannot be reached: %s: UCX_NET_DEVICES and UCX_TLS choose the "
          "ways",
          pe, ucs_status_string(status));
  return peer.ep;
}

// Until f() is false, which others make so.
template <class F> void wait_for(F &&f) {
  wait_while({nullptr, false}, [&] {
    progress();
    return f();
  });
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

Peer &reach(int pe) {
  Peer &peer = peers[pe];
  if (!peer.known.load(std::memory_order_acquire)) [[unlikely]]
    ask(pe, {0, keys, Op::load, 0, 0, 0, 0, 0}, &peer);
  return peer;
}

// Begins one transfer. Under the lock.
template <class F> void begin(const Peer &peer, const void *there, std::atomic<int> *count, F f) {
  const int r = region_of(there);
  const uint64_t at = peer.base[r] + (uintptr_t(there) - region(r).base);
  const ucp_request_param_t p = counted(count);
  begun.fetch_add(1, std::memory_order_relaxed);
  if (count) count->fetch_add(1, std::memory_order_relaxed);
  began(f(at, peer.key[r], p), count, "a transfer to another node");
}

void *serve(void *) {
  int events;
  must(ucp_worker_get_efd(worker, &events), "ucp_worker_get_efd");
  pollfd fds[2] = {{events, POLLIN, 0}, {stop_fd, POLLIN, 0}};
  for (;;) {
    unsigned n = 0;
    ucs_status_t status;
    {
      std::lock_guard guard(lock);
      while (ucp_worker_progress(worker)) n++;
      status = ucp_worker_arm(worker);
    }
    if (ends && status != UCS_ERR_BUSY) { // the answer is out
      leaving = true;
      claim_exit(ending);
      return nullptr;
    }
    // Who sleeps until an object of its own changes hears nothing of what is stored from here.
    if (n) ring({nullptr, false});
    if (status == UCS_ERR_BUSY) continue;
    if (poll(fds, 2, -1) > 0 && fds[1].revents) return nullptr;
  }
}

} // namespace

void check(const bootstrap::Place &place) {
  if (place.elsewhere < 0) return;
  if (place.n > max_far_pes)
    fatal_all("%d PEs on several nodes: this build takes at most %d", place.n, max_far_pes);
  if (place.stride == 0)
    fatal_all("the PEs of this node are not at equal distances: place them by slot or by node");
}

size_t book_bytes() {
  return self.one_node() ? 0 : size_t(self.n) * sizeof(Entry);
}

int node_of(int pe) {
  return book()[pe].node;
}

namespace {

void make_worker() {
  ucp_config_t *config;
  must(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = size_t(self.n);
  must(ucp_init(&params, config, &context), "ucp_init");
  ucp_config_release(config);
  ucp_worker_params_t w{};
  w.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  w.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  must(ucp_worker_create(context, &w, &worker), "ucp_worker_create");
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
  for (int i = 0; i < regions; i++) {
    if (region(i).size == 0) continue;
    ucp_mem_map_params_t m{};
    m.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                   UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    m.address = reinterpret_cast<void *>(region(i).base);
    m.length = region(i).size;
    m.flags = UCP_MEM_MAP_NONBLOCK;
    must(ucp_mem_map(context, &m, &memory[i]), "ucp_mem_map of the symmetric memory");
  }
}

void show_address() {
  ucp_worker_attr_t attr{};
  attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  attr.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY; // what is on this node is mapped
  must(ucp_worker_query(worker, &attr), "ucp_worker_query");
  Entry mine{};
  if (attr.address_length > sizeof mine.address)
    fatal_all("the address of a PE takes %zu bytes, there are %zu: name fewer interfaces in "
              "UCX_NET_DEVICES",
              attr.address_length, sizeof mine.address);
  snprintf(mine.version, sizeof mine.version, "%s", SHMEM_LIBRARY_VERSION);
  mine.heap = self.heap.size;
  mine.data = self.data.size;
  mine.first = self.node_first;
  mine.length = int(attr.address_length);
  memcpy(mine.address, attr.address, attr.address_length);
  ucp_worker_release_address(worker, attr.address);
  bootstrap::show(&mine, sizeof mine);
}

void read_book() {
  const Entry *all = book();
  int nodes = 0;
  for (int pe = 0; pe < self.n; pe++) {
    Entry &e = book()[pe];
    bootstrap::seen(pe, &e, sizeof e);
    e.node = e.first == pe ? nodes++ : all[e.first].node;
    if (strncmp(e.version, SHMEM_LIBRARY_VERSION, sizeof e.version) != 0)
      fatal("PE %d has version %.16s of this library, this PE %s", pe, e.version,
            SHMEM_LIBRARY_VERSION);
    if (e.data != self.data.size)
      fatal("static data of %zu bytes, but %zu in PE %d: all PEs must run the same program",
            self.data.size, size_t(e.data), pe);
    if (e.heap != self.heap.size)
      fatal("a symmetric heap of %zu bytes, but %zu in PE %d, whose node has other settings or "
            "another amount of memory: set SHMEM_SYMMETRIC_SIZE",
            self.heap.size, size_t(e.heap), pe);
  }
}

} // namespace

void open() {
  if (self.one_node()) return;
  peers = static_cast<Peer *>(calloc(size_t(self.n), sizeof(Peer)));
  if (!peers) fatal("no memory for %d peers", self.n);
  make_worker();
  show_address();
  auto &ready = self.job->book_ready;
  if (self.local == 0) {
    read_book();
    ready.store(1, std::memory_order_release);
  }
  while (!ready.load(std::memory_order_acquire)) usleep(100);
}

void start() {
  if (!worker) return;
  leaving = false;
  stop_fd = eventfd(0, EFD_CLOEXEC);
  if (int error = start_thread(&server, serve))
    fatal("starting the thread that answers other nodes: %s", strerror(error));
}

void leave() {
  if (!worker) return;
  quiet();
  shmem::sync(*self.world);
  leaving = true;
}

void stop() {
  if (!worker) return;
  begun++; // so that the messages of the last barrier are out
  quiet();
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(stop_fd, &one, sizeof one);
  pthread_join(server, nullptr);
  close(stop_fd);
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
      if (book()[pe].first == pe && pe != self.node_first) {
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
  leaving = true;
  for (auto &w : told) (void)w.release(); // a late answer may still come; the process ends
}

void progress() {
  if (!worker || !lock.try_lock()) return;
  // Nothing more once the job ends: of a peer that has gone with a connection half made UCX 1.13 makes an
  // abort (2026-11-22).
  while (!ends && ucp_worker_progress(worker)) {
  }
  lock.unlock();
}

void put_blocks(void *dest, int pe, size_t dst, const void *source, size_t sst, size_t bytes,
                size_t n) {
  if (n == 0 || bytes == 0) return;
  const Peer &peer = reach(pe);
  std::atomic<int> count{0};
  for (size_t i = 0; i < n; i++) {
    std::lock_guard guard(lock);
    const char *to = static_cast<char *>(dest) + i * dst;
    const char *from = static_cast<const char *>(source) + i * sst;
    begin(peer, to, &count, [&](uint64_t at, ucp_rkey_h key, const ucp_request_param_t &p) {
      return ucp_put_nbx(peer.ep, from, bytes, at, key, &p);
    });
  }
  wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
}

void get_blocks(void *dest, size_t dst, const void *source, int pe, size_t sst, size_t bytes,
                size_t n) {
  if (n == 0 || bytes == 0) return;
  const Peer &peer = reach(pe);
  std::atomic<int> count{0};
  for (size_t i = 0; i < n; i++) {
    std::lock_guard guard(lock);
    char *to = static_cast<char *>(dest) + i * dst;
    const char *from = static_cast<const char *>(source) + i * sst;
    begin(peer, from, &count, [&](uint64_t at, ucp_rkey_h key, const ucp_request_param_t &p) {
      return ucp_get_nbx(peer.ep, to, bytes, at, key, &p);
    });
  }
  wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
}

void put(void *dest, int pe, const void *source, size_t bytes, bool later) {
  if (!later) return put_blocks(dest, pe, 0, source, 0, bytes, 1);
  if (bytes == 0) return;
  const Peer &peer = reach(pe);
  std::lock_guard guard(lock);
  begin(peer, dest, nullptr, [&](uint64_t at, ucp_rkey_h key, const ucp_request_param_t &p) {
    return ucp_put_nbx(peer.ep, source, bytes, at, key, &p);
  });
}

void get(void *dest, const void *source, int pe, size_t bytes, bool later) {
  if (!later) return get_blocks(dest, 0, source, pe, 0, bytes, 1);
  if (bytes == 0) return;
  const Peer &peer = reach(pe);
  std::lock_guard guard(lock);
  begin(peer, source, nullptr, [&](uint64_t at, ucp_rkey_h key, const ucp_request_param_t &p) {
    return ucp_get_nbx(peer.ep, dest, bytes, at, key, &p);
  });
}

void quiet() {
  const uint64_t until = begun.load(std::memory_order_relaxed);
  if (ended.load(std::memory_order_acquire) < until) {
    std::atomic<int> count{1};
    {
      std::lock_guard guard(lock);
      const ucp_request_param_t p = counted(&count);
      began(ucp_worker_flush_nbx(worker, &p), &count, "ucp_worker_flush");
    }
    wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
    uint64_t before = ended.load();
    while (before < until && !ended.compare_exchange_weak(before, until)) {
    }
  }
  if (unanswered.load(std::memory_order_acquire))
    wait_for([] { return unanswered.load(std::memory_order_acquire) != 0; });
}

uint64_t atomic(void *p, int pe, Op op, size_t bytes, uint64_t value, uint64_t cond) {
  const int r = region_of(p);
  const Question q{0,     atomic_op, op, uint8_t(bytes), uint8_t(r), uintptr_t(p) - region(r).base,
                   value, cond};
  if (op != Op::store) return ask(pe, q, nullptr);
  std::lock_guard guard(lock);
  unanswered.fetch_add(1, std::memory_order_relaxed);
  message(endpoint(pe), question_id, &q, sizeof q, nullptr, 0, UCP_AM_SEND_FLAG_REPLY);
  return 0;
}

void Messages::send(int pe, uint64_t tag, const void *p, size_t bytes) {
  std::lock_guard guard(lock);
  const ucp_request_param_t param = counted(&open);
  open++;
  began(ucp_tag_send_nbx(endpoint(pe), p, bytes, tag, &param), &open, "a message to another node");
}

void Messages::receive(uint64_t tag, void *p, size_t bytes) {
  std::lock_guard guard(lock);
  ucp_request_param_t param = counted(&open);
  param.cb.recv = [](void *request, ucs_status_t status, const ucp_tag_recv_info_t *, void *count) {
    done(request, status, count);
  };
  open++;
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
