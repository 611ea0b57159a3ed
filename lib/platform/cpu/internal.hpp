// SPDX-License-Identifier: MIT
// What the files of the cpu platform share. One lock guards everything that has no other.
#pragma once
#include <atomic>
#include <condition_variable>
#include <hip/hip_runtime_api.h>
#include <map>
#include <mutex>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

namespace hip_cpu::impl {

inline constexpr int compute_units = 4, blocks_per_unit = 2, warp_size = 64, max_block = 1024;
inline constexpr size_t shared_bytes = 65536;

struct Allocation {
  enum MemoryKind {
    device,
    host,
    registered,
    imported,
    reserved
  } kind;               // reserved: see virtual.cpp
  size_t bytes, mapped; // as asked for; in pages, which is what lies there
  int on;               // the device
  unsigned flags;
  int fd;       // of device memory
  uint64_t tag; // of device memory: what tells it from all others of the machine
  int opens;    // of imported memory
};

struct Failure {
  std::string call;
  int calls_left;
  hipError_t error;
};

struct Device;  // launch.hpp
struct Streams; // stream.hpp

// Never destroyed, because threads of devices may outlive main. A forked child gets a new one: it
// has none of the threads, and device memory is not mapped there.
struct Runtime {
  std::mutex mutex;
  int devices;
  bool host_access;
  bool one_kernel; // runs at a time, as if each filled the device
  size_t total;    // bytes of memory, the same for each device
  std::vector<std::pair<int, int>> no_peer;
  std::map<std::pair<int, int>, bool> peers; // which have enabled access to which
  std::vector<size_t> used;                  // bytes, by device
  std::map<uintptr_t, Allocation> memory;    // by address
  std::map<uintptr_t, ihipMemGenericAllocationHandle *> chunks; // where they are mapped
  Device *device;                                               // each
  Streams *streams;
  Runtime *before; // of the parent
  cpu_set_t cores; // of the program at its start: those of a PE may become one, see lib/bind.cpp
};
Runtime &runtime();
Streams *make_streams(int devices);

hipError_t done(hipError_t error); // keeps it for hipGetLastError
// At the head of each call: an error if the call must not go on.
hipError_t enter(const char *call);
hipError_t enter_unless_capturing(const char *call);
#define HIP_ENTER()                                                                                \
  if (hipError_t refused = impl::enter(__func__)) return impl::done(refused)
#define HIP_ENTER_UNLESS_CAPTURING()                                                               \
  if (hipError_t refused = impl::enter_unless_capturing(__func__)) return impl::done(refused)

int current_device();
bool peer_access(int device, int peer); // whether the machine has it
// The allocation that p lies in, with its address. Under the lock.
std::pair<const uintptr_t, Allocation> *find(const void *p);

// Something that a stream does.
struct Work {
  std::atomic<int> users{1}; // a graph and each of its runs share it
  virtual ~Work() = default;
  virtual void run() = 0;
};
template <class F> Work *work(F function) {
  struct Function : Work {
    F function;
    explicit Function(F &&f) : function(std::move(f)) {}
    void run() override { function(); }
  };
  return new Function(std::move(function));
}
inline void drop(Work *w) {
  if (w && w->users.fetch_sub(1) == 1) delete w;
}

// Takes the work over. If `wait` is true it returns when the work is done.
hipError_t submit(hipStream_t stream, Work *work, bool wait);
bool capturing(hipStream_t stream);
hipError_t device_of(hipStream_t stream, int *device);
void wait_for_device(int device);

} // namespace hip_cpu::impl
