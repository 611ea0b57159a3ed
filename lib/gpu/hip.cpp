// SPDX-License-Identifier: MIT
#include "hip.hpp"
#include "../state.hpp"
#include "stream.hpp"
#include <mutex>

namespace shmem::gpu {

int chosen = -1;

namespace {

struct {
  std::mutex mutex; // guards their making
  std::atomic<hipStream_t> own[int(Copier::count)], of_team[max_teams];
} streams;
thread_local Copier thread = Copier::program;

hipStream_t made(std::atomic<hipStream_t> &s) {
  if (hipStream_t found = s.load(std::memory_order_acquire)) return found;
  std::lock_guard guard(streams.mutex);
  if (!s.load()) s.store(make_stream(), std::memory_order_release);
  return s.load();
}

} // namespace

void *shared_memory(size_t bytes, void **there) {
  void *p = nullptr;
  MUST(hipHostMalloc(&p, bytes, hipHostMallocMapped), "hipHostMalloc of %zu bytes", bytes);
  MUST(hipHostGetDevicePointer(there, p, 0), "hipHostGetDevicePointer");
  return p;
}

hipStream_t make_stream() {
  int least, greatest;
  MUST(hipDeviceGetStreamPriorityRange(&least, &greatest), "hipDeviceGetStreamPriorityRange");
  hipStream_t s;
  MUST(hipStreamCreateWithPriority(&s, hipStreamNonBlocking, greatest),
       "hipStreamCreateWithPriority");
  return s;
}

hipStream_t stream() {
  return made(streams.own[int(thread)]);
}
void make_own_streams() {
  for (auto &s : streams.own) made(s);
}
void own_stream(Copier t) {
  thread = t;
}
shmemx_stream_t team_stream(int id) {
  OnDevice on;
  return made(streams.of_team[id]);
}
void wait(hipStream_t s) {
  MUST(hipStreamSynchronize(s), "hipStreamSynchronize");
}

void drop_streams() {
  auto drop = [](std::atomic<hipStream_t> &s) {
    if (hipStream_t found = s.exchange(nullptr)) MUST(hipStreamDestroy(found), "hipStreamDestroy");
  };
  for (auto &s : streams.own) drop(s);
  for (auto &s : streams.of_team) drop(s);
}

} // namespace shmem::gpu
