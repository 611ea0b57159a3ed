// SPDX-License-Identifier: MIT
// Events: a point of a stream, or steps of a capture.
#include "stream.hpp"
#include <algorithm>
#include <ctime>

namespace hip_cpu {

using impl::Capture, impl::done, impl::runtime, impl::streams;

namespace {

struct EventRecord : impl::Work {
  hipEvent_t event;
  impl::Point at;

  void run() override {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    std::lock_guard guard(runtime().mutex);
    if (event->at.stream == at.stream && event->at.number == at.number) // and not of a later one
      event->ns = t.tv_sec * 1000000000 + t.tv_nsec;
  }
};

bool valid(hipEvent_t event) {
  auto &all = streams().events;
  return event && std::find(all.begin(), all.end(), event) != all.end();
}

Capture *capture_of(hipEvent_t event) {
  for (Capture *c : streams().captures)
    if (c->id == event->capture) return c;
  return nullptr;
}

} // namespace

inline namespace names {

hipError_t hipEventCreate(hipEvent_t *event) {
  HIP_ENTER();
  return hipEventCreateWithFlags(event, hipEventDefault);
}
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
  HIP_ENTER();
  if (!event) return done(hipErrorInvalidValue);
  if (flags & hipEventInterprocess) return done(hipErrorNotSupported);
  std::lock_guard guard(runtime().mutex);
  auto &spare = streams().spare_events;
  if (spare.empty()) spare.push_back(new ihipEvent_t);
  *event = spare.back();
  spare.pop_back();
  **event = {flags, {}, 0, 0, {}};
  streams().events.push_back(*event);
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  if (!valid(event)) return done(hipErrorInvalidHandle);
  auto &all = streams().events;
  all.erase(std::find(all.begin(), all.end(), event));
  event->at = {};
  streams().spare_events.push_back(event);
  return hipSuccess;
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = impl::valid(stream);
  if (!valid(event) || !s) return done(hipErrorInvalidHandle);
  if (hipError_t error = impl::implicit(s)) return done(error);
  if (s->capture) {
    if (s->capture->invalid) return done(hipErrorStreamCaptureInvalidated);
    event->at = {};
    event->capture = s->capture->id;
    event->nodes = s->nodes;
    return hipSuccess;
  }
  auto *record = new EventRecord;
  record->event = event;
  record->at = event->at = impl::enqueue(s, record);
  event->capture = 0;
  return hipSuccess;
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  HIP_ENTER();
  std::unique_lock lock(runtime().mutex);
  if (!valid(event)) return done(hipErrorInvalidHandle);
  if (event->capture) return done(hipErrorCapturedEvent);
  if (event->at.stream) impl::wait(lock, {event->at});
  return hipSuccess;
}
hipError_t hipEventQuery(hipEvent_t event) {
  HIP_ENTER();
  {
    std::lock_guard guard(runtime().mutex);
    if (!valid(event)) return done(hipErrorInvalidHandle);
    if (event->capture) return done(hipErrorCapturedEvent);
  }
  HIP_ENTER_UNLESS_CAPTURING(); // as CUDA has it, whatever the event is of
  std::lock_guard guard(runtime().mutex);
  return event->at.reached() ? hipSuccess : hipErrorNotReady;
}
hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop) {
  HIP_ENTER();
  if (!ms) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  for (hipEvent_t event : {start, stop}) {
    if (!valid(event) || !event->at.stream || event->flags & hipEventDisableTiming)
      return done(hipErrorInvalidHandle);
    if (!event->at.reached()) return hipErrorNotReady;
  }
  *ms = float(stop->ns - start->ns) * 1e-6F;
  return hipSuccess;
}

// In a capture this is how another stream joins it, and how its steps come back.
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  HIP_ENTER();
  if (flags) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = impl::valid(stream);
  if (!valid(event) || !s) return done(hipErrorInvalidHandle);
  if (!event->capture) {
    if (!event->at.stream) return hipSuccess; // never recorded
    if (s->capture) return done(impl::capture_error(s, hipErrorStreamCaptureIsolation));
    if (hipError_t error = impl::implicit(s)) return done(error);
    impl::enqueue(s, nullptr, {event->at});
    return hipSuccess;
  }
  Capture *c = capture_of(event);
  if (!c) return done(hipErrorCapturedEvent);
  if (c->invalid) return done(hipErrorStreamCaptureInvalidated);
  if (s->capture && s->capture != c)
    return done(impl::capture_error(s, hipErrorStreamCaptureMerge));
  if (!stream) return done(impl::capture_error(c->origin, hipErrorStreamCaptureImplicit));
  if (!s->capture) {
    s->capture = c;
    s->nodes.clear();
    c->streams.push_back(s);
  }
  for (size_t node : event->nodes)
    if (std::find(s->nodes.begin(), s->nodes.end(), node) == s->nodes.end())
      s->nodes.push_back(node);
  return hipSuccess;
}

} // namespace names
} // namespace hip_cpu
