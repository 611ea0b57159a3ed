// SPDX-License-Identifier: MIT
#include "heap.hpp"
#include "../bind.hpp"
#include "../copy.hpp"
#include "../gpu/choice.hpp"
#include "../gpu/copy.hpp"
#include "../gpu/grow.hpp"
#include "../gpu/heap.hpp"
#include "../log.hpp"
#include "../net.hpp"
#include "../order.hpp"
#include "alloc.hpp"
#include "chunks.hpp"
#include "segment.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <shmemx.h>
#include <sys/mman.h>

namespace shmem {

namespace {

// One for host memory, one for device memory.
struct OwnHeap {
  const Region &region;
  const size_t &kept; // all of it, where it does not grow
  const char *name;
  Alloc alloc;
  Chunks chunks;
  char *at(size_t offset) const { return reinterpret_cast<char *>(region.base) + offset; }
};
// No two blocks share a line of x86's caches.
OwnHeap host_heap{self.heap, self.heap_kept, "the symmetric heap", Alloc(64), {}};
// As hipMalloc and cudaMalloc align. Blocks on 64 bytes begin in the middle of a line of the GPU's
// caches: of 128 MiB on 2 H200s an all-reduce took 409 us in place of 395, a reduce-scatter 227 in
// place of 215, and PyTorch's two-shot all-reduce 426 in place of 406 (2026-11-29).
OwnHeap device_heap{
    self.device, self.device_kept, "the symmetric heap in device memory", Alloc(256), {}};
std::mutex heap_mutex; // SHMEM_CHECK looks at the heaps from any thread

// Where a block with these hints lies.
OwnHeap &heap_for(long hints) {
  if (hints & SHMEMX_MALLOC_HOST) return host_heap;
  return hints & SHMEMX_MALLOC_DEVICE || self.device_main ? device_heap : host_heap;
}

// Huge pages save faults and address translation, but commit 2 MiB at the first touch: only for
// blocks that hold several.
void advise(char *p, size_t bytes) {
  constexpr size_t huge = 2 << 20;
  if (bytes < 8 * huge) return;
  uintptr_t from = round_up(uintptr_t(p), huge), to = (uintptr_t(p) + bytes) & ~(huge - 1);
  madvise(reinterpret_cast<void *>(from), to - from, MADV_HUGEPAGE);
}

// A dump has the heap up to where blocks have been, which is one range: blocks of their own would
// be thousands.
size_t dumped;
void dump_upto(size_t end) {
  constexpr size_t step = 2 << 20;
  std::lock_guard guard(heap_mutex);
  if (end <= dumped) return;
  const size_t upto = std::min(round_up(end, step), self.heap.size);
  segment::dump_heap(dumped, upto);
  dumped = upto;
}

void barrier() {
  full_fence(); // the quiet of the default context
  if (self.careful) finish();
  sync(*self.world);
}

// Under SHMEM_CHECK: all PEs have passed the same arguments.
void check_alike(const char *fn, const char *arg, uint64_t value) {
  exchange_value(*self.world, value, [=](int pe, uint64_t other) {
    if (other != value)
      fatal("%s: %s = %zu, but %zu on PE %d: all PEs must call it alike", fn, arg, size_t(value),
            size_t(other), pe);
  });
}

// Memory comes to the host heap as it is touched. To the GPU's it comes before it is used, in
// chunks, and that is how a network hears of memory, too.
bool in_chunks(const OwnHeap &heap) {
  return &heap == &device_heap || !self.one_node();
}
// All PEs at once.
bool add_chunk(const char *fn, const OwnHeap &heap, size_t from, size_t to) {
  const bool device = &heap == &device_heap;
  if (device && !gpu::add_chunk(fn, from, to)) return false;
  if (!self.one_node()) net::open_chunk(device, from, to);
  return true;
}
void remove_chunk(const OwnHeap &heap, size_t from, size_t to) {
  const bool device = &heap == &device_heap;
  if (!self.one_node()) net::close_chunk(device, from);
  if (device)
    gpu::remove_chunk(from, to);
  else
    segment::drop_heap(from, to - from);
}

// Whether there is memory for these offsets now, on all PEs.
bool fill(const char *fn, OwnHeap &heap, size_t from, size_t to) {
  return !in_chunks(heap) ||
         heap.chunks.fill(from, to, heap.kept, heap.region.size,
                          [&](size_t from, size_t to) { return add_chunk(fn, heap, from, to); });
}

// What has been freed between these offsets, behind what is kept, goes back; without chunks in
// steps of a huge page: many small blocks are not many system calls.
void give_back(OwnHeap &heap, size_t from, size_t to) {
  constexpr size_t step = 2 << 20;
  if (to <= heap.kept) return;
  heap_mutex.lock();
  const Alloc::Hole hole = heap.alloc.hole(from);
  heap_mutex.unlock();
  if (in_chunks(heap))
    return heap.chunks.drop(hole.from, hole.to,
                            [&](size_t from, size_t to) { remove_chunk(heap, from, to); });
  from = round_up(std::max({hole.from, heap.kept, from & ~(step - 1)}), step);
  to = std::min(hole.to, round_up(to, step));
  if (to != heap.region.size) to &= ~(step - 1);
  if (from < to) segment::drop_heap(from, to - from);
}

void release(OwnHeap &heap, size_t offset) {
  heap_mutex.lock();
  const size_t end = offset + heap.alloc.find(offset)->size;
  heap.alloc.release(offset);
  heap_mutex.unlock();
  give_back(heap, offset, end);
}

// The block that starts at ptr.
struct Allocated {
  OwnHeap &heap;
  size_t offset;
};
Allocated block_of(const char *fn, const void *ptr) {
  OwnHeap &heap = self.device.has(ptr) ? device_heap : host_heap;
  size_t offset = uintptr_t(ptr) - heap.region.base;
  if (!heap.region.has(ptr) || !heap.alloc.find(offset))
    fatal("%s: ptr = %p: %s", fn, ptr,
          heap.region.has(ptr) ? "not the start of an allocated block: freed already, or inside one"
                               : "not on the symmetric heap");
  return {heap, offset};
}

// All PEs have the same full heap, so one line is enough.
void heap_full(const char *fn, const OwnHeap &heap, size_t size, size_t alignment) {
  if (self.me != 0) return;
  static Note note;
  const size_t all = heap.region.size;
  const bool device_size = &heap == &device_heap && !self.device_main;
  const bool grown = all > heap.kept;
  // Asked for more than there is, it grows as far as memory goes.
  const bool by_memory =
      grown && (!self.env.symmetric_max || all < (self.env.symmetric_max & ~(page - 1)));
  note("%s: no %zu bytes, aligned to %zu, on %s: %zu of its %zu are free, the largest block has "
       "%zu%s; %s sets its size",
       fn, size, std::max(alignment, heap.alloc.grain), heap.name, all - heap.alloc.bytes_used(),
       all, heap.alloc.largest_free(), all ? "" : " (is there a GPU?)",
       by_memory     ? (&heap == &host_heap ? "the node's memory, shared by its PEs,"
                                            : "the GPU's memory, shared by its PEs,")
       : grown       ? "SHMEM_SYMMETRIC_MAX"
       : device_size ? "SHMEM_DEVICE_SIZE"
                     : "SHMEM_SYMMETRIC_SIZE");
}

// Without the barrier.
void *allocate(const char *fn, OwnHeap &heap, size_t size, size_t alignment, long hints) {
  size_t offset;
  {
    std::lock_guard guard(heap_mutex);
    offset = heap.alloc.allocate(size, alignment, hints);
    if (offset == Alloc::none) {
      heap_full(fn, heap, size, alignment);
      return nullptr;
    }
  }
  if (!fill(fn, heap, offset, offset + size)) {
    release(heap, offset);
    return nullptr;
  }
  if (&heap == &host_heap) {
    advise(heap.at(offset), size);
    dump_upto(offset + size);
  } else
    gpu::use();
  return heap.at(offset);
}

void *allocate_all(const char *fn, size_t size, size_t alignment, long hints) {
  check_ready(fn);
  if (size == 0) return nullptr;
  if (self.check) check_alike(fn, "size", size);
  void *p = allocate(fn, heap_for(hints), size, alignment, hints);
  barrier();
  return p;
}

} // namespace

void reset_heaps() {
  for (OwnHeap *heap : {&host_heap, &device_heap}) heap->alloc.reset(heap->region.size);
  dumped = 0;
}

void open_device_heap(int device) {
  if (!gpu::may_open()) return;
  unbind(); // for the threads that the GPU's runtime starts
  gpu::open_late(device);
  device_heap.alloc.reset(self.device.size);
}

void close_heaps() {
  for (OwnHeap *heap : {&host_heap, &device_heap})
    heap->chunks.drop(0, SIZE_MAX, [&](size_t from, size_t to) { remove_chunk(*heap, from, to); });
}

size_t heap_room(const void *p) {
  std::lock_guard guard(heap_mutex);
  const OwnHeap &heap = self.device.has(p) ? device_heap : host_heap;
  return heap.alloc.room(uintptr_t(p) - heap.region.base);
}

void *largest_block(const char *fn, size_t bytes) {
  size_t most = 0;
  exchange_value(*self.world, bytes,
                 [&](int, uint64_t theirs) { most = std::max(most, size_t(theirs)); });
  if (!most) return nullptr;
  void *const block = api::malloc_with_hints(fn, most, SHMEMX_MALLOC_DEVICE);
  if (!block) fatal("%s: no %zu bytes on the symmetric heap in device memory", fn, most);
  return block;
}

namespace api {

void *malloc(const char *fn, size_t size) {
  return allocate_all(fn, size, 1, 0);
}

void *align(const char *fn, size_t alignment, size_t size) {
  check_ready(fn);
  if (!std::has_single_bit(alignment) || alignment > max_align) {
    static Note note;
    if (self.check && self.me == 0)
      note("%s: alignment = %zu: not a power of two up to %zu, gives NULL", fn, alignment,
           max_align);
    return nullptr;
  }
  return allocate_all(fn, size, alignment, 0);
}

void *malloc_with_hints(const char *fn, size_t size, long hints) {
  constexpr long both = SHMEMX_MALLOC_DEVICE | SHMEMX_MALLOC_HOST,
                 known = both | SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE;
  const bool contradict = (hints & both) == both;
  if (self.check && self.me == 0 && (contradict || hints & ~known)) {
    static Note note;
    note("%s: hints = 0x%lx: %s", fn, hints,
         contradict ? "both SHMEMX_MALLOC_DEVICE and SHMEMX_MALLOC_HOST, so neither counts"
                    : "bits that are not known here do not count");
  }
  if (contradict) hints &= ~both;
  check_ready(fn);
  if (size && hints & SHMEMX_MALLOC_DEVICE) open_device_heap();
  return allocate_all(fn, size, 1, hints);
}

void *calloc(const char *fn, size_t count, size_t size) {
  check_ready(fn);
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX; // more than any heap has
  if (bytes == 0) return nullptr;
  if (self.check) check_alike(fn, "count * size", bytes);
  void *p = allocate(fn, heap_for(0), bytes, 1, 0);
  if (gpu::is_device_only(p))
    gpu::zero(p, bytes);
  else if (p)
    memset(p, 0, bytes); // before the barrier, after which a peer may write
  barrier();
  return p;
}

void free(const char *fn, void *ptr) {
  if (!ptr) return;
  check_ready(fn);
  auto [heap, offset] = block_of(fn, ptr);
  if (self.check) check_alike(fn, "offset of ptr in the heap", offset);
  barrier();
  release(heap, offset);
}

void *realloc(const char *fn, void *ptr, size_t size) {
  if (!ptr) return malloc(fn, size);
  if (size == 0) return free(fn, ptr), nullptr;
  check_ready(fn);
  auto [heap, offset] = block_of(fn, ptr);
  if (self.check) check_alike(fn, "size", size);
  barrier(); // peers' puts to the old block are in it
  const Alloc::Block old = *heap.alloc.find(offset);
  heap_mutex.lock();
  const bool in_place = heap.alloc.resize(offset, size);
  heap_mutex.unlock();
  if (in_place) {
    const size_t now = heap.alloc.find(offset)->size, less = std::min(now, old.size);
    const bool there = now <= old.size || fill(fn, heap, offset + old.size, offset + now);
    if (!there) {
      std::lock_guard guard(heap_mutex);
      heap.alloc.resize(offset, old.size);
    }
    if (there && &heap == &host_heap) dump_upto(offset + now);
    if (!there || now < old.size) give_back(heap, offset + less, offset + std::max(now, old.size));
    barrier();
    return there ? ptr : nullptr;
  }
  void *p = allocate(fn, heap, size, 1, old.tag);
  if (p) {
    copy(p, ptr, std::min(old.size, size));
    release(heap, offset);
  }
  barrier();
  return p;
}

} // namespace api
} // namespace shmem
