// SPDX-License-Identifier: MIT
// Devices: how many there are, their properties, and which of them reach each other's memory.
#include "../../../device/runtime.hpp"
#include "launch.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <unistd.h>

namespace hip_cpu {
namespace impl {

namespace {

std::atomic<Runtime *> the_runtime;
thread_local int device_of_thread;

int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

Runtime *before; // the parent's

Runtime *make_runtime() {
  auto *r = new Runtime{};
  if (before)
    r->cores = before->cores;
  else if (sched_getaffinity(0, sizeof r->cores, &r->cores) < 0)
    CPU_ZERO(&r->cores);
  r->devices = std::clamp(number("SHMEM_CPU_DEVICES", 1), 0, 64);
  r->host_access = number("SHMEM_CPU_HOST_ACCESS", 1) != 0;
  r->one_kernel = number("SHMEM_CPU_ONE_KERNEL", 0) != 0;
  r->total = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  r->used.resize(size_t(r->devices));
  r->device = new Device[size_t(r->devices)];
  r->streams = make_streams(r->devices);
  const char *pairs = getenv("SHMEM_CPU_NO_PEER");
  for (int a, b, length; pairs && sscanf(pairs, "%d-%d%n", &a, &b, &length) == 2;) {
    r->no_peer.emplace_back(a, b);
    pairs += length;
    pairs += *pairs == ',';
  }
  return r;
}

std::mutex making;

// The child has only the thread that forked, and locks and half-done work of the others. So it
// begins anew with its first call, and reads the environment again.
void start_again() {
  before = the_runtime.exchange(nullptr);
  new (&making) std::mutex;
}

Runtime &first_call() {
  std::lock_guard guard(making);
  static bool once = [] {
    pthread_atfork(nullptr, nullptr, start_again);
    return true;
  }();
  (void)once;
  Runtime *r = the_runtime;
  if (!r) {
    r = make_runtime();
    r->before = before;
    the_runtime = r;
  }
  return *r;
}

} // namespace

Runtime &runtime() {
  Runtime *r = the_runtime.load(std::memory_order_acquire);
  return r ? *r : first_call();
}

int current_device() {
  return device_of_thread;
}

bool peer_access(int device, int peer) {
  for (auto [a, b] : runtime().no_peer)
    if ((a == device && b == peer) || (a == peer && b == device)) return false;
  return true;
}

} // namespace impl

using impl::done, impl::runtime;

namespace {

bool exists(int device) {
  return device >= 0 && device < runtime().devices;
}

} // namespace

inline namespace names {

hipError_t hipRuntimeGetVersion(int *version) {
  if (!version) return done(hipErrorInvalidValue);
  *version = 70000000; // ROCm 7 is what the calls follow
  return hipSuccess;
}

hipError_t hipGetDeviceCount(int *count) {
  if (!count) return done(hipErrorInvalidValue);
  *count = 0;
  HIP_ENTER();
  *count = runtime().devices;
  return hipSuccess;
}
hipError_t hipSetDevice(int device) {
  HIP_ENTER();
  if (!exists(device)) return done(hipErrorInvalidDevice);
  impl::device_of_thread = device;
  return hipSuccess;
}
hipError_t hipGetDevice(int *device) {
  HIP_ENTER();
  if (!device) return done(hipErrorInvalidValue);
  *device = impl::device_of_thread;
  return hipSuccess;
}

hipError_t hipGetDeviceProperties(hipDeviceProp_t *prop, int device) {
  HIP_ENTER();
  if (!prop) return done(hipErrorInvalidValue);
  if (!exists(device)) return done(hipErrorInvalidDevice);
  *prop = {};
  snprintf(prop->name, sizeof prop->name, "cpu");
  snprintf(prop->gcnArchName, sizeof prop->gcnArchName, "cpu");
  prop->totalGlobalMem = runtime().total;
  prop->sharedMemPerBlock = impl::shared_bytes;
  prop->maxSharedMemoryPerMultiProcessor = impl::shared_bytes * impl::blocks_per_unit;
  prop->regsPerBlock = 65536;
  prop->warpSize = impl::warp_size;
  prop->maxThreadsPerBlock = impl::max_block;
  prop->maxThreadsPerMultiProcessor = impl::max_block * impl::blocks_per_unit;
  std::fill_n(prop->maxThreadsDim, 3, impl::max_block);
  std::fill_n(prop->maxGridSize, 3, 0x7fffffff);
  prop->major = 9;
  prop->multiProcessorCount = impl::compute_units;
  prop->clockRate = prop->clockInstructionRate = 1000000;
  prop->pciBusID = device + 1;
  prop->isLargeBar = runtime().host_access;
  prop->canMapHostMemory = prop->cooperativeLaunch = prop->concurrentKernels = 1;
  prop->l2CacheSize = 1 << 20;
  return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device) {
  HIP_ENTER();
  if (!value) return done(hipErrorInvalidValue);
  if (!exists(device)) return done(hipErrorInvalidDevice);
  switch (attribute) {
  case hipDeviceAttributeClockRate:
  case hipDeviceAttributeWallClockRate: // clock64 counts nanoseconds
    *value = 1000000;
    break;
  case hipDeviceAttributeComputeCapabilityMajor:
    *value = 9;
    break;
  case hipDeviceAttributeComputeCapabilityMinor:
    *value = 0;
    break;
  case hipDeviceAttributeCooperativeLaunch:
    *value = 1;
    break;
  case hipDeviceAttributeIntegrated: // the CPU's atomics are atomic with those of kernels
  case hipDeviceAttributeIsLargeBar:
    *value = runtime().host_access;
    break;
  case hipDeviceAttributeMaxSharedMemoryPerBlock:
    *value = int(impl::shared_bytes);
    break;
  case hipDeviceAttributeMaxThreadsPerBlock:
    *value = impl::max_block;
    break;
  case hipDeviceAttributeMaxThreadsPerMultiProcessor:
    *value = impl::max_block * impl::blocks_per_unit;
    break;
  case hipDeviceAttributeMultiprocessorCount:
    *value = impl::compute_units;
    break;
  case hipDeviceAttributeWarpSize:
    *value = impl::warp_size;
    break;
  default:
    return done(hipErrorInvalidValue);
  }
  return hipSuccess;
}

hipError_t hipDeviceGetPCIBusId(char *id, int length, int device) {
  HIP_ENTER();
  if (!exists(device)) return done(hipErrorInvalidDevice);
  if (!id || length < 13) return done(hipErrorInvalidValue);
  snprintf(id, size_t(length), "0000:%02x:00.0", device + 1);
  return hipSuccess;
}
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
  HIP_ENTER();
  if (!exists(device)) return done(hipErrorInvalidDevice);
  if (!uuid) return done(hipErrorInvalidValue);
  *uuid = {};
  snprintf(uuid->bytes, sizeof uuid->bytes, "cpu-%d", device);
  return hipSuccess;
}
hipError_t hipDeviceGetByPCIBusId(int *device, const char *id) {
  HIP_ENTER();
  unsigned bus;
  if (!device || !id || sscanf(id, "0000:%x:00.0", &bus) != 1) return done(hipErrorInvalidValue);
  if (!exists(int(bus) - 1)) return done(hipErrorInvalidDevice);
  *device = int(bus) - 1;
  return hipSuccess;
}

hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer) {
  HIP_ENTER();
  if (!can) return done(hipErrorInvalidValue);
  if (!exists(device) || !exists(peer)) return done(hipErrorInvalidDevice);
  *can = device != peer && impl::peer_access(device, peer);
  return hipSuccess;
}
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  HIP_ENTER();
  const int device = impl::current_device();
  if (flags) return done(hipErrorInvalidValue);
  if (!exists(peer) || peer == device) return done(hipErrorInvalidDevice);
  if (!impl::peer_access(device, peer)) return done(hipErrorPeerAccessUnsupported);
  std::lock_guard guard(runtime().mutex);
  bool &enabled = runtime().peers[{device, peer}];
  return done(std::exchange(enabled, true) ? hipErrorPeerAccessAlreadyEnabled : hipSuccess);
}
hipError_t hipDeviceDisablePeerAccess(int peer) {
  HIP_ENTER();
  if (!exists(peer)) return done(hipErrorInvalidDevice);
  std::lock_guard guard(runtime().mutex);
  bool &enabled = runtime().peers[{impl::current_device(), peer}];
  return done(std::exchange(enabled, false) ? hipSuccess : hipErrorPeerAccessNotEnabled);
}
hipError_t hipExtGetLinkTypeAndHopCount(int device1, int device2, uint32_t *type, uint32_t *hops) {
  HIP_ENTER();
  if (!exists(device1) || !exists(device2)) return done(hipErrorInvalidDevice);
  if (!type || !hops || device1 == device2) return done(hipErrorInvalidValue);
  *type = impl::peer_access(device1, device2) ? 4 : 2; // xGMI and PCIe, as HSA numbers them
  *hops = *type == 4 ? 1 : 2;
  return hipSuccess;
}

hipError_t hipMemGetInfo(size_t *free, size_t *total) {
  HIP_ENTER();
  if (!free || !total) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  *total = runtime().total;
  *free = *total - std::min(*total, runtime().used[size_t(impl::current_device())]);
  return hipSuccess;
}

} // namespace names
} // namespace hip_cpu

bool shmem::runtime::in_use() {
  return hip_cpu::impl::the_runtime.load(std::memory_order_acquire);
}
