// SPDX-License-Identifier: MIT
// How the processors differ; with device/platform/ the only place that asks which one it is.
//
// Device code finds here, in namespace shmem::arch, for the platform whose <hip/hip_runtime.h> was
// included before:
//   load<Order, Range>(p)  store<Order, Range>(p, v)      of 1 to 8 bytes
//   exchange  compare_exchange  fetch_add  fetch_and  fetch_or  fetch_xor      of 4 or 8 bytes
//   poll(p), then polled()        later loads see stores that were released before the value
//   fence_release  fence_acquire  fence_all  wait_stores
//   fence_stream                  orders earlier kernels' stores before this one's
//   argument(a)                   a kernel's only argument, in memory, all of which has come
//   anew(n)                       n, the same in all lanes of a wave, and otherwise unknown
//   is_known(v)                   v is a constant to the compiler, or anew would do nothing
//   in_memory(p)                  p, whose array the compiler must not keep in registers
//   progress()                    a poll that needs no polled() is over
//   erf, and on GPUs half_to_float  float_to_half, and on NVIDIA's float_to_bfloat16
//   load_remote<n>  store_remote  of Word<bytes>, what put and get move at a time
//   Uniform(p), if has_uniform    load_remote and store_remote of what all lanes of a wave name
//   arrive(v)                     waits for the loads of v, before its first store
//   load_global(p)                plain, of memory that no thread writes
//   load_constant(p)              of memory that does not change while a kernel knows it
//   load_anew(v)                  a reference to v, of this module's State or the kernel's
//                                 arguments, which compilers would keep in registers
//   load_one_of(a, b, first, row, i)  if first, a[row + i], in constant memory; else b[row + i], as
//                                 load_constant does. row is the same for a wave
//   store_global(p, v)            plain
//   load_lines  store_lines       two words of 8 bytes next to each other, each of them whole
//   take(counter)                 its next number for each lane that calls; lanes of a wave that
//                                 call together take numbers in a row, by one atomic of the device
//   take_alone(counter)           the same, by one atomic a lane, which waits when it uses its
//                                 number
//   wave_first(v)                 the first lane's v, in a whole wave
//   workgroup_object<T>()         the T that the workgroup shares, whose kernel is launched with
//                                 launch_bytes<T> of dynamic shared memory
//   launchable(kernel)            as hipLaunchKernel takes it
//   trap() stop()                 end the kernel; pause for ever
//   thread()  threads()           the number of this one in the workgroup, and how many it has
//   block()  blocks()             and the workgroup's in the grid
//   keeps_peers                   this GPU caches loads and stores of other GPUs' coarse-grained
//                                 memory until a fence, and does atomics on it in its own cache
//   wave_size  whole_waves  wave_sync  wg_sync  clock  pause
#pragma once
#include <cstdint>
#include <shmem/compiler.h>

// SHMEM_SPLIT_(kernel, on_host) is the body of a function that does one in kernels and the other on
// the host. SHMEM_ON_GPU_(gpu, other) is the first where a GPU's code is compiled, and the second
// elsewhere. SHMEM_UNROLL_ before a loop over registers, SHMEM_NO_UNROLL_ before one of much code.
// SHMEM_STOPS_ before a function that ends with stop(), on platforms whose compilers should know
// that it does not return.
#if defined __HIPCC__ || defined __CUDACC__
#define SHMEM_UNROLL_ _Pragma("unroll")
#define SHMEM_NO_UNROLL_ _Pragma("unroll 1")
#if defined __HIP_DEVICE_COMPILE__ || defined __CUDA_ARCH__
#define SHMEM_SPLIT_(kernel, on_host) kernel
#define SHMEM_ON_GPU_(gpu, other) gpu
#else
#define SHMEM_SPLIT_(kernel, on_host) on_host
#endif
#else
#define SHMEM_UNROLL_
#define SHMEM_NO_UNROLL_ _Pragma("GCC unroll 1")
#define SHMEM_SPLIT_(kernel, on_host)                                                              \
  if (hip_cpu::in_kernel()) {                                                                      \
    kernel;                                                                                        \
  } else {                                                                                         \
    on_host;                                                                                       \
  }
#endif

#ifdef __CUDA_ARCH__
#define SHMEM_ON_CUDA_(cuda, other) cuda
#else
#define SHMEM_ON_CUDA_(cuda, other) other
#endif
#ifndef SHMEM_ON_GPU_
#define SHMEM_ON_GPU_(gpu, other) other
#endif

// SHMEM_RARE_ before a function that rarely runs. It is called, not inlined, where that costs the
// rest nothing: SHMEM_CALLS_ is 1. On AMD a kernel with a call takes all registers and a stack.
#ifdef __CUDACC__
#define SHMEM_CALLS_ 1
#define SHMEM_RARE_ __device__ inline __attribute__((noinline))
#else
#define SHMEM_CALLS_ 0
#define SHMEM_RARE_ SHMEM_D_
#endif

#if defined __HIPCC__ && !defined __CUDACC__
#define SHMEM_STOPS_ // see platform/amd/arch.hpp
#else
#define SHMEM_STOPS_ [[noreturn]]
#endif

namespace shmem {

// The order of an atomic access, and the threads between which it is atomic and ordered: of a
// workgroup, of the GPU, or of all GPUs and the host. Another PE needs Range::system.
enum class Order { relaxed, acquire, release, acq_rel };
enum class Range { workgroup, device, system };

namespace arch {

// The units of put and get: 1, 2, 4, 8 or 16 bytes.
template <int bytes> struct WordOf;
template <> struct WordOf<1> { using type = uint8_t; };
template <> struct WordOf<2> { using type = uint16_t; };
template <> struct WordOf<4> { using type = uint32_t; };
template <> struct WordOf<8> { using type = uint64_t; };

struct Index {
  unsigned x, y, z;
};

// The integer in which an atomic of T is done. For a type without one, an integer of 8 bytes, so
// that compilers report the mistake once.
template <class T> struct BitsOf {
  static constexpr bool good = sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8;
  static_assert(good, "an atomic access is of 1, 2, 4 or 8 bytes");
  using type = typename WordOf<good ? sizeof(T) : 8>::type;
};
template <class T> using Bits = typename BitsOf<T>::type;
template <class T> SHMEM_D_ Bits<T> to_bits(T v) {
  Bits<T> b;
  __builtin_memcpy(&b, &v, sizeof b);
  return b;
}
template <class T> SHMEM_D_ T from_bits(Bits<T> b) {
  T v;
  __builtin_memcpy(&v, &b, sizeof b);
  return v;
}

template <class W> class Uniform;

} // namespace arch
} // namespace shmem

#if defined __CUDACC__
#include "platform/nvidia/arch.hpp"
#define SHMEM_GEMM_ "../platform/nvidia/gemm.hpp"
#elif defined __HIPCC__
#include "platform/amd/arch.hpp"
#define SHMEM_GEMM_ "../platform/amd/gemm.hpp"
#elif defined __HIP_PLATFORM_CPU__
#include "platform/cpu/arch.hpp"
#define SHMEM_GEMM_ "../platform/cpu/gemm.hpp"
#endif

#ifdef SHMEM_GEMM_
// Defaults for platforms that bring nothing of their own: a name in arch itself hides one in usual.
namespace shmem::arch {
namespace usual {
inline constexpr bool keeps_peers = false;
SHMEM_D_ Index thread() {
  return {threadIdx.x, threadIdx.y, threadIdx.z};
}
SHMEM_D_ Index threads() {
  return {blockDim.x, blockDim.y, blockDim.z};
}
SHMEM_D_ Index block() {
  return {blockIdx.x, blockIdx.y, blockIdx.z};
}
SHMEM_D_ Index blocks() {
  return {gridDim.x, gridDim.y, gridDim.z};
}
template <class T> SHMEM_D_ const T &argument(const T &a) {
  return a;
}
template <class T> SHMEM_D_ bool is_known(T) {
  return true;
}
template <class T> SHMEM_D_ T anew(T v) {
  return v;
}
template <class T> SHMEM_D_ const T &load_anew(const T &v) {
  return v;
}
template <class T> SHMEM_D_ T *in_memory(T *p) {
  return p;
}
SHMEM_D_ void wg_sync() {
  __syncthreads();
}
template <class T> inline constexpr size_t launch_bytes = 0; // the compiler knows
template <class Kernel> const void *launchable(Kernel *kernel) {
  return reinterpret_cast<const void *>(kernel);
}
template <class T> SHMEM_D_ T &workgroup_object() {
  __shared__ T object;
  return object;
}
} // namespace usual
using namespace usual;
} // namespace shmem::arch
#endif
