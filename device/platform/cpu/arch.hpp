// SPDX-License-Identifier: MIT
// The host's own processor. Peers are cores of one machine, whose caches are coherent. Loads
// acquire and stores release at least: that costs nothing on x86-64, and ThreadSanitizer, which
// does not know fences, sees what the fences order.
#pragma once
#include "../../arch.hpp"
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <hip/hip_runtime.h>

#define SHMEM_STATE_ inline

namespace shmem::arch {

template <> struct WordOf<16> { typedef uint32_t type __attribute__((vector_size(16))); };

template <class T> SHMEM_D_ auto bits(T *p) {
  typedef Bits<T> may_alias __attribute__((may_alias));
  return reinterpret_cast<may_alias *>(p);
}

template <Order = Order::relaxed, Range = Range::system, class T> SHMEM_D_ T load(const T *p) {
  return from_bits<T>(__atomic_load_n(bits(const_cast<T *>(p)), __ATOMIC_ACQUIRE));
}
template <Order = Order::relaxed, Range = Range::system, class T> SHMEM_D_ void store(T *p, T v) {
  __atomic_store_n(bits(p), to_bits(v), __ATOMIC_RELEASE);
}
template <Order = Order::relaxed, Range = Range::system, class T> SHMEM_D_ T exchange(T *p, T v) {
  return from_bits<T>(__atomic_exchange_n(bits(p), to_bits(v), __ATOMIC_ACQ_REL));
}
template <Order = Order::relaxed, Range = Range::system, class T>
SHMEM_D_ T compare_exchange(T *p, T cond, T v) {
  Bits<T> seen = to_bits(cond);
  __atomic_compare_exchange_n(bits(p), &seen, to_bits(v), false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  return from_bits<T>(seen);
}
#define SHMEM_FETCH_(op)                                                                           \
  template <Order = Order::relaxed, Range = Range::system, class T>                                \
  SHMEM_D_ T fetch_##op(T *p, T v) {                                                               \
    return T(__atomic_fetch_##op(bits(p), to_bits(v), __ATOMIC_ACQ_REL));                          \
  }
SHMEM_FETCH_(add)
SHMEM_FETCH_(and)
SHMEM_FETCH_(or)
SHMEM_FETCH_(xor)
#undef SHMEM_FETCH_

SHMEM_D_ void wait_stores() {}
SHMEM_D_ void fence_release() {}
SHMEM_D_ void fence_acquire() {}
template <class T> SHMEM_D_ T poll(const T *p) {
  return load(p);
}
// A wait has seen what it waited for, so the pauses of the next one begin short again.
SHMEM_D_ void polled() {
  hip_cpu::progress();
}
SHMEM_D_ void progress() {
  hip_cpu::progress();
}
SHMEM_D_ void fence_stream() {}
// An exchange, not a fence, for ThreadSanitizer as above.
SHMEM_D_ void fence_all() {
  int any;
  __atomic_exchange_n(&any, 0, __ATOMIC_SEQ_CST);
}

template <class W> SHMEM_D_ W load_global(const W *p) {
  W v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T> SHMEM_D_ T load_constant(const T *p) {
  return *p;
}
SHMEM_D_ uintptr_t load_one_of(const uintptr_t *a, const uintptr_t *b, bool first, unsigned row,
                               unsigned i) {
  return first ? a[row + i] : load_constant(b + row + i);
}
template <class W> SHMEM_D_ void store_global(W *p, W v) {
  __builtin_memcpy(p, &v, sizeof v);
}
template <int n, class W> SHMEM_D_ void arrive(W (&)[n]) {}
template <int n, class W> SHMEM_D_ void sync_arrived(W (&)[n]) {
  __syncthreads();
}
template <int n, class W> SHMEM_D_ void load_remote(W (&v)[n], const W *p, size_t step) {
  for (int k = 0; k < n; k++) __builtin_memcpy(&v[k], p + k * step, sizeof(W));
}
template <class W> SHMEM_D_ void store_remote(W *p, W v) {
  __builtin_memcpy(p, &v, sizeof v);
}

SHMEM_D_ void load_lines(uint64_t &a, uint64_t &b, const uint64_t *p) {
  a = load(p), b = load(p + 1);
}
SHMEM_D_ void store_lines(uint64_t *p, uint64_t a, uint64_t b) {
  store(p, a), store(p + 1, b);
}

SHMEM_D_ float erf(float v) {
  return erff(v);
}
// For __launch_bounds__.
inline constexpr unsigned one_resident = 1, two_resident = 1;
inline constexpr unsigned wave_size = 64;
inline constexpr bool has_uniform = false;
inline constexpr bool whole_waves = false; // all workgroups of products are of these
SHMEM_D_ void wave_sync(unsigned) {
  __ballot(1);
}
SHMEM_D_ unsigned wave_first(unsigned v) {
  return __shfl(v, 0);
}
template <unsigned lane> SHMEM_D_ uint32_t quad_lane(uint32_t v) {
  return __shfl(v, lane, 4);
}
template <unsigned mask> SHMEM_D_ uint32_t quad_xor(uint32_t v) {
  return __shfl_xor(v, mask, 4);
}
// It is not __shared__, which is thread-local here: a library's thread-local memory is taken from
// the stack of every thread of the program (131 KiB, 2026-11-21: no thread could have 128 KiB, and
// dlopen failed).
template <class T> inline constexpr size_t launch_bytes = sizeof(T);
template <class Kernel> Kernel *launchable(Kernel *kernel) {
  return kernel;
}
template <class T> SHMEM_D_ T &workgroup_object() {
  return *static_cast<T *>(hip_cpu::dynamic_shared());
}
SHMEM_D_ uint64_t take(uint64_t *counter) { // a wave's lanes are fibers, which come one by one
  return fetch_add(counter, uint64_t(1));
}
SHMEM_D_ uint64_t take_alone(uint64_t *counter) {
  return fetch_add<Order::relaxed, Range::device>(counter, uint64_t(1));
}
SHMEM_D_ uint64_t clock() {
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
}
SHMEM_D_ void pause() {
  hip_cpu::pause();
}
[[noreturn]] SHMEM_D_ void trap() {
  abort();
}
SHMEM_STOPS_ SHMEM_D_ void stop() {
  for (;;) pause();
}

} // namespace shmem::arch
