// SPDX-License-Identifier: MIT
// Memory of the program's own that it has made symmetric: shmemx_buffer_register. The heap's paths
// know nothing of it; what is not on the heap looks here, by a binary search.
#pragma once
#include "state.hpp"

namespace shmem::buffer {

inline constexpr int most = 1024;

// The buffer that p lies in, or null. Any thread asks, at any time.
const Region *find(const void *p);
// The name that p has on all PEs, in a buffer of this PE or of a peer as it is mapped here; 0 where
// it is in none.
uint64_t name(const void *p);
void drop_all(); // at finalize, when nobody uses any

} // namespace shmem::buffer
