// SPDX-License-Identifier: MIT
// Streams and events. For now each call is done when it returns.
#include "internal.hpp"
#include <ctime>

namespace hip_cpu {

using impl::done, impl::runtime;

inline namespace names {
struct ihipStream_t {
  int device;
  unsigned flags;
};
struct ihipEvent_t {
  unsigned flags;
  long ns;
};
} // namespace names

namespace impl {

hipError_t enter_unless_capturing(const char *call) {
  return enter(call);
}
hipError_t submit(hipStream_t, Work *w, bool) {
  w->run();
  drop(w);
  return hipSuccess;
}
bool capturing(hipStream_t) {
  return false;
}
void wait_for_device(int) {}
hipError_t device_of(hipStream_t stream, int *device) {
  *device = stream ? stream->device : current_device();
  return hipSuccess;
}

} // namespace impl

inline namespace names {

hipError_t hipDeviceSynchronize() {
  HIP_ENTER();
  return hipSuccess;
}
hipError_t hipStreamCreate(hipStream_t *stream) {
  return hipStreamCreateWithFlags(stream, hipStreamDefault);
}
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags) {
  HIP_ENTER();
  if (!stream) return done(hipErrorInvalidValue);
  *stream = new ihipStream_t{impl::current_device(), flags};
  return hipSuccess;
}
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int) {
  return hipStreamCreateWithFlags(stream, flags);
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  HIP_ENTER();
  delete stream;
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t) {
  HIP_ENTER();
  return hipSuccess;
}
hipError_t hipStreamQuery(hipStream_t) {
  HIP_ENTER();
  return hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned) {
  HIP_ENTER();
  return hipSuccess;
}
hipError_t hipEventCreate(hipEvent_t *event) {
  return hipEventCreateWithFlags(event, hipEventDefault);
}
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) {
  HIP_ENTER();
  *event = new ihipEvent_t{flags, 0};
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
  HIP_ENTER();
  delete event;
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t) {
  HIP_ENTER();
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  event->ns = t.tv_sec * 1000000000 + t.tv_nsec;
  return hipSuccess;
}
hipError_t hipEventSynchronize(hipEvent_t) {
  HIP_ENTER();
  return hipSuccess;
}
hipError_t hipEventQuery(hipEvent_t) {
  HIP_ENTER();
  return hipSuccess;
}
hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop) {
  HIP_ENTER();
  *ms = float(stop->ns - start->ns) * 1e-6F;
  return hipSuccess;
}

} // namespace names
} // namespace hip_cpu
