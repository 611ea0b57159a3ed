// SPDX-License-Identifier: MIT
// Streams: each has a thread that does the stream's work in order. The NULL stream of a device
// waits for all its streams that are not hipStreamNonBlocking, and they wait for it.
#include "stream.hpp"
#include "launch.hpp"
#include <algorithm>
#include <memory>

namespace hip_cpu {
namespace impl {

Streams &streams() {
  return *runtime().streams;
}
Streams *make_streams(int devices) {
  auto *s = new Streams;
  for (int device = 0; device < devices; device++)
    s->null.push_back(new ihipStream_t(device, hipStreamDefault));
  return s;
}

namespace {

bool is_null(hipStream_t s) {
  return s == streams().null[size_t(s->device)];
}
bool blocking(hipStream_t s) {
  return !(s->flags & hipStreamNonBlocking);
}

void finish(hipStream_t s) {
  s->done++;
  s->moved.notify_all();
}

void *stream_thread(void *argument) {
  auto *s = static_cast<hipStream_t>(argument);
  std::unique_lock lock(runtime().mutex);
  for (;;) {
    s->wake.wait(lock, [s] { return !s->queue.empty() && !s->held; });
    Op op = std::move(s->queue.front());
    s->queue.pop_front();
    wait(lock, op.after);
    if (op.work) {
      lock.unlock();
      op.work->run();
      drop(op.work);
      lock.lock();
    }
    finish(s);
  }
}

// What has to come before the next work of the stream without being asked for.
std::vector<Point> implied(hipStream_t s) {
  std::vector<Point> points;
  auto add = [&](hipStream_t other) {
    Point p{other, other->last};
    if (!p.reached()) points.push_back(p);
  };
  if (is_null(s)) {
    for (auto *list : {&streams().live, &streams().spare}) // a destroyed one may have work left
      for (hipStream_t other : *list)
        if (other->device == s->device && blocking(other)) add(other);
  } else if (blocking(s)) {
    add(streams().null[size_t(s->device)]);
  }
  return points;
}

bool reached(const std::vector<Point> &points) {
  return std::all_of(points.begin(), points.end(), [](const Point &p) { return p.reached(); });
}

} // namespace

hipStream_t valid(hipStream_t stream) {
  if (!stream) return streams().null[size_t(current_device())];
  auto &live = streams().live;
  return std::find(live.begin(), live.end(), stream) != live.end() ? stream : nullptr;
}

hipStream_t take_stream(int device, unsigned flags) {
  auto &spare = streams().spare;
  auto idle = [](hipStream_t s) { return s->done == s->last; };
  auto it = std::find_if(spare.begin(), spare.end(), idle);
  hipStream_t s;
  if (it == spare.end()) {
    s = new ihipStream_t(device, flags);
  } else {
    s = *it;
    spare.erase(it);
    s->device = device;
    s->flags = flags;
  }
  streams().live.push_back(s);
  return s;
}
void give_back(hipStream_t s) {
  auto &live = streams().live;
  live.erase(std::find(live.begin(), live.end(), s));
  streams().spare.push_back(s);
}

Point enqueue(hipStream_t s, Work *work, std::vector<Point> after) {
  for (const Point &p : implied(s)) after.push_back(p);
  s->queue.push_back({work, std::move(after)});
  if (!s->threaded) {
    s->threaded = true;
    start_thread(stream_thread, s);
  }
  s->wake.notify_one();
  return {s, ++s->last};
}

void wait(std::unique_lock<std::mutex> &lock, const std::vector<Point> &points) {
  for (const Point &p : points)
    if (p.stream) p.stream->moved.wait(lock, [&] { return p.reached(); });
}

std::vector<Point> all_of(hipStream_t s) {
  std::vector<Point> points = is_null(s) ? implied(s) : std::vector<Point>();
  points.push_back({s, s->last});
  return points;
}

hipError_t submit(hipStream_t stream, Work *work, bool wait_for_it) {
  std::unique_lock lock(runtime().mutex);
  hipStream_t s = valid(stream);
  hipError_t error = s ? implicit(s) : hipErrorInvalidHandle;
  if (!error && s->capture) {
    if (s->capture->invalid)
      error = hipErrorStreamCaptureInvalidated;
    else if (wait_for_it)
      error = capture_error(s, hipErrorStreamCaptureUnsupported);
    else
      add_node(s, work);
    if (!error) return hipSuccess;
  }
  if (error) {
    drop(work);
    return error;
  }
  if (!wait_for_it) {
    enqueue(s, work);
    return hipSuccess;
  }
  if (s->done == s->last && !s->held && reached(implied(s))) { // then its thread is not needed
    s->held = true;
    s->last++;
    lock.unlock();
    work->run();
    drop(work);
    lock.lock();
    s->held = false;
    finish(s);
    s->wake.notify_one();
  } else {
    wait(lock, {enqueue(s, work)});
  }
  return hipSuccess;
}

hipError_t device_of(hipStream_t stream, int *device) {
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = valid(stream);
  if (!s) return hipErrorInvalidHandle;
  *device = s->device;
  return hipSuccess;
}

void wait_for_device(int device) {
  std::unique_lock lock(runtime().mutex);
  std::vector<Point> points;
  for (auto *list : {&streams().live, &streams().spare, &streams().null})
    for (hipStream_t s : *list)
      if (s->device == device) points.push_back({s, s->last});
  wait(lock, points);
}

} // namespace impl

using impl::done, impl::runtime, impl::streams;

namespace {

// Finds the stream for a call that waits for it or asks about it; an error if there is none, or it
// is captured.
hipError_t look_up(hipStream_t *stream) {
  hipStream_t s = *stream = impl::valid(*stream);
  if (!s) return hipErrorInvalidHandle;
  if (s->capture) return impl::capture_error(s, hipErrorStreamCaptureUnsupported);
  return impl::implicit(s);
}

} // namespace

inline namespace names {

hipError_t hipDeviceSynchronize() {
  HIP_ENTER_UNLESS_CAPTURING();
  impl::wait_for_device(impl::current_device());
  return hipSuccess;
}

hipError_t hipStreamCreate(hipStream_t *stream) {
  HIP_ENTER();
  return hipStreamCreateWithPriority(stream, hipStreamDefault, 0);
}
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags) {
  HIP_ENTER();
  return hipStreamCreateWithPriority(stream, flags, 0);
}
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int) {
  HIP_ENTER();
  if (!stream || flags > hipStreamNonBlocking) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  *stream = impl::take_stream(impl::current_device(), flags);
  return hipSuccess;
}
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
  HIP_ENTER();
  if (least) *least = 0;
  if (greatest) *greatest = 0;
  return hipSuccess;
}
// Its work is done all the same.
hipError_t hipStreamDestroy(hipStream_t stream) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  if (!stream || !impl::valid(stream)) return done(hipErrorInvalidHandle);
  if (stream->capture) return done(impl::capture_error(stream, hipErrorStreamCaptureUnsupported));
  impl::give_back(stream);
  return hipSuccess;
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  HIP_ENTER();
  std::unique_lock lock(runtime().mutex);
  if (hipError_t error = look_up(&stream)) return done(error);
  impl::wait(lock, impl::all_of(stream));
  return hipSuccess;
}
hipError_t hipStreamQuery(hipStream_t stream) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  if (hipError_t error = look_up(&stream)) return done(error);
  return impl::reached(impl::all_of(stream)) ? hipSuccess : hipErrorNotReady;
}
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = impl::valid(stream);
  if (!s) return done(hipErrorInvalidHandle);
  if (!flags) return done(hipErrorInvalidValue);
  *flags = s->flags;
  return hipSuccess;
}
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *data) {
  HIP_ENTER();
  if (!function) return done(hipErrorInvalidValue);
  return done(impl::submit(stream, impl::work([=] { function(data); }), false));
}

} // namespace names
} // namespace hip_cpu
