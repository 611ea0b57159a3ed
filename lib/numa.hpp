// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace shmem::numa {

// Asks for the pages of this PE's part on the memory nearest to the cores that it may run on,
// whoever touches them first.
void bind(void *start, size_t bytes);

} // namespace shmem::numa
