// SPDX-License-Identifier: MIT
// The requests of kernels for PEs that are not mapped. Only a build with a network has them.
#pragma once
#include "../../device/state.hpp"

namespace shmem::gpu {

// Makes the ring. flag_there gives the offset among the flags of PE pe of a flag that this PE has
// at `at`. Both PEs are in the team of the flag.
device::Ring open_ring(uint64_t (*flag_there)(uint64_t at, int pe));
void close_ring();
// In jobs of several nodes: starts to do requests. A kernel may be launched after that.
void serve_kernels();
// Waits for all requests of kernels that have ended.
void finish_ring();

} // namespace shmem::gpu
