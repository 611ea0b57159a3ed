// SPDX-License-Identifier: MIT
// Does what other PEs request, and replies. Operations on device-only memory are deferred: the
// thread that does those sends the reply.
#include "../../copy.hpp"
#include "message.hpp"

namespace shmem::net {

namespace {

template <class T> uint64_t apply(char *p, const Operation &op) {
  const std::atomic_ref<T> a(*reinterpret_cast<T *>(p));
  const T value = T(op.operands.value);
  T compare = T(op.operands.compare);
  switch (op.amo) {
  case Amo::fetch:
    return a.load();
  case Amo::set:
    a.store(value);
    return 0;
  case Amo::swap:
    return a.exchange(value);
  case Amo::compare_swap:
    a.compare_exchange_strong(compare, value);
    return compare;
  case Amo::add:
    return a.fetch_add(value);
  case Amo::and_:
    return a.fetch_and(value);
  case Amo::or_:
    return a.fetch_or(value);
  case Amo::xor_:
    return a.fetch_xor(value);
  }
  return 0;
}

struct DeferredCall : gpu::Deferred {
  ucp_ep_h from;
  uint64_t id;
  void done() override {
    const bool gets = op.kind == Operation::get;
    const std::lock_guard guard(lock);
    send(from, RemoteReply{id, gets ? 0 : op.operands.value}, false, data.get(),
         gets ? op.transfer.bytes * op.transfer.count : 0);
  }
};
struct DeferredStore : gpu::Deferred {
  ucp_ep_h from;
  Receipt receipt;
  void done() override {
    const std::lock_guard guard(lock);
    send(from, receipt, false);
  }
};
void defer(std::unique_ptr<gpu::Deferred> work, const Operation &op, MessageData data) {
  work->op = op;
  work->p = address_of(op);
  if (data.bytes) {
    work->data.reset(new char[data.bytes]);
    memcpy(work->data.get(), data.p, data.bytes);
  }
  gpu::defer(std::move(work));
}

} // namespace

std::unique_ptr<gpu::Deferred> deferred_store(const Receipt &receipt, ucp_ep_h from) {
  auto work = std::make_unique<DeferredStore>();
  work->from = from;
  work->receipt = receipt;
  return work;
}

void spread(char *to, size_t stride, const char *from, size_t bytes, size_t n) {
  for (size_t i = 0; i < n; i++) copy(to + i * stride, from + i * bytes, bytes);
}
void gather(char *to, const char *from, size_t stride, size_t bytes, size_t n) {
  for (size_t i = 0; i < n; i++) memcpy(to + i * bytes, from + i * stride, bytes);
}

bool is_valid(const Operation &op, size_t data) {
  if (op.region >= std::size(registered) || !registered[op.region].span) return false;
  const size_t size = registered[op.region].span->size;
  if (op.offset > size) return false;
  const size_t room = size - op.offset;
  if (op.kind == Operation::atomic)
    return std::has_single_bit(op.width) && op.width <= 8 && op.width <= room && data == 0 &&
           uintptr_t(address_of(op)) % op.width == 0;
  if (op.kind != Operation::put && op.kind != Operation::get) return false;
  const auto [bytes, n, stride, here] = static_cast<const Blocks &>(op.transfer);
  return bytes > 0 && n > 0 && bytes <= piece && n <= piece && bytes * n <= piece &&
         bytes <= room && (n == 1 || stride <= (room - bytes) / (n - 1)) &&
         data == (op.kind == Operation::put ? bytes * n : 0);
}

uint64_t do_store(const Operation &op, const char *data) {
  char *const p = address_of(op);
  if (op.kind == Operation::put) {
    const Blocks &b = op.transfer;
    spread(p, b.remote_stride, data, b.bytes, b.count);
    return 0;
  }
  return op.width == 1   ? apply<uint8_t>(p, op)
         : op.width == 2 ? apply<uint16_t>(p, op)
         : op.width == 4 ? apply<uint32_t>(p, op)
                         : apply<uint64_t>(p, op);
}

static void on(const RemoteCall &c, MessageData data, ucp_ep_h from) {
  const Operation &op = c.op;
  if (!from || op.kind == Operation::put || !is_valid(op, data.bytes)) return;
  if (registered[op.region].device_only) {
    auto work = std::make_unique<DeferredCall>();
    work->from = from;
    work->id = c.id;
    return defer(std::move(work), op, data);
  }
  if (op.kind == Operation::atomic)
    return send(from, RemoteReply{c.id, do_store(op, nullptr)}, false);
  static char packed[piece]; // under the lock
  const Blocks &b = op.transfer;
  gather(packed, address_of(op), b.remote_stride, b.bytes, b.count);
  send(from, RemoteReply{c.id, 0}, false, packed, b.bytes * b.count);
}

// A store of lane in_order has no `from`: its receipt is a later pulse's.
static void on(const RemoteStore &s, MessageData data, ucp_ep_h from) {
  if (s.op.kind == Operation::get || !is_valid(s.op, data.bytes)) return;
  const bool device_only = registered[s.op.region].device_only;
  if (device_only && from) return defer(deferred_store(s.receipt, from), s.op, data);
  if (device_only) return;
  do_store(s.op, data.p);
  if (from) send(from, s.receipt, false);
}

static void on(const Pulse &p, MessageData, ucp_ep_h from) {
  if (from) send(from, p.receipt, false);
}
static void on(const AliveRequest &a, MessageData, ucp_ep_h from) {
  if (from) send(from, RemoteReply{a.id, 0}, false);
}
static void on(const EndOfJob &e, MessageData, ucp_ep_h from) {
  watched.status = e.status;
  watched.ends = true; // the reply may not be out yet
  if (from) send(from, RemoteReply{e.id, 0}, false);
}

static Handles<RemoteCall, RemoteStore, Pulse, AliveRequest, EndOfJob> handles;

} // namespace shmem::net
