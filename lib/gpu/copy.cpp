// SPDX-License-Identifier: MIT
// What the GPU does for host routines: copies and atomics, on one stream of the library's own.
#include "../copy.hpp"
#include "../../device/kernels.hpp"
#include "../../device/runtime.hpp"
#include "../sync.hpp"
#include "copy.hpp"
#include "heap.hpp"
#include "hip.hpp"
#include "stream.hpp"
#include <atomic>
#include <cstring>
#include <mutex>

namespace shmem::gpu {

namespace {

struct {
  std::mutex mutex;        // guards the others
  void *here, *there;      // in host memory, and where the GPU sees it
} result;                  // of an atomic
std::atomic<bool> started; // copies that finish() has to wait for

} // namespace

// If somebody may wait for it, the last aligned word comes after all others, and in one store. An
// engine stores bytes in any order, so this word is a second copy. An engine does the second copy
// too, because a waiting kernel may leave no room for another kernel. To memory of the host the
// runtime may copy by memcpy, so there the library stores the word.
void start_copy(void *dest, const void *source, size_t n) {
  if (n == 0) return;
  OnDevice on;
  auto part = [&](void *to, size_t from, size_t bytes) {
    MUST(hipMemcpyAsync(to, static_cast<const char *>(source) + from, bytes, hipMemcpyDefault,
                        stream()),
         "hipMemcpyAsync of %zu bytes from %p to %p", n, source, dest);
  };
  const bool host = self.in_segment(dest) || self.data.has(dest);
  size_t last = n;
  if (host || is_device_only(dest))
    for (last = 8; last > n || (uintptr_t(dest) + n) % last;) last /= 2;
  const size_t before = n - last;
  void *end = static_cast<char *>(dest) + before;
  if (before) part(dest, 0, before);
  if (host) {
    uint64_t word;
    part(&word, before, last);
    wait(stream());
    store_once(end, &word, last);
  } else {
    part(end, before, last);
  }
  started.store(true, std::memory_order_release);
}

void copy(void *dest, const void *source, size_t n) {
  if (n == 0) return;
  start_copy(dest, source, n);
  wait(stream());
}

void copy_2d(void *dest, size_t dest_pitch, const void *source, size_t source_pitch, size_t width,
             size_t height) {
  if (width == 0 || height == 0) return;
  OnDevice on;
  MUST(runtime::copy_2d(dest, dest_pitch, source, source_pitch, width, height, stream()),
       "hipMemcpy2DAsync of %zu times %zu bytes from %p to %p", height, width, source, dest);
  wait(stream());
}

void zero(void *p, size_t n) {
  if (n == 0) return;
  OnDevice on;
  MUST(hipMemsetAsync(p, 0, n, stream()), "hipMemsetAsync of %zu bytes at %p", n, p);
  wait(stream());
}

void finish() {
  if (!started.exchange(false, std::memory_order_acquire)) return;
  OnDevice on;
  wait(stream());
}

uint64_t atomic(const Operation &op) {
  full_fence(); // what the CPU stored to device memory before, combined on the way, has left
  OnDevice on;
  hipStream_t s = stream();
  std::lock_guard guard(result.mutex);
  if (!result.here) result.here = shared_memory(cache_line, &result.there);
  MUST(kernels::atomic_on_stream(op, result.there, s), "an atomic of %u bytes at %p", op.width,
       reinterpret_cast<void *>(op.offset));
  wait(s);
  return op.width == 4 ? __atomic_load_n(static_cast<uint32_t *>(result.here), __ATOMIC_ACQUIRE)
                       : __atomic_load_n(static_cast<uint64_t *>(result.here), __ATOMIC_ACQUIRE);
}

void close_copies() {
  if (result.here) MUST(hipHostFree(result.here), "hipHostFree");
  result.here = nullptr;
}

} // namespace shmem::gpu
