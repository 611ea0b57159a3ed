// SPDX-License-Identifier: MIT
// What kernels called that were compiled with SHMEM_TRACE_KERNELS. They write records to device
// memory, which are read at shmem_finalize, when all kernels have ended.
#include "../../device/trace.hpp"
#include "trace.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <hip/hip_runtime_api.h>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trace {

namespace {

using shmem::trace::Record, shmem::trace::Records, shmem::trace::Traced;

struct Kernels {
  std::mutex mutex;
  std::vector<Traced *> modules;
  Records records = {};
  uint64_t *clock = nullptr; // behind `taken`
  struct Sample {
    uint64_t host, ticks, error;
  } begin = {};
  std::vector<int> tracks;

  // The GPU's clock at some time between two of the host's: the quickest of 16.
  bool sample(Sample *best) {
    best->error = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
      const uint64_t before = now();
      if (modules.front()->clock(clock) || hipDeviceSynchronize() != hipSuccess) return false;
      const uint64_t half = (now() - before) / 2;
      uint64_t ticks = 0;
      if (hipMemcpy(&ticks, clock, sizeof ticks, hipMemcpyDeviceToHost) != hipSuccess) return false;
      if (half < best->error) *best = {before + half, ticks, half};
    }
    return true;
  }
  int track(size_t i) {
    if (i == tracks.size()) tracks.push_back(new_track("kernels " + std::to_string(i + 1)));
    return tracks[i];
  }
};
Kernels &kernels() {
  static Kernels *const k = new Kernels; // never destroyed: modules go at the end
  return *k;
}

bool show(Kernels &k, Traced *module) {
  if (!module->show(&k.records)) return true;
  (void)hipGetLastError();
  return false;
}

bool open(Kernels &k) {
  if (!k.records.room) {
    const char *text = getenv("SHMEM_TRACE_RECORDS");
    const uint64_t room = text && *text ? strtoull(text, nullptr, 10) : 1 << 20;
    if (!room) return true;
    char *memory = nullptr;
    if (hipMalloc(reinterpret_cast<void **>(&memory), 128 + room * sizeof(Record)) != hipSuccess)
      return false;
    k.records = {reinterpret_cast<Record *>(memory + 128), room,
                 reinterpret_cast<uint64_t *>(memory)};
    k.clock = k.records.taken + 8;
  }
  if (hipMemset(k.records.taken, 0, sizeof(uint64_t)) != hipSuccess || !k.sample(&k.begin))
    return false;
  return std::all_of(k.modules.begin(), k.modules.end(), [&](Traced *m) { return show(k, m); });
}

} // namespace

void begin_kernels() {
  Kernels &k = kernels();
  const std::lock_guard lock(k.mutex);
  if (k.modules.empty() || open(k)) return;
  fprintf(stderr, "shmem: SHMEM_TRACE: %s; what kernels call is missing\n",
          hipGetErrorString(hipGetLastError()));
}

uint64_t write_kernels() {
  Kernels &k = kernels();
  const std::lock_guard lock(k.mutex);
  if (!k.records.room || k.modules.empty()) return 0;
  uint64_t taken = 0;
  Kernels::Sample end;
  if (hipDeviceSynchronize() != hipSuccess || !k.sample(&end) ||
      hipMemcpy(&taken, k.records.taken, sizeof taken, hipMemcpyDeviceToHost) != hipSuccess)
    return 0;
  std::vector<Record> all(std::min(taken, k.records.room));
  if (!all.empty() && hipMemcpy(all.data(), k.records.first, all.size() * sizeof(Record),
                                hipMemcpyDeviceToHost) != hipSuccess)
    return 0;
  std::sort(all.begin(), all.end(),
            [](const Record &a, const Record &b) { return a.begin < b.begin; });
  // Between two samples a clock runs evenly, so a time there is as wrong as the worse one at most.
  const double rate = double(end.host - k.begin.host) / double(end.ticks - k.begin.ticks);
  const auto error = int64_t(std::max(k.begin.error, end.error));
  // A track shows one call at a time: the lowest that is free.
  std::set<std::pair<uint64_t, size_t>> busy; // until when
  std::set<size_t> idle;
  std::vector<std::vector<Timed>> shown;
  for (const Record &r : all) {
    const uint64_t until = r.begin + r.took;
    for (; !busy.empty() && busy.begin()->first <= r.begin; busy.erase(busy.begin()))
      idle.insert(busy.begin()->second);
    if (idle.empty()) {
      idle.insert(shown.size());
      shown.emplace_back();
    }
    const size_t track = *idle.begin();
    idle.erase(idle.begin());
    busy.insert({until, track});
    auto host = [&](uint64_t ticks) {
      return uint64_t(int64_t(k.begin.host) +
                      int64_t(double(int64_t(ticks - k.begin.ticks)) * rate));
    };
    const uint32_t name =
        r.routine == shmem::trace::user_event ? user_event : first_of_kernels + r.routine;
    shown[track].push_back(
        {{host(r.begin), host(until), r.bytes, r.pe, name}, error, int64_t(r.block), r.wave});
  }
  for (size_t i = 0; i < shown.size(); i++) write_timed(k.track(i), shown[i]);
  return taken - all.size();
}

} // namespace trace

#pragma GCC visibility push(default)
using trace::Traced;
extern "C" void shmemx_traced_add(Traced *module) {
  trace::Kernels &k = trace::kernels();
  const std::lock_guard lock(k.mutex);
  k.modules.push_back(module);
  if (k.records.room) trace::show(k, module);
}
extern "C" void shmemx_traced_remove(Traced *module) {
  trace::Kernels &k = trace::kernels();
  const std::lock_guard lock(k.mutex);
  k.modules.erase(std::remove(k.modules.begin(), k.modules.end(), module), k.modules.end());
}
#pragma GCC visibility pop
