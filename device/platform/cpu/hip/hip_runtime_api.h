// SPDX-License-Identifier: MIT
// HIP's host interface on a machine without a GPU: a device is a number of host threads, its memory
// is shared memory of the process, and a handle for other processes leads to its descriptor. Calls
// and errors are HIP's, and so is their order in time: streams have threads of their own.
//
// The environment, read at the first call:
//   SHMEM_CPU_DEVICES      how many devices there are, 1 if unset; 0: every call says
//                          hipErrorNoDevice
//   SHMEM_CPU_NO_PEER      pairs of devices without access to each other: "0-1,2-3"; 0-0 is a
//                          device whose memory no other process can map
//   SHMEM_CPU_HOST_ACCESS  0: the devices say that the CPU cannot load and store their memory
//   SHMEM_CPU_FAIL         calls that fail, see hip_cpu::fail_call:
//                          "hipMalloc:3:hipErrorOutOfMemory,..."
//
// Differences from a GPU: all devices of the process share a __device__ variable, and kernels reach
// all memory and functions of the host.
#pragma once
#ifndef __HIP_PLATFORM_CPU__
#define __HIP_PLATFORM_CPU__
#endif
#include <cstddef>
#include <cstdint>

struct ihipStream_t; // not in a namespace: a C program names it, too

#pragma GCC visibility push(default)
namespace hip_cpu {

// The names that a HIP program sees without a qualifier. The rest of hip_cpu would clash (unistd.h
// has a pause of its own).
inline namespace names {

enum [[nodiscard]] hipError_t : int{
#define HIP_ERROR(name, number, text) name = number,
#include "errors.def"
#undef HIP_ERROR
    hipErrorMemoryAllocation = hipErrorOutOfMemory,
    hipErrorInitializationError = hipErrorNotInitialized,
    hipErrorMapBufferObjectFailed = hipErrorMapFailed,
    hipErrorInvalidResourceHandle = hipErrorInvalidHandle,
};

using ::ihipStream_t;
struct ihipEvent_t;
struct ihipGraph_t;
struct ihipGraphExec_t;
struct ihipGraphNode_t;
using hipStream_t = ihipStream_t *;
using hipEvent_t = ihipEvent_t *;
using hipGraph_t = ihipGraph_t *;
using hipGraphExec_t = ihipGraphExec_t *;
using hipGraphNode_t = ihipGraphNode_t *;
using hipDevice_t = int;
using hipDeviceptr_t = void *;
using hipHostFn_t = void (*)(void *);

struct dim3 {
  uint32_t x, y, z;
  constexpr dim3(uint32_t vx = 1, uint32_t vy = 1, uint32_t vz = 1) : x(vx), y(vy), z(vz) {}
};

// Errors
hipError_t hipGetLastError();
hipError_t hipPeekAtLastError();
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);

// Devices
struct hipUUID {
  char bytes[16];
};
struct hipDeviceProp_t {
  char name[256], gcnArchName[256];
  size_t totalGlobalMem, sharedMemPerBlock, maxSharedMemoryPerMultiProcessor;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor;
  int clockRate, clockInstructionRate; // kHz
  int pciDomainID, pciBusID, pciDeviceID;
  int isLargeBar, integrated, canMapHostMemory, managedMemory, cooperativeLaunch, concurrentKernels;
  int l2CacheSize, ECCEnabled, asicRevision;
};
enum hipDeviceAttribute_t {
  hipDeviceAttributeClockRate,
  hipDeviceAttributeComputeCapabilityMajor,
  hipDeviceAttributeComputeCapabilityMinor,
  hipDeviceAttributeCooperativeLaunch,
  hipDeviceAttributeIntegrated,
  hipDeviceAttributeIsLargeBar,
  hipDeviceAttributeMaxSharedMemoryPerBlock,
  hipDeviceAttributeMaxThreadsPerBlock,
  hipDeviceAttributeMaxThreadsPerMultiProcessor,
  hipDeviceAttributeMultiprocessorCount,
  hipDeviceAttributeWallClockRate,
  hipDeviceAttributeWarpSize,
};
hipError_t hipRuntimeGetVersion(int *version);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipGetDeviceProperties(hipDeviceProp_t *prop, int device);
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device);
hipError_t hipDeviceGetPCIBusId(char *id, int length, int device);
hipError_t hipDeviceGetByPCIBusId(int *device, const char *id);
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device);
hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer);
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags);
hipError_t hipDeviceDisablePeerAccess(int peer);
hipError_t hipExtGetLinkTypeAndHopCount(int device1, int device2, uint32_t *type, uint32_t *hops);
hipError_t hipMemGetInfo(size_t *free, size_t *total);
hipError_t hipDeviceSynchronize();
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
                                                        int threads, size_t shared);

// Memory
inline constexpr unsigned hipHostMallocDefault = 0, hipHostMallocPortable = 1,
                          hipHostMallocMapped = 2, hipHostMallocWriteCombined = 4,
                          hipHostMallocNumaUser = 0x20000000, hipHostMallocCoherent = 0x40000000,
                          hipHostMallocNonCoherent = 0x80000000;
inline constexpr unsigned hipHostRegisterDefault = 0, hipHostRegisterPortable = 1,
                          hipHostRegisterMapped = 2, hipHostRegisterIoMemory = 4;
inline constexpr unsigned hipDeviceMallocDefault = 0, hipDeviceMallocFinegrained = 1,
                          hipMallocSignalMemory = 2, hipDeviceMallocUncached = 3,
                          hipDeviceMallocContiguous = 4;
inline constexpr unsigned hipIpcMemLazyEnablePeerAccess = 1;
inline constexpr unsigned hipMemAttachGlobal = 1, hipMemAttachHost = 2, hipMemAttachSingle = 4;

enum hipMemcpyKind {
  hipMemcpyHostToHost = 0,
  hipMemcpyHostToDevice = 1,
  hipMemcpyDeviceToHost = 2,
  hipMemcpyDeviceToDevice = 3,
  hipMemcpyDefault = 4,
};
enum hipMemoryType {
  hipMemoryTypeUnregistered = 0,
  hipMemoryTypeHost = 1,
  hipMemoryTypeDevice = 2,
  hipMemoryTypeManaged = 3,
};
struct hipPointerAttribute_t {
  hipMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
  int isManaged;
  unsigned allocationFlags;
};
struct hipIpcMemHandle_t {
  char reserved[64];
};
hipError_t hipMalloc(void **p, size_t bytes);
hipError_t hipExtMallocWithFlags(void **p, size_t bytes, unsigned flags);
hipError_t hipFree(void *p);
hipError_t hipHostMalloc(void **p, size_t bytes, unsigned flags = hipHostMallocDefault);
hipError_t hipHostFree(void *p);
hipError_t hipHostRegister(void *p, size_t bytes, unsigned flags);
hipError_t hipHostUnregister(void *p);
hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t p);
// For memory that HIP does not know it gives hipSuccess and hipMemoryTypeUnregistered, as ROCm does
// from 7 on.
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *p);
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *p);
hipError_t hipIpcOpenMemHandle(void **p, hipIpcMemHandle_t handle, unsigned flags);
hipError_t hipIpcCloseMemHandle(void *p);

// Addresses and memory apart
struct ihipMemGenericAllocationHandle;
using hipMemGenericAllocationHandle_t = ihipMemGenericAllocationHandle *;
enum hipMemAllocationType { hipMemAllocationTypeInvalid = 0, hipMemAllocationTypePinned = 1 };
enum hipMemLocationType { hipMemLocationTypeInvalid = 0, hipMemLocationTypeDevice = 1 };
enum hipMemAllocationHandleType {
  hipMemHandleTypeNone = 0,
  hipMemHandleTypePosixFileDescriptor = 1,
};
enum hipMemAllocationGranularity_flags {
  hipMemAllocationGranularityMinimum = 0,
  hipMemAllocationGranularityRecommended = 1,
};
enum hipMemAccessFlags {
  hipMemAccessFlagsProtNone = 0,
  hipMemAccessFlagsProtRead = 1,
  hipMemAccessFlagsProtReadWrite = 3,
};
struct hipMemLocation {
  hipMemLocationType type;
  int id;
};
struct hipMemAllocationProp {
  hipMemAllocationType type;
  hipMemAllocationHandleType requestedHandleType;
  hipMemLocation location;
};
struct hipMemAccessDesc {
  hipMemLocation location;
  hipMemAccessFlags flags;
};
hipError_t hipMemGetAllocationGranularity(size_t *bytes, const hipMemAllocationProp *prop,
                                          hipMemAllocationGranularity_flags option);
hipError_t hipMemAddressReserve(void **p, size_t bytes, size_t align, void *at,
                                unsigned long long flags);
hipError_t hipMemAddressFree(void *p, size_t bytes);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                        const hipMemAllocationProp *prop, unsigned long long flags);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle);
hipError_t hipMemExportToShareableHandle(void *to, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type, unsigned long long flags);
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *from,
                                           hipMemAllocationHandleType type);
hipError_t hipMemMap(void *p, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags);
hipError_t hipMemSetAccess(void *p, size_t bytes, const hipMemAccessDesc *desc, size_t count);
hipError_t hipMemUnmap(void *p, size_t bytes);

// Copies
hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream = nullptr);
hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                       size_t height, hipMemcpyKind kind);
hipError_t hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t height, hipMemcpyKind kind,
                            hipStream_t stream = nullptr);
hipError_t hipMemset(void *to, int byte, size_t bytes);
hipError_t hipMemsetAsync(void *to, int byte, size_t bytes, hipStream_t stream = nullptr);
hipError_t hipGetSymbolAddress(void **p, const void *symbol);
hipError_t hipMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset = 0,
                             hipMemcpyKind kind = hipMemcpyHostToDevice);
hipError_t hipMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset = 0,
                               hipMemcpyKind kind = hipMemcpyDeviceToHost);

// Streams and events
inline constexpr unsigned hipStreamDefault = 0, hipStreamNonBlocking = 1;
inline constexpr unsigned hipEventDefault = 0, hipEventBlockingSync = 1, hipEventDisableTiming = 2,
                          hipEventInterprocess = 4;
hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority);
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags = 0);
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *data);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream = nullptr);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop);

// Graphs
enum hipStreamCaptureMode {
  hipStreamCaptureModeGlobal,
  hipStreamCaptureModeThreadLocal,
  hipStreamCaptureModeRelaxed,
};
enum hipStreamCaptureStatus {
  hipStreamCaptureStatusNone,
  hipStreamCaptureStatusActive,
  hipStreamCaptureStatusInvalidated,
};
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status);
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode);
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *n);
hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *error_node,
                               char *log, size_t log_bytes);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph,
                                        unsigned long long flags);
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphExecDestroy(hipGraphExec_t exec);
hipError_t hipGraphDestroy(hipGraph_t graph);

#pragma GCC visibility pop
template <class T> hipError_t hipMalloc(T **p, size_t bytes) {
  return hipMalloc(reinterpret_cast<void **>(p), bytes);
}
// The host reaches all memory of a device, and moves none.
template <class T> hipError_t hipMallocManaged(T **p, size_t bytes, unsigned = hipMemAttachGlobal) {
  return hipMalloc(reinterpret_cast<void **>(p), bytes);
}
template <class T>
hipError_t hipHostMalloc(T **p, size_t bytes, unsigned flags = hipHostMallocDefault) {
  return hipHostMalloc(reinterpret_cast<void **>(p), bytes, flags);
}

// A symbol is the variable itself; its address works too.
#define HIP_SYMBOL(variable) variable
template <class T> hipError_t hipGetSymbolAddress(void **p, const T &symbol) {
  return hipGetSymbolAddress(p, static_cast<const void *>(&symbol));
}
template <class T>
hipError_t hipMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                             hipMemcpyKind kind = hipMemcpyHostToDevice) {
  return hipMemcpyToSymbol(static_cast<const void *>(&symbol), from, bytes, offset, kind);
}
template <class T>
hipError_t hipMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                               hipMemcpyKind kind = hipMemcpyDeviceToHost) {
  return hipMemcpyFromSymbol(to, static_cast<const void *>(&symbol), bytes, offset, kind);
}
template <class... P>
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...),
                                                        int threads, size_t shared) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, reinterpret_cast<const void *>(kernel), threads, shared);
}

} // namespace names

// The nth call of that name in this process, counted from now, does nothing and returns the error.
// Launches are "hipLaunchKernel". Without a name: none fails any more.
__attribute__((visibility("default"))) void fail_call(const char *call, int nth, hipError_t error);

} // namespace hip_cpu
using namespace hip_cpu::names;
