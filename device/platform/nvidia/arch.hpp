// SPDX-License-Identifier: MIT
// sm_70 and later, by the memory model of PTX. Written in PTX, because not every toolkit has
// libcu++'s atomics, and they are no shorter.
#pragma once
#include "../../arch.hpp"
#include <cuda_runtime.h>

#define SHMEM_STATE_ static __constant__

namespace shmem::arch {

template <> struct WordOf<16> { using type = uint4; };

// Nothing counts stores here: the fence waits for all that it covers.
SHMEM_D_ void wait_stores() {}
// Orders the stores of this thread, and of threads that it has met at a barrier, before this
// thread's next stores.
SHMEM_D_ void fence_release() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}
SHMEM_D_ void fence_acquire() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}
// Orders this thread's earlier stores before its later loads as well.
SHMEM_D_ void fence_all() {
  asm volatile("fence.sc.sys;" ::: "memory");
}

#define SHMEM_ASM_(instruction, range, suffix, ...)                                                \
  do {                                                                                             \
    if constexpr (r == Range::workgroup)                                                           \
      asm volatile(instruction ".cta" suffix __VA_ARGS__ : "memory");                              \
    else if constexpr (r == Range::device)                                                         \
      asm volatile(instruction ".gpu" suffix __VA_ARGS__ : "memory");                              \
    else                                                                                           \
      asm volatile(instruction ".sys" suffix __VA_ARGS__ : "memory");                              \
  } while (0)

template <Order o = Order::relaxed, Range r = Range::system, class T> SHMEM_D_ T load(const T *p) {
  if constexpr (sizeof(T) == 8) {
    uint64_t b;
    if constexpr (o == Order::acquire)
      SHMEM_ASM_("ld.acquire", r, ".b64 %0, [%1];", : "=l"(b) : "l"(p));
    else
      SHMEM_ASM_("ld.relaxed", r, ".b64 %0, [%1];", : "=l"(b) : "l"(p));
    return from_bits<T>(b);
  } else {
    uint32_t b;
    if constexpr (o == Order::acquire) {
      if constexpr (sizeof(T) == 4)
        SHMEM_ASM_("ld.acquire", r, ".b32 %0, [%1];", : "=r"(b) : "l"(p));
      if constexpr (sizeof(T) == 2)
        SHMEM_ASM_("ld.acquire", r, ".u16 %0, [%1];", : "=r"(b) : "l"(p));
      if constexpr (sizeof(T) == 1)
        SHMEM_ASM_("ld.acquire", r, ".u8 %0, [%1];", : "=r"(b) : "l"(p));
    } else {
      if constexpr (sizeof(T) == 4)
        SHMEM_ASM_("ld.relaxed", r, ".b32 %0, [%1];", : "=r"(b) : "l"(p));
      if constexpr (sizeof(T) == 2)
        SHMEM_ASM_("ld.relaxed", r, ".u16 %0, [%1];", : "=r"(b) : "l"(p));
      if constexpr (sizeof(T) == 1)
        SHMEM_ASM_("ld.relaxed", r, ".u8 %0, [%1];", : "=r"(b) : "l"(p));
    }
    return from_bits<T>(static_cast<Bits<T>>(b));
  }
}
// A poll that acquires costs no more than one that does not; a fence after it would cost 0.6 us
// (H200, 2026-11).
template <class T> SHMEM_D_ T poll(const T *p) {
  return load<Order::acquire>(p);
}
SHMEM_D_ void polled() {}
SHMEM_D_ void progress() {}
// When a kernel begins, what the stream's earlier work stored in this GPU's memory is where peers
// look. Stores at a peer need a fence, see coll.hip.
SHMEM_D_ void fence_stream() {}
template <Order o = Order::relaxed, Range r = Range::system, class T>
SHMEM_D_ void store(T *p, T v) {
  if constexpr (o == Order::release && r == Range::system) fence_release();
  if constexpr (o == Order::release && r == Range::device) __threadfence();
  if constexpr (o == Order::release && r == Range::workgroup) __threadfence_block();
  const Bits<T> b = to_bits(v);
  if constexpr (sizeof(T) == 8) SHMEM_ASM_("st.relaxed", r, ".b64 [%0], %1;", ::"l"(p), "l"(b));
  if constexpr (sizeof(T) == 4) SHMEM_ASM_("st.relaxed", r, ".b32 [%0], %1;", ::"l"(p), "r"(b));
  if constexpr (sizeof(T) == 2)
    SHMEM_ASM_("st.relaxed", r, ".u16 [%0], %1;", ::"l"(p), "r"(uint32_t(b)));
  if constexpr (sizeof(T) == 1)
    SHMEM_ASM_("st.relaxed", r, ".u8 [%0], %1;", ::"l"(p), "r"(uint32_t(b)));
}
#define SHMEM_ATOM_(name, op, type)                                                                \
  template <Order o = Order::relaxed, Range r = Range::system, class T>                            \
  SHMEM_D_ T name(T *p, T v) {                                                                     \
    if constexpr (o == Order::release || o == Order::acq_rel) fence_release();                     \
    Bits<T> seen;                                                                                  \
    if constexpr (sizeof(T) == 8)                                                                  \
      SHMEM_ASM_("atom.relaxed", r, "." op "." type "64 %0, [%1], %2;",                            \
                 : "=l"(seen)                                                                      \
                 : "l"(p), "l"(to_bits(v)));                                                       \
    else                                                                                           \
      SHMEM_ASM_("atom.relaxed", r, "." op "." type "32 %0, [%1], %2;",                            \
                 : "=r"(seen)                                                                      \
                 : "l"(p), "r"(to_bits(v)));                                                       \
    if constexpr (o == Order::acquire || o == Order::acq_rel) fence_acquire();                     \
    return from_bits<T>(seen);                                                                     \
  }
SHMEM_ATOM_(exchange, "exch", "b")
SHMEM_ATOM_(fetch_add, "add", "u")
SHMEM_ATOM_(fetch_and, "and", "b")
SHMEM_ATOM_(fetch_or, "or", "b")
SHMEM_ATOM_(fetch_xor, "xor", "b")
#undef SHMEM_ATOM_
template <Order o = Order::relaxed, Range r = Range::system, class T>
SHMEM_D_ T compare_exchange(T *p, T cond, T v) {
  if constexpr (o == Order::release || o == Order::acq_rel) fence_release();
  Bits<T> seen;
  if constexpr (sizeof(T) == 8)
    SHMEM_ASM_("atom.relaxed", r, ".cas.b64 %0, [%1], %2, %3;",
               : "=l"(seen)
               : "l"(p), "l"(to_bits(cond)), "l"(to_bits(v)));
  else
    SHMEM_ASM_("atom.relaxed", r, ".cas.b32 %0, [%1], %2, %3;",
               : "=r"(seen)
               : "l"(p), "r"(to_bits(cond)), "r"(to_bits(v)));
  if constexpr (o == Order::acquire || o == Order::acq_rel) fence_acquire();
  return from_bits<T>(seen);
}
#undef SHMEM_ASM_

// A plain load of global memory that no thread writes.
template <class W> SHMEM_D_ W load_global(const W *p) {
  return *p;
}
template <class T> SHMEM_D_ T load_constant(const T *p) {
  return __ldg(p);
}
SHMEM_D_ uintptr_t load_one_of(const uintptr_t *a, const uintptr_t *b, bool first, unsigned row,
                               unsigned i) {
  return first ? a[row + i] : load_constant(b + row + i);
}
template <class W> SHMEM_D_ void store_global(W *p, W v) {
  *p = v;
}
template <int n, class W> SHMEM_D_ void arrive(W (&)[n]) {}
// A barrier of the workgroup that threads come to when they have v. They come to others while their
// loads are on the way.
template <int n> SHMEM_D_ void sync_arrived(uint4 (&v)[n]) {
  uint32_t all = 0;
#pragma unroll
  for (int k = 0; k < n; k++) all ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  __syncthreads_or(all == 1);
}
// A peer's lines must not come from the L1. n loads are in flight at once.
template <int n, class W> SHMEM_D_ void load_remote(W (&v)[n], const W *p, size_t step) {
  if constexpr (sizeof(W) == 16) {
#pragma unroll
    for (int k = 0; k < n; k++)
      asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w)
                   : "l"(p + k * step)
                   : "memory");
  } else {
#pragma unroll
    for (int k = 0; k < n; k++) v[k] = load(p + k * step);
  }
}
template <class W> SHMEM_D_ void store_remote(W *p, W v) {
  if constexpr (sizeof(W) == 16)
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
  else
    store(p, v);
}

// Two words next to each other, each of them whole.
SHMEM_D_ void load_lines(uint64_t &a, uint64_t &b, const uint64_t *p) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(a), "=l"(b)
               : "l"(p)
               : "memory");
}
SHMEM_D_ void store_lines(uint64_t *p, uint64_t a, uint64_t b) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(a), "l"(b) : "memory");
}

SHMEM_D_ float erf(float v) {
  return erff(v);
}
SHMEM_D_ float half_to_float(uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
SHMEM_D_ uint16_t float_to_half(float f) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
// From sm_80 on.
SHMEM_D_ uint16_t float_to_bfloat16(float f) {
  uint16_t b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(f));
  return b;
}

// Workgroups of the most threads that a multiprocessor shall hold at once, for __launch_bounds__;
// two have 64 registers each thread.
inline constexpr unsigned one_resident = 1, two_resident = 2;
inline constexpr unsigned wave_size = 32;
inline constexpr bool has_uniform = false;
inline constexpr bool whole_waves = false; // all workgroups of products are of these
SHMEM_D_ void wave_sync(unsigned lanes) {
  __syncwarp(lanes < wave_size ? (1u << lanes) - 1 : ~0u);
}
SHMEM_D_ unsigned wave_first(unsigned v) {
  return __shfl_sync(~0u, v, 0);
}
// A value of another lane of the quad, four lanes, all of which call; and so does the whole wave.
template <unsigned lane> SHMEM_D_ uint32_t quad_lane(uint32_t v) {
  return __shfl_sync(~0u, v, lane, 4);
}
template <unsigned mask> SHMEM_D_ uint32_t quad_xor(uint32_t v) {
  return __shfl_xor_sync(~0u, v, mask, 4);
}
SHMEM_D_ uint64_t take(uint64_t *counter) {
  const unsigned lanes = __activemask();
  unsigned lower;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  const int before = __popc(lanes & lower);
  unsigned long long first = 0;
  if (before == 0)
    first = fetch_add<Order::relaxed, Range::device>(counter, uint64_t(__popc(lanes)));
  return __shfl_sync(lanes, first, __ffs(int(lanes)) - 1) + unsigned(before);
}
// With a constant operand ptxas 13 makes one atomic of a wave's, whose result the wave waits for.
// The operand here is always 1, but ptxas does not know that no lane has all lanes below it.
SHMEM_D_ uint64_t take_alone(uint64_t *counter) {
  unsigned lower;
  uint64_t seen;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(seen)
               : "l"(counter), "l"(uint64_t(1 + (lower >> 31)))
               : "memory");
  return seen;
}
// Nanoseconds: see runtime::clock_rate.
SHMEM_D_ uint64_t clock() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
SHMEM_D_ void pause() {}
[[noreturn]] SHMEM_D_ void trap() {
  __trap();
  __builtin_unreachable();
}
// A loop without effect need not be there in C++: nvcc 13 went on into what came next, another
// report's words among them (2026-11-24).
SHMEM_STOPS_ SHMEM_D_ void stop() {
  for (;;) asm volatile("nanosleep.u32 1000000;");
}

} // namespace shmem::arch
