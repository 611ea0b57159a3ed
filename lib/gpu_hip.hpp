// SPDX-License-Identifier: MIT
// What the files that call HIP share, gpu*.cpp and stream.cpp: errors, the thread's device,
// streams, and the parts of gpu.cpp that have files of their own.
#pragma once
#include "gpu.hpp"
#include "log.hpp"
#include <hip/hip_runtime_api.h>

namespace shmem::gpu {

extern int chosen; // that this PE has chosen, or -1

// Ends the job with the call and what it was for when it has failed.
#define MUST(call, format, ...)                                                                    \
  do {                                                                                             \
    if (hipError_t error_ = (call); error_ != hipSuccess)                                          \
      ::shmem::fatal("GPU %d: " format ": %s", ::shmem::gpu::chosen, ##__VA_ARGS__,                \
                     hipGetErrorString(error_));                                                   \
  } while (0)

// Whether a call has succeeded that may fail. HIP 7 and CUDA keep an error until a thread asks for
// it, so this one is cleared.
inline bool tried(hipError_t error) {
  if (error != hipSuccess) (void)hipGetLastError();
  return error == hipSuccess;
}

// A stream of the library's own. It must go on while kernels of the program wait for its work.
// AMD's runtime has four queues for the streams of each priority (GPU_MAX_HW_QUEUES), and work in a
// queue waits behind a kernel that waits. Programs seldom have streams of the highest priority, so
// this is one.
hipStream_t make_stream();

// HIP's current device belongs to the thread. While this lives, it is the library's device.
class OnDevice {
  int before = -1;

public:
  OnDevice() {
    if (!tried(hipGetDevice(&before))) before = -1;
    if (before != chosen) MUST(hipSetDevice(chosen), "hipSetDevice");
  }
  ~OnDevice() {
    if (before >= 0 && before != chosen) tried(hipSetDevice(before));
  }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;
};

// Host memory that the GPU reads and writes too, at the address `there`.
void *shared_memory(size_t bytes, void **there);

// The library's own stream for copies, which waits for no other stream. Each progress thread has
// one, so that it waits for no copy of another thread or of the program.
hipStream_t stream();
enum class Copier { program, ring, deferred, count };
void own_stream(Copier thread);
// To be called before kernels run. Creating a stream can block behind another thread's
// hipDeviceSynchronize (ROCm 5.2, 2026-11-23).
void make_own_streams();
void drop_streams(); // and those of teams

// Opens a heap that grows, see gpu_grow.cpp: of `first` bytes now and up to `upto` later, with
// `front` bytes before it. Rounds both up. starts: where each PE's heap of the node is mapped here.
// Returns how large the heap may become; 0 on all PEs, with nothing left behind, if it cannot grow.
size_t open_chunks(size_t &front, size_t &first, size_t upto, std::vector<uintptr_t> &starts);

// MB/s one way from this PE's GPU to the GPU of PE pe's device heap, or 0 where all data goes
// through a switch.
double rate_to(int pe);

// The visible devices that this PE may take, one bit each: SHMEM_DEVICE, or the nearest.
uint64_t nearest_devices(int visible);

// Publishes to kernels what they know of the job. To be called once the heap and the flags are
// mapped.
struct Flags {
  char *own;             // arrived, epoch, claimed
  const uintptr_t *peer; // the others', as mapped here
};
void publish(const Flags &flags);
void unpublish();
size_t flag_bytes();
// Starts to listen to kernels. Returns where they write, at its address on the device.
device::Report *open_reports();
void close_reports();
// Makes the ring for requests at PEs that are not mapped. flag_there gives the offset among the
// flags of PE pe of a flag that this PE has at `at`. Both PEs are in the team of the flag.
device::Ring open_ring(uint64_t (*flag_there)(uint64_t at, int pe));
void close_ring();
// Starts to do deferred work. offered: on the device, see device::Tickets.
void open_deferred(device::Served *served, uint64_t *offered);
void close_deferred();
size_t trial_at(); // in the flags: room to try out the mappings, up to their end

} // namespace shmem::gpu
