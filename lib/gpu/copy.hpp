// SPDX-License-Identifier: MIT
// Copies and atomics that the GPU does for the host's routines, between host and device memory in
// any mixture.
#pragma once
#include "../../device/operation.hpp"
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

// The GPU does an atomic on 4 or 8 bytes at an address here. Returns the old value.
uint64_t atomic(const Operation &op);
void close_copies(); // at finalize

} // namespace shmem::gpu
