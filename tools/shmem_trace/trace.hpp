// SPDX-License-Identifier: MIT
// The records of the wrappers of the API's routines (generated: tools/gen.py trace).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <pshmem.h>
#include <shmemx.h>
#include <string>
#include <vector>

namespace trace {

extern const char *const names[]; // of the routines, generated
inline constexpr uint32_t user_event = ~0u;

inline uint64_t now() { // ns
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

struct Event {
  uint64_t begin, end, bytes;
  int32_t peer;  // a PE of the world, or -1
  uint32_t name; // in names, or, from the top, in the table of trace.cpp
};

extern std::atomic<bool> on;
void record(const Event &event);

// From here to the end of the block a routine runs. 63 ns with the two readings of the clock
// (2026-11, EPYC in a virtual machine).
class Call {
  Event event;

public:
  Call(uint32_t name, uint64_t bytes, int peer) : event{0, 0, bytes, peer, name} { begin(); }
  ~Call() { end(); }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

private: // not inline: there are 2,700 wrappers
  void begin();
  void end();
};

// A stream's work on the GPU: stream.cpp.
void *begin_on(shmemx_stream_t stream); // null: not to be recorded
void end_on(shmemx_stream_t stream, void *began, const Event &event);
size_t write_streams(uint64_t patience); // ns; gives how many calls have not ended by then
// Those of the tracer's own, which ROCr would count as leaked: 6.4 says so at a program's end.
void drop_events();

// A call that is given to a stream, from here to the end of the block.
class OnStream {
  Event event;
  shmemx_stream_t stream;
  void *began;

public:
  OnStream(uint32_t name, uint64_t bytes, int peer, shmemx_stream_t stream);
  ~OnStream();
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;
};

// Calls of kernels: kernel.cpp.
extern const uint32_t first_of_kernels; // in names, generated
void begin_kernels();
void write_kernels();
uint64_t finish_kernels(); // gives how many were overwritten
bool expect_kernels();     // in modules that come later; gives whether begin_kernels has to start
int queue_clock(uint64_t *result, void *stream); // 0 or a hipError_t: clock.hip
uint64_t records_wanted();                       // that there is to be room for

// A track that no thread has, and what comes on it.
struct Timed {
  Event event;
  int64_t error;      // of its time, ns
  int64_t block = -1; // of a kernel
  int wave = 0;
};
int new_track(const std::string &name);
void write_timed(int track, const std::vector<Timed> &events);

int world(shmem_ctx_t ctx, int pe); // of pe in the context's team

// The next definition of an extension, which has no second name.
void *next(const char *name);

} // namespace trace
