// SPDX-License-Identifier: MIT
// Records the GPU's work of calls on streams: two events around each, of which the time is read
// when they have come. Nothing here waits for a program's stream before shmem_finalize.
#include "trace.hpp"
#include <algorithm>
#include <deque>
#include <hip/hip_runtime_api.h>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace trace {

namespace {

constexpr uint64_t second = 1000000000;
constexpr size_t look_every = 64, write_every = 1024; // calls

bool tried(hipError_t error) {
  if (error != hipSuccess) (void)hipGetLastError(); // no other code is to find it
  return error == hipSuccess;
}

// Another thread or stream may be capturing a graph, and in CUDA's usual mode of that a query of an
// event would spoil the capture, although it has nothing to do with it.
class Relaxed {
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  const bool changed = tried(hipThreadExchangeStreamCaptureMode(&mode));

public:
  Relaxed() = default;
  ~Relaxed() {
    if (changed) tried(hipThreadExchangeStreamCaptureMode(&mode));
  }
  Relaxed(const Relaxed &) = delete;
  Relaxed &operator=(const Relaxed &) = delete;
};

// An event and when it was on the host's clock, which may be wrong by error: in the middle of the
// time from asking for it to seeing it.
struct Clock {
  hipEvent_t event;
  int64_t ns, error;
  uint64_t made;
  Clock(hipEvent_t event, int64_t ns, int64_t error, uint64_t made)
      : event(event), ns(ns), error(error), made(made) {}
  ~Clock();
  Clock(const Clock &) = delete;
  Clock &operator=(const Clock &) = delete;
};

struct Queued {
  Event event; // begin: of the host's call
  hipEvent_t begin, end;
  std::shared_ptr<const Clock> clock;
};
struct Stream {
  hipStream_t stream;
  int track;
  uint64_t last = 0; // end of its last call
  std::deque<Queued> queued = {};
  std::vector<Timed> done = {};
};

// Its lock is never held in a call that may wait for the program's work: a full stream makes the
// host wait, perhaps for another thread's call.
struct Streams {
  std::mutex mutex;
  std::vector<hipEvent_t> spare;
  std::shared_ptr<const Clock> clock;
  hipStream_t own = nullptr; // for the clock
  uint64_t tried_at = 0;
  size_t calls = 0;
  std::deque<Stream> all;

  hipEvent_t take() {
    if (!spare.empty()) {
      hipEvent_t event = spare.back();
      spare.pop_back();
      return event;
    }
    hipEvent_t event = nullptr;
    return tried(hipEventCreate(&event)) ? event : nullptr;
  }
  bool open() {
    if (own) return true;
    // Of the highest priority, as the library's own: AMD's runtime gives the streams of each
    // priority a few queues, and work behind a kernel that waits does so, too.
    int least = 0, greatest = 0;
    return tried(hipDeviceGetStreamPriorityRange(&least, &greatest)) &&
           tried(hipStreamCreateWithPriority(&own, hipStreamNonBlocking, greatest));
  }
  // The best of eight, once a second: elapsed times are floats of milliseconds, which have steps of
  // 0.06 us there, and clocks drift.
  void set_clock() {
    const uint64_t start = now();
    if (tried_at && start - tried_at < second) return;
    tried_at = start;
    if (!open()) return;
    std::shared_ptr<const Clock> best;
    for (int i = 0; i < 8; i++) {
      hipEvent_t event = take();
      if (!event) break;
      const uint64_t before = now();
      hipError_t error = hipEventRecord(event, own);
      while (error == hipSuccess && (error = hipEventQuery(event)) == hipErrorNotReady &&
             now() - start < second / 10) {
        (void)hipGetLastError();
        error = hipSuccess;
      }
      const uint64_t after = now();
      const auto half = int64_t((after - before) / 2);
      auto one = std::make_shared<const Clock>(event, int64_t(before) + half, half, after);
      if (!tried(error)) break;
      if (!best || half < best->error) best = one;
    }
    if (best) clock = best;
  }
  Stream &of(hipStream_t stream) {
    for (Stream &s : all)
      if (s.stream == stream) return s;
    all.push_back({stream, new_track("stream " + std::to_string(all.size() + 1))});
    return all.back();
  }
  // How many have not come.
  size_t look() {
    size_t left = 0;
    for (Stream &s : all) {
      while (!s.queued.empty()) {
        Queued &q = s.queued.front();
        const hipError_t error = hipEventQuery(q.end);
        if (!tried(error) && error == hipErrorNotReady) break;
        float since = 0, took = 0;
        if (error == hipSuccess && tried(hipEventElapsedTime(&since, q.clock->event, q.begin)) &&
            tried(hipEventElapsedTime(&took, q.begin, q.end))) {
          // HIP may take the end of earlier work for the first event, so it can be from before the
          // call; and a stream works in order.
          const auto begun = uint64_t(q.clock->ns + int64_t(double(since) * 1e6));
          const uint64_t end = begun + uint64_t(double(took) * 1e6);
          q.event.begin = std::max({begun, q.event.begin, s.last});
          q.event.end = s.last = std::max(end, q.event.begin);
          s.done.push_back({q.event, q.clock->error});
        }
        spare.insert(spare.end(), {q.begin, q.end});
        s.queued.pop_front();
      }
      left += s.queued.size();
      if (s.done.size() >= write_every) write(s);
    }
    return left;
  }
  static void write(Stream &s) {
    write_timed(s.track, s.done);
    s.done.clear();
  }
};
Streams &streams() {
  static Streams *const s = new Streams; // never destroyed: threads may end after it
  return *s;
}
// A thread that lets go of a clock has the lock.
Clock::~Clock() {
  streams().spare.push_back(event);
}

} // namespace

void *begin_on(shmemx_stream_t stream) {
  const Relaxed relaxed;
  hipStreamCaptureStatus status;
  if (!tried(hipStreamIsCapturing(stream, &status)) || status != hipStreamCaptureStatusNone)
    return nullptr;
  Streams &s = streams();
  hipEvent_t event = nullptr;
  {
    const std::lock_guard lock(s.mutex);
    s.set_clock();
    if (s.clock) event = s.take();
  }
  if (!event || tried(hipEventRecord(event, stream))) return event;
  const std::lock_guard lock(s.mutex);
  s.spare.push_back(event);
  return nullptr;
}

void end_on(shmemx_stream_t stream, void *began, const Event &event) {
  const Relaxed relaxed;
  const auto begin = static_cast<hipEvent_t>(began);
  Streams &s = streams();
  std::unique_lock lock(s.mutex);
  hipEvent_t end = s.take();
  lock.unlock();
  const bool recorded = end && tried(hipEventRecord(end, stream));
  lock.lock();
  if (recorded) {
    s.of(stream).queued.push_back({event, begin, end, s.clock});
    if (++s.calls % look_every == 0) s.look();
    return;
  }
  s.spare.push_back(begin);
  if (end) s.spare.push_back(end);
}

size_t write_streams(uint64_t patience) {
  const Relaxed relaxed;
  Streams &s = streams();
  const std::lock_guard lock(s.mutex);
  const uint64_t start = now();
  size_t left = s.look();
  while (left && now() - start < patience) left = s.look();
  for (Stream &one : s.all) Streams::write(one);
  return left;
}

void drop_events() {
  const Relaxed relaxed;
  Streams &s = streams();
  const std::lock_guard lock(s.mutex);
  s.clock.reset();
  for (hipEvent_t event : std::exchange(s.spare, {})) (void)tried(hipEventDestroy(event));
  if (s.own) (void)tried(hipStreamDestroy(std::exchange(s.own, nullptr)));
  s.tried_at = 0;
}

} // namespace trace
