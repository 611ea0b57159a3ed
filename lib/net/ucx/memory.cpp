// SPDX-License-Identifier: MIT
// The memory that the network knows: regions, buffers, and the chunks of heaps that grow. Messages
// name an object by the number of such memory and an offset in it.
#include "ucx.hpp"
#include <cstdlib>

namespace shmem::net {

GrowingHeap heaps[2];
Registered registered[all_names];
bool ucx_knows_gpu;

// In a chunk of a heap that grows.
static size_t resolve_in(const GrowingHeap &heap, Operation &op, uintptr_t p) {
  const size_t at = p - heap.kept.base - heap.kept.size;
  const int first = heap.first[at / heap.unit].load(std::memory_order_relaxed);
  if (!first)
    fatal("a call for another node: %p is in no block of the symmetric heap",
          reinterpret_cast<void *>(p));
  const int r = chunks + int(&heap - heaps) * int(most_units) + first - 1;
  op.region = uint16_t(r);
  op.offset = p - registered[r].span->base;
  return registered[r].span->size - op.offset;
}
size_t resolve(Operation &op, int pe) {
  const uintptr_t address = op.offset;
  const void *const p = reinterpret_cast<const void *>(address);
  int r = 0;
  while (r < Operation::regions && !registered[r].span->has(p)) r++;
  for (const GrowingHeap &heap : heaps) {
    if (!heap.grows() || !heap.region->has(p)) continue;
    if (r == Operation::regions) return resolve_in(heap, op, address);
    op.region = uint16_t(r);
    op.offset = address - heap.kept.base;
    return heap.kept.size - op.offset;
  }
  if (r == Operation::regions) {
    const int index = buffer::index_of(p);
    // PEs outside of the buffer's team have another buffer of that index.
    if (index >= 0)
      buffer::check_at("a call for another node", "an object", p, buffer::buffers[index].region,
                       pe);
    r = index < 0 ? Operation::flags : buffers + index;
  }
  op.region = uint16_t(r);
  op.offset = address - registered[r].span->base;
  return SIZE_MAX;
}

namespace {

// Registers memory with UCX, unless that is done or of no use. what: for an error message.
void add(Registered &r, const char *what) {
  if (r.span->size == 0 || r.memory || (r.device_only && !ucx_knows_gpu)) return;
  ucp_mem_map_params_t m{};
  m.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                 UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  m.address = reinterpret_cast<void *>(r.span->base);
  m.length = r.span->size;
  // Untouched pages stay untouched. Device memory has all of its pages.
  m.flags = r.device_only ? 0 : UCP_MEM_MAP_NONBLOCK;
  const ucs_status_t status = ucp_mem_map(context, &m, &r.memory);
  if (status != UCS_OK)
    fatal("the network cannot register %zu bytes of %s on %s: %s: %s", m.length, what,
          bootstrap::host_of(self.me).name, ucs_status_string(status),
          limit_of_registrations().text);
}
const char in_heap[] = "symmetric heap (SHMEM_SYMMETRIC_SIZE)",
           in_device_heap[] = "heap in device memory (SHMEM_DEVICE_SIZE)";
void add_regions() {
  add(registered[Operation::heap], in_heap);
  add(registered[Operation::data], "static data");
  add(registered[Operation::device_heap], in_device_heap);
  add(registered[Operation::flags], "flags in device memory");
}

} // namespace

void register_regions() {
  const Span *const spans[] = {&heaps[0].kept, &self.data, &heaps[1].kept, &self.flags};
  for (int i = 0; i < Operation::regions; i++) registered[i].span = spans[i];
  heaps[0].open(self.heap, self.heap_kept);
  add_regions();
}
void unregister_regions() {
  for (int i = 0; i < Operation::regions; i++) {
    if (registered[i].memory) must(ucp_mem_unmap(context, registered[i].memory), "ucp_mem_unmap");
    registered[i] = {};
  }
  for (GrowingHeap &heap : heaps) heap.region = nullptr, heap.kept = {};
}
void destroy_keys() {
  for (int pe = 0; pe < self.n; pe++)
    for (RemoteMemory &memory : peers[pe].region)
      if (memory.key) ucp_rkey_destroy(memory.key);
}

void open_device(bool near) {
  if (!worker) return;
  ucp_context_attr_t attr{};
  attr.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  must(ucp_context_query(context, &attr), "ucp_context_query");
  std::lock_guard guard(lock);
  const uint64_t gpu = uint64_t(1) << UCS_MEMORY_TYPE_ROCM | uint64_t(1) << UCS_MEMORY_TYPE_CUDA;
  ucx_knows_gpu = attr.memory_types & gpu;
  registered[Operation::device_heap].device_only = registered[Operation::flags].device_only = !near;
  heaps[1].open(self.device, self.device_kept);
  add_regions();
  debug("device memory goes between nodes %s",
        near            ? "as host memory does"
        : ucx_knows_gpu ? "by UCX, which knows it"
                        : "by way of host memory: this UCX knows no GPU");
}

namespace {

// Buffers and chunks, under the lock.
void open_part(Registered &r, const Span *span, bool device, const char *what) {
  r.span = span;
  r.device_only = device && registered[Operation::device_heap].device_only;
  r.remote = static_cast<RemotePart *>(calloc(size_t(self.n), sizeof *r.remote));
  if (!r.remote) fatal("no memory for the keys of %d peers to %s", self.n, what);
  add(r, what);
}
void close_part(Registered &r) {
  for (int pe = 0; pe < self.n; pe++)
    if (r.remote[pe].key) ucp_rkey_destroy(r.remote[pe].key);
  free(r.remote);
  if (r.memory) must(ucp_mem_unmap(context, r.memory), "ucp_mem_unmap");
  r = {};
}

} // namespace

void open_buffer(int index, const Span &bytes, bool device) {
  std::lock_guard guard(lock);
  open_part(registered[buffers + index], &bytes, device, "a buffer of the program's own");
}
void close_buffer(int index) {
  std::lock_guard guard(lock);
  close_part(registered[buffers + index]);
}

void open_chunk(bool device, size_t from, size_t to) {
  GrowingHeap &heap = heaps[device];
  const size_t first = (from - heap.kept.size) / heap.unit,
               last = (to - 1 - heap.kept.size) / heap.unit;
  std::lock_guard guard(lock);
  open_part(registered[chunks + size_t(device) * most_units + first],
            new Span{heap.kept.base + from, to - from}, device, device ? in_device_heap : in_heap);
  for (size_t i = first; i <= last; i++)
    heap.first[i].store(uint16_t(first + 1), std::memory_order_relaxed);
}
void close_chunk(bool device, size_t from) {
  GrowingHeap &heap = heaps[device];
  const size_t first = (from - heap.kept.size) / heap.unit;
  std::lock_guard guard(lock);
  Registered &r = registered[chunks + size_t(device) * most_units + first];
  const Span *const span = r.span;
  close_part(r);
  delete span;
  for (size_t i = first; i < most_units && heap.first[i] == first + 1; i++)
    heap.first[i].store(0, std::memory_order_relaxed);
}

} // namespace shmem::net
