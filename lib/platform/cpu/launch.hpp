// SPDX-License-Identifier: MIT
// A kernel on its way through a device.
#pragma once
#include "internal.hpp"
#include <deque>
#include <hip/hip_runtime.h>

namespace hip_cpu::impl {

struct LaunchShape {
  dim3 grid, block;
  size_t shared;
  bool cooperative;
  int device;
  uint64_t blocks;
};
// One run of it.
struct Launch : LaunchShape {
  Kernel *kernel;
  uint64_t started = 0, left;
  std::condition_variable ended;

  Launch(Kernel *kernel, const LaunchShape &shape)
      : LaunchShape(shape), kernel(kernel), left(blocks) {}
};

// The threads of a device, one for each block that can be resident.
struct Device {
  std::deque<Launch *> waiting; // with blocks that have not started, oldest first
  std::condition_variable wake;
  uint64_t threads = 0;
  uint64_t resident = 0, on_streams = 0; // blocks; those that threads of streams run
};

// block.cpp: runs all threads of one block to their end, on the calling thread.
void run_block(const Launch &launch, uint64_t number);

// Runs f(argument) on a thread that takes no signals of the program.
void start_thread(void *(*f)(void *), void *argument);

} // namespace hip_cpu::impl
