// SPDX-License-Identifier: MIT
// Copies and atomics that the GPU does for the host's routines, between host and device memory in
// any mixture.
#pragma once
#include "../../device/kinds.hpp"
#include <cstddef>
#include <cstdint>

namespace shmem::gpu {

// start_copy only has to be done after finish.
void copy(void *dest, const void *source, size_t n);
void start_copy(void *dest, const void *source, size_t n);
void copy_2d(void *dest, size_t dest_pitch, const void *source, size_t source_pitch, size_t width,
             size_t height);
void zero(void *p, size_t n);
void finish();

// Atomics of 4 and 8 bytes, done by the GPU. The result is what was there before.
uint64_t atomic(Amo op, void *p, size_t bytes, uint64_t value, uint64_t cond);
void close_copies(); // at finalize

} // namespace shmem::gpu
