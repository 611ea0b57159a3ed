// SPDX-License-Identifier: MIT
// HIP, for gpu*.cpp only: the library's handling of its errors and of the thread's device.
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

// Whether a call went well that may fail. HIP 7 and CUDA keep an error until somebody asks for it,
// and nobody is to meet this one.
inline bool tried(hipError_t error) {
  if (error != hipSuccess) (void)hipGetLastError();
  return error == hipSuccess;
}

// A stream of the library's own, which has to go on while kernels of the program wait for it: AMD's
// runtime gives the streams of each priority four queues (GPU_MAX_HW_QUEUES), and what a queue has
// behind a kernel that waits does so, too. Programs seldom have streams of the highest one.
hipStream_t make_stream();

// HIP's current device is the thread's. This has the library's for a while.
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

// Host memory that the GPU reads and writes too, there at another address.
void *shared_memory(size_t bytes, void **there);

// The library's own for its copies, which waits for no other. Its threads have one each, so that
// none waits for what another, or the program, copies.
hipStream_t stream();
enum class Copier { program, ring, errands, count };
void own_stream(Copier thread);
// Before kernels run: who makes a stream may wait for who waits for all of them (on ROCm 5.2 a
// thread of the library did so for a program in hipDeviceSynchronize, 2026-11-23).
void make_own_streams();
void drop_streams(); // and those of teams

// A heap that grows, see gpu_grow.cpp: so many bytes at the start, which may become some more, up
// to so many, and where each PE of the node has its own, here. `front`, which may become more, too,
// is there before each heap. Gives what it may grow to; 0, on all PEs alike and with nothing left,
// where it cannot.
size_t open_chunks(size_t &front, size_t &first, size_t upto, std::vector<uintptr_t> &starts);

// MB/s one way from this PE's GPU to the one where PE pe has its device heap, or 0: all that leaves
// it goes through a switch.
double rate_to(int pe);

// The visible devices that this PE may take, one bit each: SHMEM_DEVICE, or the nearest.
uint64_t nearest_devices(int visible);

// What kernels know of the job. Called once the heap and the flags are mapped.
struct Flags {
  char *own;             // arrived, epoch, claimed
  const uintptr_t *peer; // the others', as mapped here
};
void publish(const Flags &flags);
void unpublish();
size_t flag_bytes();
// Starts to listen to kernels; gives where they write, by the device's address of it.
device::Report *open_reports();
void close_reports();
// Starts to do what kernels ask for that is for PEs that are not mapped. flag_there: where in a
// PE's flags that lies which is at `at` in this PE's. Both PEs are in the team whose flag it is.
device::Ring open_ring(uint64_t (*flag_there)(uint64_t at, int pe));
void close_ring();
// Starts to do what other nodes ask for, see Task.
void open_errands(device::Served *served, uint64_t *bell);
void close_errands();
size_t trial_at(); // in the flags: room to try out the mappings, up to their end

} // namespace shmem::gpu
