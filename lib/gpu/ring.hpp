// SPDX-License-Identifier: MIT
// The requests of kernels for PEs that are not mapped. Only a build with a network has them.
#pragma once
#include "../../device/state.hpp"

namespace shmem::gpu {

// Starts to do the requests. flag_there: where in a PE's flags that lies which is at `at` in this
// PE's. Both PEs are in the team whose flag it is.
device::Ring open_ring(uint64_t (*flag_there)(uint64_t at, int pe));
void close_ring();
// In jobs of several nodes: kernels that may be launched from now on can have requests for PEs that
// are not mapped.
void serve_kernels();
// Waits for all requests of kernels that have ended.
void finish_ring();

} // namespace shmem::gpu
