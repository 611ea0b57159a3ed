// SPDX-License-Identifier: MIT
// The HIP names in use, as CUDA 12 and 13 spell them, for nvcc and for the host compiler. A macro
// where CUDA has the same arguments, so that CUDA's templates and defaults stay; a function where
// not.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

#if defined __CUDACC__ && !defined __HIPCC__
#define __HIPCC__ 1
#endif
#if defined __CUDA_ARCH__ && !defined __HIP_DEVICE_COMPILE__
#define __HIP_DEVICE_COMPILE__ 1
#endif

// Types
#define hipError_t cudaError_t
#define hipStream_t cudaStream_t
#define hipEvent_t cudaEvent_t
#define hipGraph_t cudaGraph_t
#define hipGraphExec_t cudaGraphExec_t
#define hipGraphNode_t cudaGraphNode_t
#define hipHostFn_t cudaHostFn_t
#define hipFuncAttributes cudaFuncAttributes
#define hipFuncAttribute cudaFuncAttribute
#define hipStreamCaptureMode cudaStreamCaptureMode
#define hipStreamCaptureStatus cudaStreamCaptureStatus
#define hipIpcMemHandle_t cudaIpcMemHandle_t
#define hipIpcEventHandle_t cudaIpcEventHandle_t
#define HIP_IPC_HANDLE_SIZE CUDA_IPC_HANDLE_SIZE
#define hipMemcpyKind cudaMemcpyKind
#define hipMemoryType cudaMemoryType
using hipDevice_t = int;
struct hipUUID {
  char bytes[16];
};

// Errors
#define hipSuccess cudaSuccess
#define hipErrorOutOfMemory cudaErrorMemoryAllocation
#define hipErrorMemoryAllocation cudaErrorMemoryAllocation
#define hipErrorNotInitialized cudaErrorInitializationError
#define hipErrorInitializationError cudaErrorInitializationError
#define hipErrorDeinitialized cudaErrorCudartUnloading
#define hipErrorInvalidContext cudaErrorDeviceUninitialized
#define hipErrorInvalidHandle cudaErrorInvalidResourceHandle
#define hipErrorInvalidResourceHandle cudaErrorInvalidResourceHandle
#define hipErrorLaunchTimeOut cudaErrorLaunchTimeout
#define hipErrorNoBinaryForGpu cudaErrorNoKernelImageForDevice
#define hipErrorInvalidImage cudaErrorInvalidKernelImage
#define hipErrorNotFound cudaErrorSymbolNotFound
#define hipErrorECCNotCorrectable cudaErrorECCUncorrectable
#define hipErrorMapFailed cudaErrorMapBufferObjectFailed
#define hipErrorUnmapFailed cudaErrorUnmapBufferObjectFailed
#define hipErrorInvalidValue cudaErrorInvalidValue
#define hipErrorInvalidConfiguration cudaErrorInvalidConfiguration
#define hipErrorInvalidDevice cudaErrorInvalidDevice
#define hipErrorInvalidDeviceFunction cudaErrorInvalidDeviceFunction
#define hipErrorInvalidDevicePointer cudaErrorInvalidDevicePointer
#define hipErrorInvalidMemcpyDirection cudaErrorInvalidMemcpyDirection
#define hipErrorInvalidPitchValue cudaErrorInvalidPitchValue
#define hipErrorInvalidSymbol cudaErrorInvalidSymbol
#define hipErrorNoDevice cudaErrorNoDevice
#define hipErrorNotReady cudaErrorNotReady
#define hipErrorNotSupported cudaErrorNotSupported
#define hipErrorUnknown cudaErrorUnknown
#define hipErrorInsufficientDriver cudaErrorInsufficientDriver
#define hipErrorMissingConfiguration cudaErrorMissingConfiguration
#define hipErrorPriorLaunchFailure cudaErrorPriorLaunchFailure
#define hipErrorLaunchFailure cudaErrorLaunchFailure
#define hipErrorLaunchOutOfResources cudaErrorLaunchOutOfResources
#define hipErrorIllegalAddress cudaErrorIllegalAddress
#define hipErrorAssert cudaErrorAssert
#define hipErrorOperatingSystem cudaErrorOperatingSystem
#define hipErrorSetOnActiveProcess cudaErrorSetOnActiveProcess
#define hipErrorPeerAccessAlreadyEnabled cudaErrorPeerAccessAlreadyEnabled
#define hipErrorPeerAccessNotEnabled cudaErrorPeerAccessNotEnabled
#define hipErrorPeerAccessUnsupported cudaErrorPeerAccessUnsupported
#define hipErrorHostMemoryAlreadyRegistered cudaErrorHostMemoryAlreadyRegistered
#define hipErrorHostMemoryNotRegistered cudaErrorHostMemoryNotRegistered
#define hipErrorCooperativeLaunchTooLarge cudaErrorCooperativeLaunchTooLarge
#define hipErrorUnsupportedLimit cudaErrorUnsupportedLimit
#define hipErrorIllegalState cudaErrorIllegalState
#define hipErrorCapturedEvent cudaErrorCapturedEvent
#define hipErrorGraphExecUpdateFailure cudaErrorGraphExecUpdateFailure
#define hipErrorStreamCaptureUnsupported cudaErrorStreamCaptureUnsupported
#define hipErrorStreamCaptureInvalidated cudaErrorStreamCaptureInvalidated
#define hipErrorStreamCaptureMerge cudaErrorStreamCaptureMerge
#define hipErrorStreamCaptureUnmatched cudaErrorStreamCaptureUnmatched
#define hipErrorStreamCaptureUnjoined cudaErrorStreamCaptureUnjoined
#define hipErrorStreamCaptureIsolation cudaErrorStreamCaptureIsolation
#define hipErrorStreamCaptureImplicit cudaErrorStreamCaptureImplicit
#define hipErrorStreamCaptureWrongThread cudaErrorStreamCaptureWrongThread
#define hipGetErrorName cudaGetErrorName
#define hipGetErrorString cudaGetErrorString
#define hipGetLastError cudaGetLastError
#define hipPeekAtLastError cudaPeekAtLastError

// Devices
#define hipDriverGetVersion cudaDriverGetVersion
#define hipRuntimeGetVersion cudaRuntimeGetVersion
#define hipGetDeviceCount cudaGetDeviceCount
#define hipGetDevice cudaGetDevice
#define hipSetDevice cudaSetDevice
#define hipGetDeviceFlags cudaGetDeviceFlags
#define hipSetDeviceFlags cudaSetDeviceFlags
#define hipDeviceSynchronize cudaDeviceSynchronize
#define hipDeviceReset cudaDeviceReset
#define hipDeviceGetPCIBusId cudaDeviceGetPCIBusId
#define hipDeviceGetByPCIBusId cudaDeviceGetByPCIBusId
#define hipDeviceCanAccessPeer cudaDeviceCanAccessPeer
#define hipDeviceEnablePeerAccess cudaDeviceEnablePeerAccess
#define hipDeviceDisablePeerAccess cudaDeviceDisablePeerAccess
#define hipDeviceGetStreamPriorityRange cudaDeviceGetStreamPriorityRange
#define hipDeviceScheduleAuto cudaDeviceScheduleAuto
#define hipDeviceScheduleSpin cudaDeviceScheduleSpin
#define hipDeviceScheduleYield cudaDeviceScheduleYield
#define hipDeviceScheduleBlockingSync cudaDeviceScheduleBlockingSync

// Attributes: those that CUDA has have its numbers.
enum hipDeviceAttribute_t {
  hipDeviceAttributeMultiprocessorCount = cudaDevAttrMultiProcessorCount,
  hipDeviceAttributeMaxThreadsPerMultiProcessor = cudaDevAttrMaxThreadsPerMultiProcessor,
  hipDeviceAttributeMaxBlocksPerMultiProcessor = cudaDevAttrMaxBlocksPerMultiprocessor,
  hipDeviceAttributeEccEnabled = cudaDevAttrEccEnabled,
  hipDeviceAttributeMemoryBusWidth = cudaDevAttrGlobalMemoryBusWidth,
  hipDeviceAttributeMaxThreadsPerBlock = cudaDevAttrMaxThreadsPerBlock,
  hipDeviceAttributeMaxBlockDimX = cudaDevAttrMaxBlockDimX,
  hipDeviceAttributeMaxGridDimX = cudaDevAttrMaxGridDimX,
  hipDeviceAttributeMaxSharedMemoryPerBlock = cudaDevAttrMaxSharedMemoryPerBlock,
  hipDeviceAttributeMaxSharedMemoryPerMultiprocessor = cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  hipDeviceAttributeMaxRegistersPerBlock = cudaDevAttrMaxRegistersPerBlock,
  hipDeviceAttributeWarpSize = cudaDevAttrWarpSize,
  hipDeviceAttributeClockRate = cudaDevAttrClockRate,
  hipDeviceAttributeMemoryClockRate = cudaDevAttrMemoryClockRate,
  hipDeviceAttributeL2CacheSize = cudaDevAttrL2CacheSize,
  hipDeviceAttributeComputeCapabilityMajor = cudaDevAttrComputeCapabilityMajor,
  hipDeviceAttributeComputeCapabilityMinor = cudaDevAttrComputeCapabilityMinor,
  hipDeviceAttributePciBusId = cudaDevAttrPciBusId,
  hipDeviceAttributePciDeviceId = cudaDevAttrPciDeviceId,
  hipDeviceAttributePciDomainId = cudaDevAttrPciDomainId,
  hipDeviceAttributeIntegrated = cudaDevAttrIntegrated,
  hipDeviceAttributeCooperativeLaunch = cudaDevAttrCooperativeLaunch,
  hipDeviceAttributeCanMapHostMemory = cudaDevAttrCanMapHostMemory,
  hipDeviceAttributeManagedMemory = cudaDevAttrManagedMemory,
  hipDeviceAttributeConcurrentManagedAccess = cudaDevAttrConcurrentManagedAccess,
  hipDeviceAttributeDirectManagedMemAccessFromHost = cudaDevAttrDirectManagedMemAccessFromHost,
  hipDeviceAttributePageableMemoryAccess = cudaDevAttrPageableMemoryAccess,
  hipDeviceAttributePageableMemoryAccessUsesHostPageTables =
      cudaDevAttrPageableMemoryAccessUsesHostPageTables,
  hipDeviceAttributeUnifiedAddressing = cudaDevAttrUnifiedAddressing,
  hipDeviceAttributeHostRegisterSupported = cudaDevAttrHostRegisterSupported,
  hipDeviceAttributeComputePreemptionSupported = cudaDevAttrComputePreemptionSupported,
  hipDeviceAttributeIsLargeBar = 1 << 20, // the CPU cannot load from the memory of an NVIDIA GPU
  hipDeviceAttributeFineGrainSupport, // all its memory is fine-grained, see hipExtMallocWithFlags
  hipDeviceAttributeWallClockRate,    // kHz of %globaltimer
};
inline cudaError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device) {
  switch (attribute) {
  case hipDeviceAttributeIsLargeBar:
    return *value = 0, cudaSuccess;
  case hipDeviceAttributeFineGrainSupport:
    return *value = 1, cudaSuccess;
  case hipDeviceAttributeWallClockRate:
    return *value = 1000000, cudaSuccess;
  default:
    return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(static_cast<int>(attribute)),
                                  device);
  }
}

// What HIP has and CUDA not: the name of the architecture, and what CUDA 13 took away.
struct hipDeviceProp_t : cudaDeviceProp {
  char gcnArchName[256];
  int clockRate, memoryClockRate, isLargeBar;
  size_t maxSharedMemoryPerMultiProcessor;
};
inline cudaError_t hipGetDeviceProperties(hipDeviceProp_t *prop, int device) {
  cudaError_t error = cudaGetDeviceProperties(prop, device);
  if (!error) error = cudaDeviceGetAttribute(&prop->clockRate, cudaDevAttrClockRate, device);
  if (!error)
    error = cudaDeviceGetAttribute(&prop->memoryClockRate, cudaDevAttrMemoryClockRate, device);
  if (error) return error;
  prop->isLargeBar = 0;
  prop->maxSharedMemoryPerMultiProcessor = prop->sharedMemPerMultiprocessor;
  std::snprintf(prop->gcnArchName, sizeof prop->gcnArchName, "sm_%d%d", prop->major, prop->minor);
  return error;
}
inline cudaError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
  cudaDeviceProp prop;
  cudaError_t error = cudaGetDeviceProperties(&prop, device);
  if (!error) std::memcpy(uuid->bytes, prop.uuid.bytes, sizeof uuid->bytes);
  return error;
}
inline cudaError_t hipDeviceGet(hipDevice_t *device, int ordinal) {
  return *device = ordinal, cudaSuccess;
}
inline cudaError_t hipInit(unsigned) {
  int n;
  return cudaGetDeviceCount(&n);
}
// HSA's numbers: 4 is the GPUs' own link (NVLink here), 2 is PCIe. Atomics work between GPUs over
// NVLink only, and CUDA does not count the switches between.
inline cudaError_t hipExtGetLinkTypeAndHopCount(int device1, int device2, uint32_t *type,
                                                uint32_t *hops) {
  int atomics;
  cudaError_t error =
      cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, device1, device2);
  return error ? error : (*type = atomics ? 4 : 2, *hops = 1, cudaSuccess);
}

// Memory
#define hipMalloc cudaMalloc
#define hipFree cudaFree
#define hipMallocAsync cudaMallocAsync
#define hipFreeAsync cudaFreeAsync
#define hipMemGetInfo cudaMemGetInfo
#define hipMemcpy cudaMemcpy
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemcpyPeer cudaMemcpyPeer
#define hipMemcpyPeerAsync cudaMemcpyPeerAsync
#define hipMemcpy2D cudaMemcpy2D
#define hipMemcpy2DAsync cudaMemcpy2DAsync
#define hipMemset cudaMemset
#define hipMemsetAsync cudaMemsetAsync
#define hipMemset2D cudaMemset2D
#define hipMemset2DAsync cudaMemset2DAsync
#define hipMemcpyToSymbol cudaMemcpyToSymbol
#define hipMemcpyToSymbolAsync cudaMemcpyToSymbolAsync
#define hipMemcpyFromSymbol cudaMemcpyFromSymbol
#define hipMemcpyFromSymbolAsync cudaMemcpyFromSymbolAsync
#define hipGetSymbolAddress cudaGetSymbolAddress
#define hipGetSymbolSize cudaGetSymbolSize
#define hipMemcpyHostToHost cudaMemcpyHostToHost
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define hipMemcpyDefault cudaMemcpyDefault
#define hipHostRegister cudaHostRegister
#define hipHostUnregister cudaHostUnregister
#define hipHostGetDevicePointer cudaHostGetDevicePointer
#define hipHostRegisterDefault cudaHostRegisterDefault
#define hipHostRegisterPortable cudaHostRegisterPortable
#define hipHostRegisterMapped cudaHostRegisterMapped
#define hipHostRegisterIoMemory cudaHostRegisterIoMemory
#define hipIpcGetMemHandle cudaIpcGetMemHandle
#define hipIpcOpenMemHandle cudaIpcOpenMemHandle
#define hipIpcCloseMemHandle cudaIpcCloseMemHandle
#define hipIpcMemLazyEnablePeerAccess cudaIpcMemLazyEnablePeerAccess
#define hipMemoryTypeUnregistered cudaMemoryTypeUnregistered
#define hipMemoryTypeHost cudaMemoryTypeHost
#define hipMemoryTypeDevice cudaMemoryTypeDevice
#define hipMemoryTypeManaged cudaMemoryTypeManaged
#define hipHostFree cudaFreeHost
#define HIP_SYMBOL(x) x
enum : unsigned {
  hipHostMallocDefault = cudaHostAllocDefault,
  hipHostMallocPortable = cudaHostAllocPortable,
  hipHostMallocMapped = cudaHostAllocMapped,
  hipHostMallocWriteCombined = cudaHostAllocWriteCombined,
  hipHostMallocNumaUser = 0x20000000, // these three are no question on NVIDIA: pinned memory is
  hipHostMallocCoherent = 0x40000000, // coherent, and the NUMA policy is the caller's
  hipHostMallocNonCoherent = 0x80000000,
};
template <class T>
cudaError_t hipHostMalloc(T **p, size_t bytes, unsigned flags = hipHostMallocDefault) {
  return cudaHostAlloc(reinterpret_cast<void **>(p), bytes, flags & 7u);
}

enum : unsigned {
  hipDeviceMallocDefault = 0,
  hipDeviceMallocFinegrained = 1,
  hipMallocSignalMemory = 2,
  hipDeviceMallocUncached = 3,
};
// On AMD the flags choose how caches treat the memory. All memory of an NVIDIA GPU is what HIP
// calls fine-grained: its L2 is where peers and the host arrive, and system scope is coherent there
// while a kernel runs.
template <class T> cudaError_t hipExtMallocWithFlags(T **p, size_t bytes, unsigned) {
  return cudaMalloc(reinterpret_cast<void **>(p), bytes);
}

struct hipPointerAttribute_t {
  union {
    cudaMemoryType type;
    cudaMemoryType memoryType; // ROCm 5
  };
  int device;
  void *devicePointer, *hostPointer;
  int isManaged;
  unsigned allocationFlags;
};
inline cudaError_t hipPointerGetAttributes(hipPointerAttribute_t *to, const void *p) {
  cudaPointerAttributes from;
  cudaError_t error = cudaPointerGetAttributes(&from, p);
  if (error) return error;
  to->type = from.type;
  to->device = from.device;
  to->devicePointer = from.devicePointer;
  to->hostPointer = from.hostPointer;
  to->isManaged = from.type == cudaMemoryTypeManaged;
  to->allocationFlags = 0;
  return error;
}

// Streams, events, graphs
#define hipStreamCreate cudaStreamCreate
#define hipStreamCreateWithFlags cudaStreamCreateWithFlags
#define hipStreamCreateWithPriority cudaStreamCreateWithPriority
#define hipStreamDestroy cudaStreamDestroy
#define hipStreamSynchronize cudaStreamSynchronize
#define hipStreamQuery cudaStreamQuery
#define hipStreamWaitEvent cudaStreamWaitEvent
#define hipStreamGetFlags cudaStreamGetFlags
#define hipStreamGetPriority cudaStreamGetPriority
#define hipStreamAddCallback cudaStreamAddCallback
#define hipStreamDefault cudaStreamDefault
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipStreamPerThread cudaStreamPerThread
#define hipLaunchHostFunc cudaLaunchHostFunc
#define hipEventCreate cudaEventCreate
#define hipEventCreateWithFlags cudaEventCreateWithFlags
#define hipEventRecord cudaEventRecord
#define hipEventQuery cudaEventQuery
#define hipEventSynchronize cudaEventSynchronize
#define hipEventElapsedTime cudaEventElapsedTime
#define hipEventDestroy cudaEventDestroy
#define hipEventDefault cudaEventDefault
#define hipEventBlockingSync cudaEventBlockingSync
#define hipEventDisableTiming cudaEventDisableTiming
#define hipEventInterprocess cudaEventInterprocess
#define hipIpcGetEventHandle cudaIpcGetEventHandle
#define hipIpcOpenEventHandle cudaIpcOpenEventHandle
#define hipStreamBeginCapture cudaStreamBeginCapture
#define hipStreamEndCapture cudaStreamEndCapture
#define hipStreamIsCapturing cudaStreamIsCapturing
#define hipThreadExchangeStreamCaptureMode cudaThreadExchangeStreamCaptureMode
#define hipStreamCaptureModeGlobal cudaStreamCaptureModeGlobal
#define hipStreamCaptureModeThreadLocal cudaStreamCaptureModeThreadLocal
#define hipStreamCaptureModeRelaxed cudaStreamCaptureModeRelaxed
#define hipStreamCaptureStatusNone cudaStreamCaptureStatusNone
#define hipStreamCaptureStatusActive cudaStreamCaptureStatusActive
#define hipStreamCaptureStatusInvalidated cudaStreamCaptureStatusInvalidated
#define hipGraphLaunch cudaGraphLaunch
#define hipGraphDestroy cudaGraphDestroy
#define hipGraphExecDestroy cudaGraphExecDestroy
#define hipGraphGetNodes cudaGraphGetNodes
#define hipEventReleaseToDevice 0
#define hipEventReleaseToSystem 0
inline cudaError_t hipGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *,
                                       char *, size_t) {
  return cudaGraphInstantiate(exec, graph, 0);
}
inline cudaError_t hipGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

// Kernels
#define hipLaunchKernel cudaLaunchKernel
#define hipLaunchCooperativeKernel cudaLaunchCooperativeKernel
#define hipFuncSetAttribute cudaFuncSetAttribute
#define hipFuncGetAttributes cudaFuncGetAttributes
#define hipFuncSetCacheConfig cudaFuncSetCacheConfig
#define hipOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessor
#define hipOccupancyMaxPotentialBlockSize cudaOccupancyMaxPotentialBlockSize
#define hipFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define hipFuncAttributePreferredSharedMemoryCarveout cudaFuncAttributePreferredSharedMemoryCarveout
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#ifdef __CUDACC__
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...)                               \
  (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#endif
