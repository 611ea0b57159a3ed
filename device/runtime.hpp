// SPDX-License-Identifier: MIT
// How the runtimes of the platforms differ, for hosts; with device/platform/ the only place that
// asks which one it is.
#pragma once
#include <hip/hip_runtime_api.h>
// HIP's name for an attribute, which gcc 16's <format>, in <chrono>, has as
// [[__gnu__::__noinline__]].
#undef __noinline__

namespace shmem::runtime {

// Defaults for platforms that bring nothing of their own: a name in runtime itself hides one in
// usual.
namespace usual {

// Kernels run on a GPU, and not on threads of this process.
inline constexpr bool hardware = true;

// The device files, as a pattern of glob, that the runtime has to open before it can say more than
// "no device", and how a user gets the right to.
struct Driver {
  const char *nodes[2] = {}, *how = "";
};
inline constexpr Driver driver{};

// The runtime's library, without its version; "" where it is in every program.
inline constexpr const char *library = "";

// Whether this process has used the runtime, which the question does not start. False where nothing
// answers it.
inline bool in_use() {
  return false;
}

// Ticks a second of arch::clock.
inline constexpr double clock_rate = 1e9;

// Memory for flags that kernels poll.
inline hipError_t malloc_flags(void **p, size_t bytes, int) {
  return hipExtMallocWithFlags(p, bytes, hipDeviceMallocFinegrained);
}

// MB/s one way of a link between two GPUs like this one, where the driver does not say it; 0 where
// a switch joins the GPUs, so that one has all its links for any other.
inline double link_rate(int) {
  return 0;
}

// The address of the variable of that name in a module that the program has loaded at run time.
inline hipError_t module_global(void **, size_t *, void *, const char *) {
  return hipErrorNotSupported;
}

// A handle's memory is unmapped when it is closed.
inline constexpr bool closes_handles = true;

// Whether other GPUs cache the memory of this device at p, with their own stores to that memory,
// until a fence (arch::keeps_peers).
inline bool kept_by_peers(const void *, int) {
  return false;
}

// Memory that comes in chunks, is mapped where the caller wants it, and goes to other processes as
// a descriptor. step: of addresses and sizes; 0: there is none that peers and the host see while
// kernels run. HIP has none before 7 (hipMemAllocationTypeUncached came with 7, on which nothing of
// this has run).
using Chunk = unsigned long long;
inline size_t chunk_step(int) {
  return 0;
}
inline hipError_t reserve(void **, size_t) {
  return hipErrorNotSupported;
}
inline hipError_t give_up(void *, size_t) { // the reserved addresses
  return hipErrorNotSupported;
}
inline hipError_t create_chunk(Chunk *, size_t, int) {
  return hipErrorNotSupported;
}
inline hipError_t export_chunk(int *, Chunk) {
  return hipErrorNotSupported;
}
inline hipError_t import_chunk(Chunk *, int) { // the descriptor stays open
  return hipErrorNotSupported;
}
// For that device to read and write. It is there until it is unmapped and its handle dropped, here
// and in all who have imported it.
inline hipError_t map_chunk(void *, size_t, Chunk, int) {
  return hipErrorNotSupported;
}
inline hipError_t unmap_chunk(void *, size_t) {
  return hipErrorNotSupported;
}
inline hipError_t drop_chunk(Chunk) {
  return hipErrorNotSupported;
}

// A copy of rows by the GPU's engines.
inline hipError_t copy_2d(void *dest, size_t dest_pitch, const void *source, size_t source_pitch,
                          size_t width, size_t height, hipStream_t stream) {
  return hipMemcpy2DAsync(dest, dest_pitch, source, source_pitch, width, height, hipMemcpyDefault,
                          stream);
}

} // namespace usual
using namespace usual;

} // namespace shmem::runtime

#if defined __HIP_PLATFORM_AMD__
#include "platform/amd/runtime.hpp"
#elif defined __HIP_PLATFORM_CPU__
#include "platform/cpu/runtime.hpp"
#else
#include "platform/nvidia/runtime.hpp"
#endif

namespace shmem::runtime {

// The name of a kind of link that hipExtGetLinkTypeAndHopCount gives.
inline const char *link_name(unsigned kind) {
  constexpr const char *names[] = {"HyperTransport", "QPI", "PCIe", "InfiniBand", fast_link};
  return kind < 5 ? names[kind] : "unknown";
}

// Whether shmem_malloc takes from the device heap if the user does not say: only where the CPUs
// share that memory, because programs load and store what they get.
inline bool heap_on_device(bool all_share) {
  return all_share && runtime::hardware; // qualified, because usual has one too
}
// Whether this GPU and the CPU have one memory.
inline bool shares_memory(int device) {
  int value = 0;
  const hipError_t error = hipDeviceGetAttribute(&value, hipDeviceAttributeIntegrated, device);
  if (error != hipSuccess) (void)hipGetLastError();
  return error == hipSuccess && value;
}

} // namespace shmem::runtime
