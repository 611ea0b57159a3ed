// SPDX-License-Identifier: MIT
// The HIP names that the library, its tools and examples use, and a few more that programs do, as
// CUDA 12 and 13 spell them, for nvcc and for the host compiler. A macro where CUDA has the same
// arguments, so that CUDA's templates and defaults stay; a function where not.
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
#define hipStreamCaptureStatus cudaStreamCaptureStatus
#define hipIpcMemHandle_t cudaIpcMemHandle_t
#define hipMemcpyKind cudaMemcpyKind
using hipDevice_t = int;
struct hipUUID {
  char bytes[16];
};

// Errors
#define hipSuccess cudaSuccess
#define hipErrorOutOfMemory cudaErrorMemoryAllocation
#define hipErrorMemoryAllocation cudaErrorMemoryAllocation
#define hipErrorInvalidValue cudaErrorInvalidValue
#define hipErrorNoDevice cudaErrorNoDevice
#define hipErrorNotReady cudaErrorNotReady
#define hipErrorNotSupported cudaErrorNotSupported
#define hipErrorUnknown cudaErrorUnknown
#define hipErrorLaunchFailure cudaErrorLaunchFailure
#define hipGetErrorName cudaGetErrorName
#define hipGetErrorString cudaGetErrorString
#define hipGetLastError cudaGetLastError
#define hipPeekAtLastError cudaPeekAtLastError

// Devices
#define hipRuntimeGetVersion cudaRuntimeGetVersion
#define hipGetDeviceCount cudaGetDeviceCount
#define hipGetDevice cudaGetDevice
#define hipSetDevice cudaSetDevice
#define hipDeviceSynchronize cudaDeviceSynchronize
#define hipDeviceReset cudaDeviceReset
#define hipDeviceGetPCIBusId cudaDeviceGetPCIBusId
#define hipDeviceCanAccessPeer cudaDeviceCanAccessPeer
#define hipDeviceEnablePeerAccess cudaDeviceEnablePeerAccess
#define hipDeviceGetStreamPriorityRange cudaDeviceGetStreamPriorityRange

// Attributes: those that CUDA has have its numbers.
enum hipDeviceAttribute_t {
  hipDeviceAttributeMultiprocessorCount = cudaDevAttrMultiProcessorCount,
  hipDeviceAttributeMaxThreadsPerMultiProcessor = cudaDevAttrMaxThreadsPerMultiProcessor,
  hipDeviceAttributeMaxThreadsPerBlock = cudaDevAttrMaxThreadsPerBlock,
  hipDeviceAttributeMaxSharedMemoryPerBlock = cudaDevAttrMaxSharedMemoryPerBlock,
  hipDeviceAttributeWarpSize = cudaDevAttrWarpSize,
  hipDeviceAttributeClockRate = cudaDevAttrClockRate,
  hipDeviceAttributeL2CacheSize = cudaDevAttrL2CacheSize,
  hipDeviceAttributeComputeCapabilityMajor = cudaDevAttrComputeCapabilityMajor,
  hipDeviceAttributeComputeCapabilityMinor = cudaDevAttrComputeCapabilityMinor,
  hipDeviceAttributeIntegrated = cudaDevAttrIntegrated,
  hipDeviceAttributeCooperativeLaunch = cudaDevAttrCooperativeLaunch,
  hipDeviceAttributeIsLargeBar = 1 << 20, // the CPU cannot load from the memory of an NVIDIA GPU
  hipDeviceAttributeWallClockRate,        // kHz of %globaltimer
};
inline cudaError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device) {
  switch (attribute) {
  case hipDeviceAttributeIsLargeBar:
    return *value = 0, cudaSuccess;
  case hipDeviceAttributeWallClockRate:
    return *value = 1000000, cudaSuccess;
  default:
    return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(static_cast<int>(attribute)),
                                  device);
  }
}

// HIP's field that CUDA does not have: the name of the architecture.
struct hipDeviceProp_t : cudaDeviceProp {
  char gcnArchName[256];
};
inline cudaError_t hipGetDeviceProperties(hipDeviceProp_t *prop, int device) {
  cudaError_t error = cudaGetDeviceProperties(prop, device);
  if (!error)
    std::snprintf(prop->gcnArchName, sizeof prop->gcnArchName, "sm_%d%d", prop->major, prop->minor);
  return error;
}
inline cudaError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
  cudaDeviceProp prop;
  cudaError_t error = cudaGetDeviceProperties(&prop, device);
  if (!error) std::memcpy(uuid->bytes, prop.uuid.bytes, sizeof uuid->bytes);
  return error;
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
#define hipPointerAttribute_t cudaPointerAttributes
#define hipPointerGetAttributes cudaPointerGetAttributes
#define hipMemcpy cudaMemcpy
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemcpy2D cudaMemcpy2D
#define hipMemcpy2DAsync cudaMemcpy2DAsync
#define hipMemset cudaMemset
#define hipMemsetAsync cudaMemsetAsync
#define hipMemcpyToSymbol cudaMemcpyToSymbol
#define hipMemcpyFromSymbol cudaMemcpyFromSymbol
#define hipGetSymbolAddress cudaGetSymbolAddress
#define hipMemcpyHostToHost cudaMemcpyHostToHost
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define hipMemcpyDefault cudaMemcpyDefault
#define hipHostRegister cudaHostRegister
#define hipHostUnregister cudaHostUnregister
#define hipHostGetDevicePointer cudaHostGetDevicePointer
#define hipHostRegisterDefault cudaHostRegisterDefault
#define hipIpcGetMemHandle cudaIpcGetMemHandle
#define hipIpcOpenMemHandle cudaIpcOpenMemHandle
#define hipIpcCloseMemHandle cudaIpcCloseMemHandle
#define hipIpcMemLazyEnablePeerAccess cudaIpcMemLazyEnablePeerAccess
#define hipHostFree cudaFreeHost
#define HIP_SYMBOL(x) x
enum : unsigned {
  hipHostMallocDefault = cudaHostAllocDefault,
  hipHostMallocMapped = cudaHostAllocMapped,
};
template <class T>
cudaError_t hipHostMalloc(T **p, size_t bytes, unsigned flags = hipHostMallocDefault) {
  return cudaHostAlloc(reinterpret_cast<void **>(p), bytes, flags);
}

enum : unsigned { hipDeviceMallocDefault = 0, hipDeviceMallocFinegrained = 1 };
// On AMD the flags choose how caches treat the memory. All memory of an NVIDIA GPU is what HIP
// calls fine-grained: its L2 is where peers and the host arrive, and system scope is coherent there
// while a kernel runs.
template <class T> cudaError_t hipExtMallocWithFlags(T **p, size_t bytes, unsigned) {
  return cudaMalloc(reinterpret_cast<void **>(p), bytes);
}

// Streams, events, graphs
#define hipStreamCreate cudaStreamCreate
#define hipStreamCreateWithFlags cudaStreamCreateWithFlags
#define hipStreamCreateWithPriority cudaStreamCreateWithPriority
#define hipStreamDestroy cudaStreamDestroy
#define hipStreamSynchronize cudaStreamSynchronize
#define hipStreamQuery cudaStreamQuery
#define hipStreamWaitEvent cudaStreamWaitEvent
#define hipStreamDefault cudaStreamDefault
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipLaunchHostFunc cudaLaunchHostFunc
#define hipEventCreate cudaEventCreate
#define hipEventCreateWithFlags cudaEventCreateWithFlags
#define hipEventRecord cudaEventRecord
#define hipEventQuery cudaEventQuery
#define hipEventSynchronize cudaEventSynchronize
#define hipEventElapsedTime cudaEventElapsedTime
#define hipEventDestroy cudaEventDestroy
#define hipEventDefault cudaEventDefault
#define hipEventDisableTiming cudaEventDisableTiming
#define hipStreamBeginCapture cudaStreamBeginCapture
#define hipStreamEndCapture cudaStreamEndCapture
#define hipStreamIsCapturing cudaStreamIsCapturing
#define hipThreadExchangeStreamCaptureMode cudaThreadExchangeStreamCaptureMode
#define hipStreamCaptureMode cudaStreamCaptureMode
#define hipStreamCaptureModeRelaxed cudaStreamCaptureModeRelaxed
#define hipStreamCaptureModeGlobal cudaStreamCaptureModeGlobal
#define hipStreamCaptureModeThreadLocal cudaStreamCaptureModeThreadLocal
#define hipStreamCaptureStatusNone cudaStreamCaptureStatusNone
#define hipStreamCaptureStatusActive cudaStreamCaptureStatusActive
#define hipGraphGetNodes cudaGraphGetNodes
#define hipGraphLaunch cudaGraphLaunch
#define hipGraphDestroy cudaGraphDestroy
#define hipGraphExecDestroy cudaGraphExecDestroy
inline cudaError_t hipGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *,
                                       char *, size_t) {
  return cudaGraphInstantiate(exec, graph, 0);
}
// Kernels
#define hipLaunchKernel cudaLaunchKernel
#define hipLaunchCooperativeKernel cudaLaunchCooperativeKernel
#define hipFuncSetAttribute cudaFuncSetAttribute
#define hipOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessor
#define hipOccupancyMaxPotentialBlockSize cudaOccupancyMaxPotentialBlockSize
#define hipFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define hipMallocManaged cudaMallocManaged
#define hipMemAttachGlobal cudaMemAttachGlobal
#define hipMemAttachHost cudaMemAttachHost
#define hipMemAttachSingle cudaMemAttachSingle
#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#ifdef __CUDACC__
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...)                               \
  (kernel)<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#endif
