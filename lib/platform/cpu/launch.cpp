// SPDX-License-Identifier: MIT
// Launches, and the threads of a device: each runs one block after the other, of the oldest launch
// that has any left.
#include "launch.hpp"
#include "sanitize.hpp"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>

namespace hip_cpu {
namespace impl {

void start_thread(void *(*f)(void *), void *argument) {
  sigset_t most, before;
  sigfillset(&most);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&most, fault);
  pthread_sigmask(SIG_SETMASK, &most, &before);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  const cpu_set_t &cores = runtime().cores;
  if (CPU_COUNT(&cores)) pthread_attr_setaffinity_np(&attr, sizeof cores, &cores);
  pthread_t thread;
  if (pthread_create(&thread, &attr, f, argument)) {
    fprintf(stderr, "hip: no more threads\n");
    abort();
  }
  pthread_attr_destroy(&attr);
  pthread_detach(thread); // it ends with the process
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

namespace {

// TSan has room for 8000 fibers in a process.
constexpr uint64_t capacity = with_tsan ? compute_units : compute_units * blocks_per_unit;

// A cooperative launch starts when there is room for all of it, and nothing overtakes it.
Launch *take_block(Device &d) {
  if (d.waiting.empty() || d.resident == capacity) return nullptr;
  Launch *l = d.waiting.front();
  if (l->cooperative && l->started == 0 && d.resident + l->blocks > capacity) return nullptr;
  if (runtime().one_kernel && l->started == 0 && d.resident) return nullptr;
  if (++l->started == l->blocks) d.waiting.pop_front();
  d.resident++;
  return l;
}

void run_taken(std::unique_lock<std::mutex> &lock, Device &d, Launch &l) {
  const uint64_t block = l.started - 1;
  lock.unlock();
  run_block(l, block);
  lock.lock();
  d.resident--;
  if (--l.left == 0) l.ended.notify_one();
  if (!d.waiting.empty()) d.wake.notify_all();
}

void *device_thread(void *argument) {
  Device &d = *static_cast<Device *>(argument);
  std::unique_lock lock(runtime().mutex);
  for (;;)
    if (Launch *l = take_block(d))
      run_taken(lock, d, *l);
    else
      d.wake.wait(lock);
}

// Starts threads, one for each block that could be resident and is on no thread of a stream.
void wake_threads(Device &d) {
  uint64_t blocks = d.resident - d.on_streams;
  for (const Launch *l : d.waiting) blocks += l->blocks - l->started;
  for (; d.threads < std::min(blocks, capacity); d.threads++) start_thread(device_thread, &d);
  if (!d.waiting.empty()) d.wake.notify_all();
}

struct KernelWork : Work {
  Kernel *kernel;
  LaunchShape shape;
  KernelWork(Kernel *kernel, const LaunchShape &shape) : kernel(kernel), shape(shape) {}
  ~KernelWork() override { kernel->destroy(kernel); }

  // The thread of its stream runs blocks of this launch too, so that a launch of one block wakes no
  // other thread (2 cores, 2026-11: launch and synchronize 13 us, 150 us otherwise). Not under
  // TSan, where each thread that runs blocks costs fibers.
  void run() override {
    Launch l(kernel, shape);
    Device &d = runtime().device[l.device];
    std::unique_lock lock(runtime().mutex);
    d.waiting.push_back(&l);
    bool first = true;
    while (!with_tsan && l.started < l.blocks && d.waiting.front() == &l && take_block(d)) {
      d.on_streams++;
      if (std::exchange(first, false)) wake_threads(d);
      run_taken(lock, d, l);
      d.on_streams--;
    }
    wake_threads(d);
    l.ended.wait(lock, [&] { return l.left == 0; });
  }
};

hipError_t check(dim3 grid, dim3 block, size_t shared, bool cooperative) {
  const uint64_t most = max_block, blocks = uint64_t(grid.x) * grid.y; // no overflow: 32 bits each
  if (!block.x || !block.y || !block.z || block.x > most || block.y > most || block.z > most ||
      block.x * block.y * uint64_t(block.z) > most)
    return hipErrorInvalidConfiguration;
  if (!blocks || !grid.z || blocks > 0x7fffffff || blocks * grid.z > 0x7fffffff)
    return hipErrorInvalidConfiguration;
  if (shared > shared_bytes) return hipErrorInvalidValue;
  if (cooperative && blocks * grid.z > capacity) return hipErrorCooperativeLaunchTooLarge;
  return hipSuccess;
}

} // namespace
} // namespace impl

using impl::done;

hipError_t launch(Kernel *kernel, dim3 grid, dim3 block, size_t shared, hipStream_t stream,
                  bool cooperative) {
  hipError_t error = impl::enter(cooperative ? "hipLaunchCooperativeKernel" : "hipLaunchKernel");
  int device = 0;
  if (!error) error = impl::check(grid, block, shared, cooperative);
  if (!error) error = impl::device_of(stream, &device);
  if (error) {
    kernel->destroy(kernel);
    return done(error);
  }
  return done(impl::submit(stream,
                           new impl::KernelWork(kernel, {grid, block, shared, cooperative, device,
                                                         uint64_t(grid.x) * grid.y * grid.z}),
                           false));
}

inline namespace names {

hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
                                                        int threads, size_t shared) {
  HIP_ENTER();
  if (!blocks || !kernel || threads < 1) return done(hipErrorInvalidValue);
  const bool fits = threads <= impl::max_block && shared <= impl::shared_bytes;
  *blocks = fits ? int(impl::capacity) / impl::compute_units : 0;
  return hipSuccess;
}

} // namespace names
} // namespace hip_cpu
