// SPDX-License-Identifier: MIT
#include "heap.hpp"
#include "alloc.hpp"
#include "log.hpp"
#include "order.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <shmemx.h>
#include <sys/mman.h>

namespace shmem {

namespace {

Alloc heap;
std::mutex heap_mutex; // SHMEM_CHECK looks at the heap from any thread

// Huge pages save faults and address translation, but commit 2 MiB at the first touch: only for
// blocks that hold several.
void advise(char *p, size_t bytes) {
  constexpr size_t huge = 2 << 20;
  if (bytes < 8 * huge) return;
  uintptr_t from = (uintptr_t(p) + huge - 1) & ~(huge - 1),
            to = (uintptr_t(p) + bytes) & ~(huge - 1);
  madvise(reinterpret_cast<void *>(from), to - from, MADV_HUGEPAGE);
}

void barrier() {
  full_fence(); // the quiet of the default context
  sync(*self.world);
}

// Under SHMEM_CHECK: all PEs have passed the same arguments.
void check_alike(const char *fn, const char *arg, uint64_t value) {
  exchange_word(*self.world, value, [=](int pe, uint64_t other) {
    if (other != value)
      fatal("%s: %s = %zu, but %zu on PE %d: all PEs must call it alike", fn, arg, size_t(value),
            size_t(other), pe);
  });
}

size_t offset_of(const char *fn, const void *ptr) {
  size_t offset = uintptr_t(ptr) - self.heap.base;
  if (!self.heap.has(ptr) || !heap.find(offset))
    fatal("%s: ptr = %p: %s", fn, ptr,
          self.heap.has(ptr) ? "not the start of an allocated block: freed already, or inside one"
                             : "not on the symmetric heap");
  return offset;
}

char *at_offset(size_t offset) {
  return reinterpret_cast<char *>(self.heap.base) + offset;
}

// Without the barrier.
void *allocate(size_t size, size_t alignment, long hints) {
  std::lock_guard guard(heap_mutex);
  size_t offset = heap.allocate(size, alignment, hints);
  if (offset == Alloc::none) {
    debug("no %zu bytes on the symmetric heap: %zu of %zu in use, the largest free block has %zu",
          size, heap.bytes_used(), self.heap.size, heap.largest_free());
    return nullptr;
  }
  advise(at_offset(offset), size);
  return at_offset(offset);
}

void *allocate_all(const char *fn, size_t size, size_t alignment, long hints) {
  check_ready(fn);
  if (size == 0) return nullptr;
  if (self.check) check_alike(fn, "size", size);
  void *p = allocate(size, alignment, hints);
  barrier();
  return p;
}

} // namespace

void reset_heap() {
  heap.reset(self.heap.size);
}

size_t heap_room(const void *p) {
  std::lock_guard guard(heap_mutex);
  return heap.room(uintptr_t(p) - self.heap.base);
}

namespace api {

void *malloc(const char *fn, size_t size) {
  return allocate_all(fn, size, Alloc::grain, 0);
}

void *align(const char *fn, size_t alignment, size_t size) {
  if (!std::has_single_bit(alignment) || alignment % sizeof(void *))
    fatal("%s: alignment = %zu: not a power of two that is a multiple of %zu", fn, alignment,
          sizeof(void *));
  if (alignment > max_align) {
    debug("%s: alignment = %zu: at most %zu", fn, alignment, max_align);
    return nullptr;
  }
  return allocate_all(fn, size, alignment, 0);
}

void *malloc_with_hints(const char *fn, size_t size, long hints) {
  if (hints & SHMEMX_MALLOC_DEVICE)
    fatal("%s: hints: SHMEMX_MALLOC_DEVICE: there is no device heap: the library was built with "
          "-Dgpu=cpu",
          fn);
  return allocate_all(fn, size, Alloc::grain, hints);
}

void *calloc(const char *fn, size_t count, size_t size) {
  check_ready(fn);
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX; // more than any heap has
  if (bytes == 0) return nullptr;
  if (self.check) check_alike(fn, "count * size", bytes);
  void *p = allocate(bytes, Alloc::grain, 0);
  if (p) memset(p, 0, bytes); // before the barrier, after which a peer may write
  barrier();
  return p;
}

void free(const char *fn, void *ptr) {
  if (!ptr) return;
  check_ready(fn);
  size_t offset = offset_of(fn, ptr);
  if (self.check) check_alike(fn, "offset of ptr in the heap", offset);
  barrier();
  std::lock_guard guard(heap_mutex);
  heap.release(offset);
}

void *realloc(const char *fn, void *ptr, size_t size) {
  if (!ptr) return malloc(fn, size);
  if (size == 0) return free(fn, ptr), nullptr;
  check_ready(fn);
  size_t offset = offset_of(fn, ptr);
  if (self.check) check_alike(fn, "size", size);
  barrier(); // peers' puts to the old block are in it
  auto [old, hints] = *heap.find(offset);
  auto in_place = [&] {
    std::lock_guard guard(heap_mutex);
    return heap.resize(offset, size);
  };
  if (in_place()) {
    barrier();
    return ptr;
  }
  void *p = allocate(size, Alloc::grain, hints);
  if (p) {
    memcpy(p, ptr, std::min(old, size));
    std::lock_guard guard(heap_mutex);
    heap.release(offset);
  }
  barrier();
  return p;
}

} // namespace api
} // namespace shmem
