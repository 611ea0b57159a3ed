// SPDX-License-Identifier: MIT
// gfx9 (gfx90a, gfx942, gfx950), by the memory model of LLVM's AMDGPU guide.
#pragma once
#include "../../arch.hpp"
#include <hip/hip_runtime.h>

#define SHMEM_STATE_ static __constant__

namespace shmem::arch {

// gfx942 and its successors tell the scope of an access by sc0 and sc1, gfx90a by glc.
#if defined __gfx940__ || defined __gfx941__ || defined __gfx942__ || defined __gfx950__
#define SHMEM_SC_BITS_ 1
#define SHMEM_LOAD_BITS_ " sc0 sc1"
#define SHMEM_LOAD_AUX_ 17
#define SHMEM_STORE_AUX_ 17
#else
#define SHMEM_LOAD_BITS_ " glc"
#define SHMEM_LOAD_AUX_ 1
#define SHMEM_STORE_AUX_ 0
#endif
#if defined __gfx90a__
// By LLVM's guide and the kernel's driver, which maps such memory as MTYPE NC.
inline constexpr bool keeps_peers = true;
#endif
template <class V> SHMEM_D_ void store_16(void *p, V v) {
#if SHMEM_SC_BITS_
  // No vector instruction may write the registers of a store of more than 8 bytes within two wait
  // states after it, or the new data is stored. s_nop 1 gives both, because no compiler looks into
  // inline assembly (without it 258 places in the library were wrong, 2026-11-21; see
  // test/isa/hazards.py).
  asm volatile("global_store_dwordx4 %0, %1, off sc0 sc1\n\ts_nop 1" ::"v"(p), "v"(v) : "memory");
#else
  // A plain store has the wanted bits, and the compiler protects its data.
  *(__attribute__((address_space(1))) V *)(p) = v;
  asm volatile("" ::: "memory"); // keeps it before what follows
#endif
}

template <> struct WordOf<16> { typedef uint32_t type __attribute__((ext_vector_type(4))); };

// One counter has a wave's loads and stores, in order. Where the compiler waits for one of several
// loads after a store of what another gave, it may wait for that store, too: it does not see
// store_16 in the counter, and in a loop over several PEs it waits as if it came there for the
// first time (four loads and four stores took three round trips of a store; gfx942, 2026-11-26). So
// all loads of a round are waited for before its first store.
template <int n, class W> SHMEM_D_ void arrive(W (&v)[n]) {
  SHMEM_UNROLL_
  for (int k = 0; k < n; k++)
    if constexpr (sizeof(W) < 4) {
      uint32_t word = v[k];
      asm volatile("" : "+v"(word));
      v[k] = W(word);
    } else {
      asm volatile("" : "+v"(v[k]));
    }
}
// A barrier of the workgroup that threads come to when they have v.
template <int n, class W> SHMEM_D_ void sync_arrived(W (&v)[n]) {
  arrive(v);
  __syncthreads();
}

inline constexpr int order_of(Order o) {
  return o == Order::relaxed   ? __ATOMIC_RELAXED
         : o == Order::acquire ? __ATOMIC_ACQUIRE
         : o == Order::release ? __ATOMIC_RELEASE
                               : __ATOMIC_ACQ_REL;
}
inline constexpr bool releases(Order o) {
  return o == Order::release || o == Order::acq_rel;
}
// The rest of the order after release_before.
inline constexpr int rest_of(Order o, Range r) {
  if (!releases(o) || r == Range::workgroup) return order_of(o);
  return o == Order::acq_rel ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
}
inline constexpr int range_of(Range r) {
  return r == Range::workgroup ? __HIP_MEMORY_SCOPE_WORKGROUP
         : r == Range::device  ? __HIP_MEMORY_SCOPE_AGENT
                               : __HIP_MEMORY_SCOPE_SYSTEM;
}

// The object as bits in global memory: a flat access would also ask the LDS.
template <class T> SHMEM_D_ auto bits(T *p) {
  return (__attribute__((address_space(1))) Bits<T> *)(p);
}

template <Order o = Order::relaxed, Range r = Range::system, class T> SHMEM_D_ T load(const T *p) {
  return from_bits<T>(__hip_atomic_load(bits(const_cast<T *>(p)), order_of(o), range_of(r)));
}
// Plain accesses of global memory; no thread writes the words that are loaded. The cast has to be
// at the access, because LLVM takes a cast of a pointer from flat to global and back for no cast at
// all.
template <class T> using Words = typename WordOf<int(alignof(T))>::type;
template <class T> SHMEM_D_ T load_global(const T *p) {
  T v;
  SHMEM_UNROLL_
  for (unsigned i = 0; i < sizeof(T) / sizeof(Words<T>); i++) {
    const Words<T> w = ((const __attribute__((address_space(1))) Words<T> *)(p))[i];
    __builtin_memcpy(reinterpret_cast<char *>(&v) + i * sizeof w, &w, sizeof w);
  }
  return v;
}
// By the scalar unit where the address is the same in all lanes.
template <class T> SHMEM_D_ T load_constant(const T *p) {
  return *(const __attribute__((address_space(4))) T *)(p);
}
// Compilers load values of constant memory before all loops, and keep them in scalar registers to
// the kernel's end. Rare code loads its values itself instead: alltoall on a stream, with kernels
// that reach other nodes, keeps 18 scalars fewer in lanes of a vector register (clang 19,
// 2026-11-24).
template <class T> SHMEM_D_ const T &load_anew(const T &v) {
  auto *p = (const __attribute__((address_space(4))) T *)(&v);
  asm volatile("" : "+s"(p));
  return *(const T *)(p); // a load of constant memory, as inference of address spaces has it
}
SHMEM_D_ uintptr_t load_one_of(const uintptr_t *a, const uintptr_t *b, bool first, unsigned row,
                               unsigned i) {
  using Constant = const __attribute__((address_space(4))) uintptr_t *;
  return ((first ? (Constant)(a) : (Constant)(b)) + row)[i];
}
template <class T> SHMEM_D_ void store_global(T *p, T v) {
  using Piece = typename WordOf<alignof(T) < 4 ? int(alignof(T)) : 4>::type;
  constexpr unsigned n = sizeof(Words<T>) / sizeof(Piece);
  SHMEM_UNROLL_
  for (unsigned i = 0; i < sizeof(T) / sizeof(Words<T>); i++) {
    Piece piece[n]; // clang 15 would put smaller ones into private memory
    SHMEM_UNROLL_
    for (unsigned k = 0; k < n; k++)
      __builtin_memcpy(&piece[k], reinterpret_cast<const char *>(&v) + (i * n + k) * sizeof(Piece),
                       sizeof(Piece));
    Words<T> w;
    __builtin_memcpy(&w, piece, sizeof w);
    ((__attribute__((address_space(1))) Words<T> *)(p))[i] = w;
  }
}
// Keeps a caller's array in memory where the compiler would keep it in registers: when an element
// of 64 bits is stored by an index that differs between lanes, clang before 19 stores its upper
// half over the lower one (LLVM 98907; ROCm's clang 15 did so to the indices of wait_until_some and
// test_some, 2026-11).
template <class T> SHMEM_D_ T *in_memory(T *p) {
#if __clang_major__ < 20 // ROCm's clang 19 branched off before LLVM's
  asm("" : "+v"(p));
#endif
  return p;
}
SHMEM_D_ unsigned anew(unsigned v) {
  v = __builtin_amdgcn_readfirstlane(v);
  asm volatile("" : "+s"(v));
  return v;
}
SHMEM_D_ uint64_t anew(uint64_t v) {
  const unsigned low = __builtin_amdgcn_readfirstlane(unsigned(v)),
                 high = __builtin_amdgcn_readfirstlane(unsigned(v >> 32));
  v = low | uint64_t(high) << 32;
  asm volatile("" : "+s"(v));
  return v;
}
// By builtins, because threadIdx, blockDim and their like call ROCm's device library, which clang
// 21 does not inline into kernels of more than 1100 basic blocks (16 calls in each product's
// kernel, 2026-11). clang 21 takes the result of a call for another number in each lane.
SHMEM_D_ Index thread() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
          __builtin_amdgcn_workitem_id_z()};
}
SHMEM_D_ Index threads() {
  return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
          __builtin_amdgcn_workgroup_size_z()};
}
SHMEM_D_ Index block() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
          __builtin_amdgcn_workgroup_id_z()};
}
SHMEM_D_ Index blocks() { // HIP launches whole ones
  Index t = threads();
  // clang 19 moved the division above arch::argument, and kernels of wire.hip with the ring waited
  // for the workgroup's size alone, and then for their packet (gfx942, 2026-11).
  t.x = anew(t.x);
  return {__builtin_amdgcn_grid_size_x() / t.x, __builtin_amdgcn_grid_size_y() / t.y,
          __builtin_amdgcn_grid_size_z() / t.z};
}
// In memory: compilers load a parameter at the kernel's beginning and keep it to the end, and
// multiply's took 160 to 310 scalar registers more than there are (clang 19, gfx942, 2026-11). A
// load from memory stands where the value is used.
// The memory is the host's, as a rule. A kernel waits 1.3 us for each line of it that the kernel
// reads for the first time: for one line after the other, where each value is loaded when it is
// used. So the kernel asks here for all lines at once, and for those with the workgroup's and the
// grid's size.
// Compilers get the address only when all lines have come, or they would load and await some values
// before.
template <class T> SHMEM_D_ const T &argument(const T &) {
  using Byte = const __attribute__((address_space(4))) char;
  Byte *at = (Byte *)__builtin_amdgcn_kernarg_segment_ptr();
  // Of each line one word, and the last word, because the first one need not begin a line. All are
  // operands at once: compilers waited for some of a sum of them before they asked for the others.
  // A program's own finish may make an argument longer: then its last lines are asked for later.
  constexpr unsigned line = 64, last = (sizeof(T) - 1) & ~3u, most = 12;
  unsigned w[most];
  SHMEM_UNROLL_
  for (unsigned i = 0; i < most; i++)
    w[i] = *(const __attribute__((address_space(4))) unsigned *)(at + (i * line < last ? i * line
                                                                                       : last));
  asm volatile(""
               : "+s"(at)
               : "s"(__builtin_amdgcn_workgroup_size_x()), "s"(__builtin_amdgcn_grid_size_x()),
                 "s"(w[0]), "s"(w[1]), "s"(w[2]), "s"(w[3]), "s"(w[4]), "s"(w[5]), "s"(w[6]),
                 "s"(w[7]), "s"(w[8]), "s"(w[9]), "s"(w[10]), "s"(w[11]));
  // A multiple of 4, or compilers would load bytes by vectors, past the scalar cache.
  return *(const T *)(Byte *)((uintptr_t)at & ~uintptr_t(3));
}
template <class T> SHMEM_D_ bool is_known(T v) {
  return __builtin_constant_p(v);
}
// Waits until this wave's stores are visible everywhere. vmcnt counts a wave's own accesses only,
// and by LLVM's model a barrier of the workgroup waits for none of them: a wave that releases after
// the barrier sees the stores of other waves, but these may still be on their way to a wider scope
// (LLVM 161638 says so of gfx10; clang 15 waits before each barrier of gfx90a, clang 19 before none
// of gfx942's).
SHMEM_D_ void wait_stores() {
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
}
// Orders the stores of this wave, and of waves that it has met at a barrier after their
// wait_stores, before this wave's next stores.
SHMEM_D_ void fence_release() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
  // For gfx942, clang 19 does not count the write-back of the L2 among what is under way: it takes
  // away the wait for it where it knows of no store (2026-11, barrier_all_wg of test/isa).
  wait_stores();
}
// For the same reason every atomic that writes back gets its release from here, and from the
// compiler only the rest of its order.
template <Order o, Range r> SHMEM_D_ void release_before() {
  if constexpr (releases(o) && r == Range::system) fence_release();
  if constexpr (releases(o) && r == Range::device) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    wait_stores();
  }
}
SHMEM_D_ void fence_acquire() {
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}
// An acquire empties caches, so it comes once, after the last poll.
template <class T> SHMEM_D_ T poll(const T *p) {
  return load(p);
}
SHMEM_D_ void polled() {
  fence_acquire();
}
SHMEM_D_ void progress() {}
// Orders stores of the stream's earlier kernels before this one's: they may still be in the L2,
// which is written back at the end of the stream.
SHMEM_D_ void fence_stream() {
  fence_release();
}
// Orders this wave's earlier stores before its later loads as well: they are issued after the
// stores have ended. g, get and polls, which must not load old data, bypass the caches, so none is
// emptied.
SHMEM_D_ void fence_all() {
  fence_release();
}
template <Order o = Order::relaxed, Range r = Range::system, class T>
SHMEM_D_ void store(T *p, T v) {
  release_before<o, r>();
  __hip_atomic_store(bits(p), to_bits(v), rest_of(o, r), range_of(r));
}
template <Order o = Order::relaxed, Range r = Range::system, class T>
SHMEM_D_ T exchange(T *p, T v) {
  release_before<o, r>();
  return from_bits<T>(__hip_atomic_exchange(bits(p), to_bits(v), rest_of(o, r), range_of(r)));
}
template <Order o = Order::relaxed, Range r = Range::system, class T>
SHMEM_D_ T compare_exchange(T *p, T cond, T v) {
  Bits<T> seen = to_bits(cond);
  release_before<o, r>();
  __hip_atomic_compare_exchange_strong(bits(p), &seen, to_bits(v), rest_of(o, r), __ATOMIC_RELAXED,
                                       range_of(r));
  return from_bits<T>(seen);
}
// For integers only: gfx90a has no floating-point atomic on fine-grained memory.
#define SHMEM_FETCH_(op)                                                                           \
  template <Order o = Order::relaxed, Range r = Range::system, class T>                            \
  SHMEM_D_ T fetch_##op(T *p, T v) {                                                               \
    release_before<o, r>();                                                                        \
    return T(__hip_atomic_fetch_##op(bits(p), to_bits(v), rest_of(o, r), range_of(r)));            \
  }
SHMEM_FETCH_(add)
SHMEM_FETCH_(and)
SHMEM_FETCH_(or)
SHMEM_FETCH_(xor)
#undef SHMEM_FETCH_

// These bypass the caches: this GPU's L2 may hold a peer's memory as it was before (gfx942), and
// written lines would wait there for a write-back. n loads are in flight at once, with one wait for
// all.
#define SHMEM_LOAD_(v, p) "global_load_dwordx4 %" #v ", %" #p ", off" SHMEM_LOAD_BITS_ "\n\t"
template <int n, class W> SHMEM_D_ void load_remote(W (&v)[n], const W *p, size_t step) {
  if constexpr (sizeof(W) == 16 && n == 4) {
    asm volatile(SHMEM_LOAD_(0, 4) SHMEM_LOAD_(1, 5) SHMEM_LOAD_(2, 6)
                     SHMEM_LOAD_(3, 7) "s_waitcnt vmcnt(0)"
                 : "=&v"(v[0]), "=&v"(v[1]), "=&v"(v[2]), "=&v"(v[3])
                 : "v"(p), "v"(p + step), "v"(p + 2 * step), "v"(p + 3 * step)
                 : "memory");
  } else if constexpr (sizeof(W) == 16 && n == 2) {
    asm volatile(SHMEM_LOAD_(0, 2) SHMEM_LOAD_(1, 3) "s_waitcnt vmcnt(0)"
                 : "=&v"(v[0]), "=&v"(v[1])
                 : "v"(p), "v"(p + step)
                 : "memory");
  } else if constexpr (sizeof(W) == 16) {
    static_assert(n == 1, "one, or one of those above");
    asm volatile(SHMEM_LOAD_(0, 1) "s_waitcnt vmcnt(0)" : "=&v"(v[0]) : "v"(p) : "memory");
  } else {
    for (int k = 0; k < n; k++) v[k] = load(p + k * step);
  }
}
#undef SHMEM_LOAD_
template <class W> SHMEM_D_ void store_remote(W *p, W v) {
  if constexpr (sizeof(W) == 16)
    store_16(p, v);
  else
    store(p, v);
}

// Memory that all lanes of a wave name, as in a call of a wave or a workgroup: `at` is the
// lane's place in bytes, `step` is in words and the same for all. An access of a buffer, which here
// is all memory from p on, has a scalar base: it takes no vector registers for addresses, and
// unlike inline assembly the compiler counts it and keeps its data. Bits of the last argument: glc,
// slc and scc on gfx90a; sc0, nt and sc1 on others.
typedef int32_t Resource __attribute__((ext_vector_type(4)));
typedef uint32_t Sixteen __attribute__((ext_vector_type(4)));
extern "C" __device__ void shmem_buffer_store(Sixteen data, Resource, int at, int step,
                                              int bits) __asm("llvm.amdgcn.raw.buffer.store.v4i32");
extern "C" __device__ Sixteen
shmem_buffer_load(Resource, int at, int step, int bits) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
template <class W> class Uniform {
public:
  SHMEM_D_ explicit Uniform(W *p) {
    const uint64_t at = uint64_t(reinterpret_cast<uintptr_t>(p));
    low = scalar(uint32_t(at));
    high = scalar(uint32_t(at >> 32));
  }
  SHMEM_D_ void store(unsigned at, unsigned step, W v) const {
    if constexpr (sizeof(W) == 16)
      shmem_buffer_store(v, resource(), int(at), scalar(step * sizeof(W)), SHMEM_STORE_AUX_);
    else
      arch::store(place(at, step), v);
  }
  SHMEM_D_ W load(unsigned at, unsigned step) const {
    if constexpr (sizeof(W) == 16)
      return shmem_buffer_load(resource(), int(at), scalar(step * sizeof(W)), SHMEM_LOAD_AUX_);
    else
      return arch::load(place(at, step));
  }

private:
  int low, high;
  // For compilers that do not know it to be the same in all lanes: in a vector register it is an
  // error of clang 15's.
  SHMEM_D_ static int scalar(size_t v) { return __builtin_amdgcn_readfirstlane(int(uint32_t(v))); }
  // Raw: no stride; as long as can be; of words of 32 bits.
  SHMEM_D_ Resource resource() const { return Resource{low, high & 0xffff, -1, 0x20000}; }
  SHMEM_D_ W *place(unsigned at, unsigned step) const {
    const uint64_t base = uint64_t(uint32_t(high)) << 32 | uint32_t(low);
    return reinterpret_cast<W *>(base + step * uint64_t(sizeof(W)) + at);
  }
};

// Two words next to each other, each of them whole. All 16 bytes together are not, over xGMI (RCCL
// 7.1.1).
SHMEM_D_ void load_lines(uint64_t &a, uint64_t &b, const uint64_t *p) {
  a = load(p), b = load(p + 1);
}
SHMEM_D_ void store_lines(uint64_t *p, uint64_t a, uint64_t b) {
  typedef uint64_t Two __attribute__((ext_vector_type(2)));
  store_16(p, Two{a, b});
}

// Inlined, because a kernel with a call takes all registers and a stack.
SHMEM_D_ float erf(float v) {
  float all;
  [[clang::always_inline]] all = __ocml_erf_f32(v);
  return all;
}
SHMEM_D_ float half_to_float(uint16_t h) {
  return float(__builtin_bit_cast(_Float16, h));
}
SHMEM_D_ uint16_t float_to_half(float f) {
  return __builtin_bit_cast(uint16_t, _Float16(f));
}
#undef SHMEM_LOAD_BITS_
#undef SHMEM_LOAD_AUX_
#undef SHMEM_STORE_AUX_
#undef SHMEM_SC_BITS_

// The wave size of the pass that is compiled: 64 on gfx9, 32 on others.
// The second number of __launch_bounds__, here waves on a SIMD: as many as 512 threads have anyway.
inline constexpr unsigned one_resident = 2, two_resident = 2;
#if defined __HIP_DEVICE_COMPILE__ && !defined __GFX9__
inline constexpr unsigned wave_size = 32;
#else
inline constexpr unsigned wave_size = 64;
#endif
inline constexpr bool has_uniform = true;
inline constexpr bool whole_waves = true; // all workgroups of products are of these
// A wave runs in step, but the compiler must not move accesses across this.
SHMEM_D_ void wave_sync(unsigned) {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
}
SHMEM_D_ unsigned wave_first(unsigned v) {
  return __builtin_amdgcn_readfirstlane(v);
}
// By DPP, whose quad_perm names a lane for each of the four by two bits.
template <unsigned lane> SHMEM_D_ uint32_t quad_lane(uint32_t v) {
  return uint32_t(__builtin_amdgcn_mov_dpp(int(v), lane * 0x55, 0xf, 0xf, true));
}
template <unsigned mask> SHMEM_D_ uint32_t quad_xor(uint32_t v) {
  static_assert(mask == 1 || mask == 2);
  return uint32_t(__builtin_amdgcn_mov_dpp(int(v), mask == 1 ? 0xb1 : 0x4e, 0xf, 0xf, true));
}
SHMEM_D_ uint64_t take(uint64_t *counter) {
  const uint64_t lanes = __builtin_amdgcn_read_exec();
  const unsigned before = __builtin_amdgcn_mbcnt_hi(unsigned(lanes >> 32),
                                                    __builtin_amdgcn_mbcnt_lo(unsigned(lanes), 0));
  uint64_t first = 0;
  if (before == 0)
    first =
        fetch_add<Order::relaxed, Range::device>(counter, uint64_t(__builtin_popcountll(lanes)));
  const uint64_t low = unsigned(__builtin_amdgcn_readfirstlane(int(unsigned(first)))),
                 high = unsigned(__builtin_amdgcn_readfirstlane(int(unsigned(first >> 32))));
  return (high << 32 | low) + before;
}
SHMEM_D_ uint64_t take_alone(uint64_t *counter) {
  return fetch_add<Order::relaxed, Range::device>(counter, uint64_t(1));
}
// runtime::clock_rate ticks a second.
SHMEM_D_ uint64_t clock() {
  return __builtin_amdgcn_s_memrealtime();
}
SHMEM_D_ void pause() {
  __builtin_amdgcn_s_sleep(1);
}
// Neither of these two returns, but the compiler must not know it: for code that leaves nested
// loops for good it keeps masks of lanes in every loop around it, up to the kernel's end (40 scalar
// registers and a tenth of the instructions of reductions; clang 19, gfx942, 2026-11).
SHMEM_D_ void trap() {
  asm volatile("s_trap 2");
}
SHMEM_D_ void stop() {
  unsigned on;
  do {
    pause();
    asm volatile("s_mov_b32 %0, 1" : "=s"(on));
  } while (on);
}

} // namespace shmem::arch
