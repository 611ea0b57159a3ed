// SPDX-License-Identifier: MIT
// What the GPU does for host routines: copies and atomics, on one stream of the library's own.
#include "../device/kernels.hpp"
#include "gpu_hip.hpp"
#include "sync.hpp"
#include <atomic>
#include <cstring>
#include <mutex>

namespace shmem::gpu {

namespace {

std::mutex mutex; // guards what follows
std::atomic<hipStream_t> own;
uint64_t *result, *result_there; // of an atomic: in host memory, and where the GPU sees it
std::atomic<bool> started;       // copies that finish() has to wait for

void wait(hipStream_t s) {
  MUST(hipStreamSynchronize(s), "hipStreamSynchronize");
}

} // namespace

hipStream_t stream() {
  if (hipStream_t s = own.load(std::memory_order_acquire)) return s;
  std::lock_guard guard(mutex);
  if (!own.load()) {
    hipStream_t s;
    MUST(hipStreamCreateWithFlags(&s, hipStreamNonBlocking), "hipStreamCreateWithFlags");
    own.store(s, std::memory_order_release);
  }
  return own.load();
}

void drop_stream() {
  if (hipStream_t s = own.exchange(nullptr)) MUST(hipStreamDestroy(s), "hipStreamDestroy");
  if (result) MUST(hipHostFree(result), "hipHostFree");
  result = nullptr;
}

void start_copy(void *dest, const void *source, size_t n) {
  if (n == 0) return;
  OnDevice on;
  MUST(hipMemcpyAsync(dest, source, n, hipMemcpyDefault, stream()),
       "hipMemcpyAsync of %zu bytes from %p to %p", n, source, dest);
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
  MUST(hipMemcpy2DAsync(dest, dest_pitch, source, source_pitch, width, height, hipMemcpyDefault,
                        stream()),
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

uint64_t atomic(Op op, void *p, size_t bytes, uint64_t value, uint64_t cond) {
  full_fence(); // what the CPU stored to device memory before, combined on the way, has left
  OnDevice on;
  hipStream_t s = stream();
  std::lock_guard guard(mutex);
  if (!result) {
    void *host = nullptr, *there = nullptr;
    MUST(hipHostMalloc(&host, line, hipHostMallocMapped), "hipHostMalloc");
    MUST(hipHostGetDevicePointer(&there, host, 0), "hipHostGetDevicePointer");
    result = static_cast<uint64_t *>(host);
    result_there = static_cast<uint64_t *>(there);
  }
  MUST(kernels::atomic(kernels::Atomic(op), p, bytes, value, cond, result_there, s),
       "an atomic of %zu bytes at %p", bytes, p);
  wait(s);
  return __atomic_load_n(result, __ATOMIC_ACQUIRE);
}

} // namespace shmem::gpu
