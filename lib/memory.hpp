// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace shmem {

// What this node's memory allows this process: the machine's, or that of the control groups that it
// is in where that is less.
size_t memory_limit();

} // namespace shmem
