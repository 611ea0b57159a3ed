// SPDX-License-Identifier: MIT
// Which algorithm a collective on a stream takes, on how many workgroups.
#pragma once
#include "../device/kinds.hpp"
#include <cstddef>

namespace shmem::tune {

struct Choice {
  Algorithm algorithm;
  unsigned blocks, threads;
};
// bytes: what one member gives one other, or the size of the array that is reduced. The same on all
// members.
Choice choose(Collective what, int pes, size_t bytes);

// At init: takes the rows for this architecture of SHMEM_TUNE_FILE and of the built-in table.
// Choices are at most most_blocks workgroups, of which `lines` have lines.
void open(const char *arch, unsigned most_blocks, unsigned lines);

} // namespace shmem::tune
