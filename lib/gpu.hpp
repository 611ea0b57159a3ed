// SPDX-License-Identifier: MIT
// The symmetric heap in GPU memory, and what the GPU does for the host's routines on it. The only
// users of HIP are the files gpu*.cpp.
#pragma once
#include "../device/state.hpp"
#include "state.hpp"
#include <type_traits>

namespace shmem {

// Fills fast, word, careful and their like from what heaps there are and are in use.
void choose_spans();

namespace gpu {

inline constexpr int max_device_pes = device::max_pes; // what kernels have room for

// At init and finalize, on every PE at once. A PE that cannot have its part ends the job. Without a
// GPU, or where none is wanted, there is no device heap.
void open();
void close();
// The device heap hands out its first block: from now on host accesses must look where they go.
void use();

// Shows kernels a team that this PE is a member of, and forgets what its flags were used for.
void show_team(const Team &t);
void forget_team(int id);

// The PE on whose device heap p lies, by its address here, or -1.
inline int owner(const void *p) {
  for (int pe = 0; pe < self.n && self.device.size; pe++)
    if (uintptr_t(p) - self.device.base - uintptr_t(self.device.delta[pe]) < self.device.size)
      return pe;
  return -1;
}
// Device memory, here or of a peer, on which the CPU cannot load and store; or do atomics.
inline bool is_far(const void *p) {
  return self.far && owner(p) >= 0;
}
inline bool does_atomics(const void *p) {
  return self.gpu_atomics && owner(p) >= 0;
}

// The GPU's copies, any mixture of host and device memory. start only has to be done after finish.
void copy(void *dest, const void *source, size_t n);
void start_copy(void *dest, const void *source, size_t n);
void copy_2d(void *dest, size_t dest_pitch, const void *source, size_t source_pitch, size_t width,
             size_t height);
void zero(void *p, size_t n);
void finish();

// Atomics of 4 and 8 bytes, done by the GPU. The result is what was there before. In the order of
// kernels::Atomic.
enum Op : int { op_fetch, op_set, op_swap, op_cas, op_add, op_and, op_or, op_xor };
uint64_t atomic(Op op, void *p, size_t bytes, uint64_t value, uint64_t cond);

template <class T> T atomic(Op op, T *p, T value = T{}, T cond = T{}) {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static_assert(sizeof(T) == sizeof(Word));
  Word seen =
      Word(atomic(op, p, sizeof(T), __builtin_bit_cast(Word, value), __builtin_bit_cast(Word, cond)));
  return __builtin_bit_cast(T, seen);
}

} // namespace gpu
} // namespace shmem
