// SPDX-License-Identifier: MIT
// Batches: small stores to one PE that travel in one message. A batch is for a processor there, or
// for the GPU, which gets it as single words.
#include "message.hpp"

namespace shmem::net {

namespace {

// The most bytes of a batch, and of a put in one for the GPU: kernels put at most 40 bytes in a
// request, and a few more cost a kernel no more.
constexpr size_t batch_bytes = 16 << 10, most_for_gpu = 64;

struct Stores {
  int pe = -1;
  bool for_gpu = false;
  size_t n = 0, bytes = 0;
  char data[batch_bytes];
};
thread_local Stores *batch; // null: this thread's stores go one by one

size_t padded(size_t bytes) {
  return round_up(bytes, sizeof(uint64_t));
}

bool is_set(const Operation &op) {
  return op.kind == Operation::atomic && op.amo == Amo::set;
}
bool is_one_block(const Operation &op) {
  return op.kind == Operation::put && op.transfer.count == 1;
}

// As stores of the largest words that fit.
void add_words(std::vector<device::DeferredStores::One> &all, uintptr_t p, const void *data,
               size_t bytes) {
  for (auto *from = static_cast<const char *>(data); bytes;) {
    const size_t width = std::min(size_t(1) << std::countr_zero(p | 8), std::bit_floor(bytes));
    auto &store = all.emplace_back(device::DeferredStores::One::at(p, width));
    memcpy(&store.value, from, width);
    p += width, from += width, bytes -= width;
  }
}

} // namespace

void batch_stores(bool on) {
  delete batch;
  batch = on ? new Stores : nullptr;
}

void send_batch() {
  if (!batch || !batch->n) return;
  send_store(batch->pe, batch->for_gpu ? by_engine : by_host, StoreBatch{{}, batch->n}, batch->data,
             batch->bytes);
  batch->n = batch->bytes = 0;
}

bool add_to_batch(int pe, Lane lane, const Operation &op, const void *data, size_t bytes) {
  const bool for_gpu =
      lane == by_engine && (is_set(op) || (is_one_block(op) && bytes <= most_for_gpu));
  if (!batch || (lane != in_order && !for_gpu)) return false;
  const size_t all = sizeof op + padded(bytes);
  if (batch->pe != pe || batch->for_gpu != for_gpu || all > batch_bytes - batch->bytes)
    send_batch();
  char *const at = batch->data + batch->bytes;
  memcpy(at, &op, sizeof op);
  if (bytes) memcpy(at + sizeof op, data, bytes);
  batch->pe = pe, batch->for_gpu = for_gpu, batch->n++, batch->bytes += all;
  return true;
}

static void on(const StoreBatch &b, MessageData data, ucp_ep_h from) {
  if (!from) return;
  std::vector<device::DeferredStores::One> for_gpu;
  Operation op;
  for (uint64_t n = b.count; n-- && data.bytes >= sizeof op;) {
    memcpy(&op, data.p, sizeof op);
    data.p += sizeof op, data.bytes -= sizeof op;
    const size_t bytes = op.kind == Operation::put ? op.transfer.bytes * op.transfer.count : 0;
    if (op.kind == Operation::get || bytes > data.bytes || !is_valid(op, bytes)) break;
    const bool device_only = registered[op.region].device_only;
    if (!device_only)
      do_store(op, data.p);
    else if (is_set(op))
      add_words(for_gpu, uintptr_t(address_of(op)), &op.operands.value, op.width);
    else if (is_one_block(op))
      add_words(for_gpu, uintptr_t(address_of(op)), data.p, bytes);
    else
      break;
    const size_t all = std::min(data.bytes, padded(bytes));
    data.p += all, data.bytes -= all;
  }
  if (for_gpu.empty()) return send(from, b.receipt, false);
  auto work = deferred_store(b.receipt, from);
  work->stores = std::move(for_gpu);
  gpu::defer(std::move(work));
}

static Handles<StoreBatch> handles;

} // namespace shmem::net
