// SPDX-License-Identifier: MIT
// HIP for a machine without a GPU: hip_runtime_api.h is the host's side, here is that of kernels.
// A kernel is a function; its threads are fibers, those of a block on one thread of the host. So:
//   - a loop that waits for another thread, block or process must call hip_cpu::pause();
//   - operations of a wave wait for all its lanes that have not ended, in whichever branch they
//   are;
//   - a launch is spelled hipLaunchKernelGGL, dynamic shared memory HIP_DYNAMIC_SHARED;
//   - __shared__ is thread_local: of a program's large ones every thread of the host loses as much
//   of its stack, dynamic shared memory costs none;
//   - a thread's stack is 64 KiB.
// A kernel that can never go on (threads that wait in __syncthreads for others that wait in a
// __shfl) ends the program with a line that says so.
#pragma once
#include "hip_runtime_api.h"
// HIP's own header brings most of these, and programs count on it.
#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define HIP_DYNAMIC_SHARED(type, name)                                                             \
  type *name = static_cast<type *>(::hip_cpu::dynamic_shared());
#define HIP_KERNEL_NAME(...) __VA_ARGS__

namespace hip_cpu {

struct Fiber;
#pragma GCC visibility push(default)
// The thread of a kernel that this thread of the host runs. The TLS model is not initial-exec, with
// which dlopen may fail; so in a shared library the first access is a call.
extern __thread Fiber *lane;

// Whether the caller is a thread of a kernel.
inline bool in_kernel() {
  return lane != nullptr;
}
// Called in a polling loop that has not seen what it waits for, to let others run. Any thread may
// call it.
void pause();
// Called after a poll that has seen it, so that the next pauses are short again. Nothing breaks
// without it, but a thread that waits often would take its naps of up to 1 ms.
void progress();

void *dynamic_shared();
struct Votes {
  int yes, all;
};
Votes sync_block(bool vote);
uint64_t wave_values(uint64_t value, int from); // 0 if that lane has ended
uint64_t wave_votes(bool vote, uint64_t *present);
int lane_number();

// TSan knows no fences, but it knows read-modify-writes of one word.
extern uint32_t fence_word;
#pragma GCC visibility pop
inline void fence() {
#if defined __SANITIZE_THREAD__
  __atomic_fetch_add(&fence_word, 0, __ATOMIC_SEQ_CST);
#else
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
  __atomic_fetch_add(&fence_word, 0, __ATOMIC_SEQ_CST);
#endif
#endif
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

template <class T> T shuffle(T value, int from) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = wave_values(word, from);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

template <class T> using Same = std::common_type_t<T>; // the type comes from the pointer alone
template <class T, class F> T atomic_update(T *p, F f) {
  T old, next;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do {
    next = f(old);
  } while (!__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

// A kernel with its arguments. Hidden: each library has its own kernels.
struct Kernel {
  void (*run)(const Kernel *);
  void (*destroy)(Kernel *);
};
template <class... P> struct __attribute__((visibility("hidden"))) KernelOf : Kernel {
  static_assert((!std::is_reference_v<P> && ...), "a kernel's parameters are values");
  static_assert((std::is_trivially_copyable_v<P> && ...),
                "a kernel's arguments are copied as bytes");
  void (*function)(P...);
  std::tuple<std::remove_cv_t<P>...> arguments;

  template <class... A>
  explicit KernelOf(void (*f)(P...), A &&...a)
      : Kernel{[](const Kernel *k) {
                 auto *self = static_cast<const KernelOf *>(k);
                 std::apply(self->function, self->arguments);
               },
               [](Kernel *k) { delete static_cast<KernelOf *>(k); }},
        function(f), arguments(static_cast<std::remove_cv_t<P>>(a)...) {}
};
template <class... P, size_t... I>
Kernel *make_kernel(void (*f)(P...), void **arguments, std::index_sequence<I...>) {
  return new KernelOf<P...>(f, *static_cast<std::remove_cv_t<P> *>(arguments[I])...);
}
// The same of a kernel that is known by a call of it, which chooses among overloads.
template <class F, class... A> struct __attribute__((visibility("hidden"))) KernelCall : Kernel {
  static_assert((std::is_trivially_copyable_v<A> && ...),
                "a kernel's arguments are copied as bytes");
  F call;
  std::tuple<A...> arguments;

  template <class... B>
  explicit KernelCall(F f, B &&...b)
      : Kernel{[](const Kernel *k) {
                 auto *self = static_cast<const KernelCall *>(k);
                 std::apply(self->call, self->arguments);
               },
               [](Kernel *k) { delete static_cast<KernelCall *>(k); }},
        call(f), arguments(std::forward<B>(b)...) {}
};
// Takes the kernel over.
#pragma GCC visibility push(default)
hipError_t launch(Kernel *kernel, dim3 grid, dim3 block, size_t shared, hipStream_t stream,
                  bool cooperative);
#pragma GCC visibility pop

inline namespace names {

struct uint3 {
  uint32_t x, y, z;
};
#define HIP_CPU_VECTORS(element, name)                                                             \
  struct alignas(2 * sizeof(element)) name##2 {                                                    \
    element x, y;                                                                                  \
  };                                                                                               \
  struct alignas(4 * sizeof(element) < 16 ? 4 * sizeof(element) : 16) name##4 {                    \
    element x, y, z, w;                                                                            \
  };                                                                                               \
  inline name##2 make_##name##2(element x, element y) {                                            \
    return {x, y};                                                                                 \
  }                                                                                                \
  inline name##4 make_##name##4(element x, element y, element z, element w) {                      \
    return {x, y, z, w};                                                                           \
  }
HIP_CPU_VECTORS(signed char, char)
HIP_CPU_VECTORS(unsigned char, uchar)
HIP_CPU_VECTORS(short, short)
HIP_CPU_VECTORS(unsigned short, ushort)
HIP_CPU_VECTORS(int, int)
HIP_CPU_VECTORS(unsigned, uint)
HIP_CPU_VECTORS(long long, longlong)
HIP_CPU_VECTORS(unsigned long long, ulonglong)
HIP_CPU_VECTORS(float, float)
HIP_CPU_VECTORS(double, double)
#undef HIP_CPU_VECTORS

#pragma GCC visibility push(default)
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;
#pragma GCC visibility pop
inline constexpr int warpSize = 64;
// HIP's older names of them.
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

// Launches. The form with an array of pointers needs the kernel with its type too.
template <class F, class... A>
void launch_call(F call, dim3 grid, dim3 block, size_t shared, hipStream_t stream,
                 A &&...arguments) {
  (void)launch(new KernelCall<F, std::decay_t<A>...>(call, std::forward<A>(arguments)...), grid,
               block, shared, stream, false); // hipGetLastError tells
}
#define hipLaunchKernelGGL(kernel, ...)                                                            \
  ::hip_cpu::launch_call([=](auto... hip_cpu_arguments) { (kernel)(hip_cpu_arguments...); },       \
                         __VA_ARGS__)
template <class... P>
hipError_t hipLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,
                           size_t shared, hipStream_t stream) {
  return launch(make_kernel(kernel, arguments, std::index_sequence_for<P...>()), grid, block,
                shared, stream, false);
}
template <class... P>
hipError_t hipLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments,
                                      unsigned shared, hipStream_t stream) {
  return launch(make_kernel(kernel, arguments, std::index_sequence_for<P...>()), grid, block,
                shared, stream, true);
}

// The block
inline void __syncthreads() {
  sync_block(false);
}
inline int __syncthreads_count(int vote) {
  return sync_block(vote != 0).yes;
}
inline int __syncthreads_and(int vote) {
  Votes v = sync_block(vote != 0);
  return v.yes == v.all;
}
inline int __syncthreads_or(int vote) {
  return sync_block(vote != 0).yes != 0;
}

// The wave
inline unsigned __lane_id() {
  return unsigned(lane_number());
}
inline unsigned long long __ballot(int vote) {
  return wave_votes(vote != 0, nullptr);
}
inline unsigned long long __activemask() {
  uint64_t present;
  wave_votes(false, &present);
  return present;
}
inline int __any(int vote) {
  return wave_votes(vote != 0, nullptr) != 0;
}
inline int __all(int vote) {
  uint64_t present;
  return wave_votes(vote != 0, &present) == present;
}
inline void __syncwarp() {
  wave_votes(false, nullptr);
}
template <class T> T __shfl(T value, int from, int width = warpSize) {
  return shuffle(value, (from & (width - 1)) | (lane_number() & -width));
}
template <class T> T __shfl_up(T value, unsigned delta, int width = warpSize) {
  const int me = lane_number();
  return shuffle(value, int(delta) > (me & (width - 1)) ? me : me - int(delta));
}
template <class T> T __shfl_down(T value, unsigned delta, int width = warpSize) {
  const int me = lane_number();
  return shuffle(value, (me & (width - 1)) + int(delta) >= width ? me : me + int(delta));
}
template <class T> T __shfl_xor(T value, int mask, int width = warpSize) {
  const int me = lane_number(), from = me ^ mask;
  return shuffle(value, from >= ((me + width) & -width) ? me : from);
}

// Bits
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __ffs(unsigned x) {
  return __builtin_ffs(int(x));
}
inline int __ffsll(unsigned long long x) {
  return __builtin_ffsll(static_cast<long long>(x));
}
inline int __clz(unsigned x) {
  return x ? __builtin_clz(x) : 32;
}
inline int __clzll(unsigned long long x) {
  return x ? __builtin_clzll(x) : 64;
}
template <class T> T __ldg(const T *p) {
  return *p;
}

// Order and time
inline void __threadfence_block() {
  fence();
}
inline void __threadfence() {
  fence();
}
inline void __threadfence_system() {
  fence();
}
inline long long wall_clock64() { // ns
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
inline long long clock64() {
  return wall_clock64();
}

// Atomics: relaxed, as HIP's are. Sums of integers wrap around.
template <class T> T atomicAdd(T *p, Same<T> v) {
  if constexpr (std::is_integral_v<T>)
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
  else
    return atomic_update(p, [v](T x) { return x + v; });
}
template <class T> T atomicAdd_system(T *p, Same<T> v) {
  return atomicAdd(p, v);
}
template <class T> T atomicSub(T *p, Same<T> v) {
  if constexpr (std::is_integral_v<T>)
    return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);
  else
    return atomicAdd(p, -v);
}
template <class T> T atomicSub_system(T *p, Same<T> v) {
  return atomicSub(p, v);
}
// The others, of the present value x and of v.
#define HIP_CPU_ATOMIC(name, next)                                                                 \
  template <class T> T name(T *p, Same<T> v) {                                                     \
    return atomic_update(p, [v](T x) -> T { return next; });                                       \
  }                                                                                                \
  template <class T> T name##_system(T *p, Same<T> v) {                                            \
    return name(p, v);                                                                             \
  }
HIP_CPU_ATOMIC(atomicMin, v < x ? v : x)
HIP_CPU_ATOMIC(atomicMax, x < v ? v : x)
HIP_CPU_ATOMIC(atomicAnd, T(x &v))
HIP_CPU_ATOMIC(atomicOr, T(x | v))
HIP_CPU_ATOMIC(atomicXor, T(x ^ v))
HIP_CPU_ATOMIC(atomicExch, (static_cast<void>(x), v))
HIP_CPU_ATOMIC(atomicInc, x >= v ? T(0) : T(x + 1))
HIP_CPU_ATOMIC(atomicDec, x == 0 || x > v ? v : T(x - 1))
#undef HIP_CPU_ATOMIC
template <class T> T atomicCAS(T *p, Same<T> old, Same<T> next) {
  __atomic_compare_exchange(p, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return old;
}
template <class T> T atomicCAS_system(T *p, Same<T> old, Same<T> next) {
  return atomicCAS(p, old, next);
}

} // namespace names
} // namespace hip_cpu
