// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace shmem {

// The memory that this process may have: the machine's, or the limit of one of its control groups,
// if that is less.
size_t memory_limit();

} // namespace shmem
