// SPDX-License-Identifier: MIT
// Streams, events and captures, all under the runtime's lock. A stream numbers its work and does it
// in order, so a point in it is a stream and a number. Streams and events are used again but never
// freed: a number of an earlier life counts as reached.
#pragma once
#include "internal.hpp"
#include <deque>

namespace hip_cpu {
namespace impl {

struct Point {
  hipStream_t stream = nullptr;
  uint64_t number = 0;

  bool reached() const;
};

struct Op {
  Work *work; // NULL: only the order
  std::vector<Point> after;
};

// A step of a graph, after others with smaller indices.
struct Node {
  Work *work;
  std::vector<size_t> after;
};

struct Capture {
  uint64_t id;
  hipStreamCaptureMode mode;
  hipStream_t origin;
  pthread_t thread;
  bool invalid;
  std::vector<Node> nodes;
  std::vector<hipStream_t> streams; // with origin
};

struct Streams {
  std::vector<hipStream_t> live, spare, null; // null: by device
  std::vector<hipEvent_t> events, spare_events;
  std::vector<Capture *> captures;
  std::atomic<int> capturing{0};
  uint64_t next_id = 1;
};

} // namespace impl

} // namespace hip_cpu

struct ihipStream_t {
  int device;
  unsigned flags;
  bool threaded = false; // has its thread
  bool held = false;     // a thread of the program does its work itself
  uint64_t last = 0, done = 0;
  std::deque<hip_cpu::impl::Op> queue;
  std::condition_variable wake, moved; // more to do, more done
  hip_cpu::impl::Capture *capture = nullptr;
  std::vector<size_t> nodes; // of the capture, that what comes next is after

  ihipStream_t(int device, unsigned flags) : device(device), flags(flags) {}
};

namespace hip_cpu {
inline namespace names {

struct ihipEvent_t {
  unsigned flags;
  impl::Point at; // its last record
  long ns;
  uint64_t capture; // the id of the capture that it was last recorded in, or 0
  std::vector<size_t> nodes;
};

} // namespace names

namespace impl {

// All under the lock.
inline bool Point::reached() const {
  return !stream || stream->done >= number;
}
Streams &streams();
hipStream_t
valid(hipStream_t stream); // that of the current device for NULL; NULL if there is none such
hipStream_t take_stream(int device, unsigned flags);
void give_back(hipStream_t stream);
Point enqueue(hipStream_t stream, Work *work, std::vector<Point> after = {});
void wait(std::unique_lock<std::mutex> &lock, const std::vector<Point> &points);
std::vector<Point> all_of(hipStream_t stream); // what its synchronization waits for
void add_node(hipStream_t stream, Work *work);
hipError_t capture_error(hipStream_t stream, hipError_t error); // the capture is void from then on
// The error of a call that would wait for a capture.
hipError_t implicit(hipStream_t stream);

} // namespace impl
} // namespace hip_cpu
