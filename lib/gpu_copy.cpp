// SPDX-License-Identifier: MIT
// What the GPU does for host routines: copies and atomics, on one stream of the library's own.
#include "../device/kernels.hpp"
#include "../device/runtime.hpp"
#include "copy.hpp"
#include "gpu_hip.hpp"
#include "sync.hpp"
#include <atomic>
#include <cstring>
#include <mutex>

namespace shmem::gpu {

namespace {

std::mutex mutex; // guards what follows
std::atomic<hipStream_t> own[int(Copier::count)];
thread_local Copier thread = Copier::program;
std::atomic<hipStream_t> of_team[max_teams];
void *result, *result_there; // of an atomic: in host memory, and where the GPU sees it
std::atomic<bool> started;   // copies that finish() has to wait for

} // namespace

void *shared_memory(size_t bytes, void **there) {
  void *p = nullptr;
  MUST(hipHostMalloc(&p, bytes, hipHostMallocMapped), "hipHostMalloc of %zu bytes", bytes);
  MUST(hipHostGetDevicePointer(there, p, 0), "hipHostGetDevicePointer");
  return p;
}

bool has_pages(const void *p) {
  if (chosen < 0) return false;
  const OnDevice on;
  hipPointerAttribute_t a{}; // ROCm up to 6 has an error for what it does not know
  return tried(hipPointerGetAttributes(&a, p)) && a.devicePointer;
}

hipStream_t make_stream() {
  int least, greatest;
  MUST(hipDeviceGetStreamPriorityRange(&least, &greatest), "hipDeviceGetStreamPriorityRange");
  hipStream_t s;
  MUST(hipStreamCreateWithPriority(&s, hipStreamNonBlocking, greatest),
       "hipStreamCreateWithPriority");
  return s;
}

static hipStream_t made(std::atomic<hipStream_t> &s) {
  if (hipStream_t found = s.load(std::memory_order_acquire)) return found;
  std::lock_guard guard(mutex);
  if (!s.load()) s.store(make_stream(), std::memory_order_release);
  return s.load();
}
hipStream_t stream() {
  return made(own[int(thread)]);
}
void make_own_streams() {
  for (auto &s : own) made(s);
}
void own_stream(Copier t) {
  thread = t;
}
shmemx_stream_t team_stream(int id) {
  OnDevice on;
  return made(of_team[id]);
}
void wait(hipStream_t s) {
  MUST(hipStreamSynchronize(s), "hipStreamSynchronize");
}

void drop_streams() {
  auto drop = [](std::atomic<hipStream_t> &s) {
    if (hipStream_t found = s.exchange(nullptr)) MUST(hipStreamDestroy(found), "hipStreamDestroy");
  };
  for (auto &s : own) drop(s);
  for (auto &s : of_team) drop(s);
  if (result) MUST(hipHostFree(result), "hipHostFree");
  result = nullptr;
}

// If somebody may wait for it, the last aligned word comes after all others, and in one store. An
// engine stores what it copies in any order, so this word is a copy of its own, by an engine as
// well, because a waiting kernel may leave no room for another kernel. To memory of the host the
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
  if (host || device_only(dest))
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
  std::lock_guard guard(mutex);
  if (!result) result = shared_memory(line, &result_there);
  MUST(kernels::atomic_on_stream(op, result_there, s), "an atomic of %u bytes at %p", op.width,
       reinterpret_cast<void *>(op.offset));
  wait(s);
  return op.width == 4 ? __atomic_load_n(static_cast<uint32_t *>(result), __ATOMIC_ACQUIRE)
                       : __atomic_load_n(static_cast<uint64_t *>(result), __ATOMIC_ACQUIRE);
}

} // namespace shmem::gpu
