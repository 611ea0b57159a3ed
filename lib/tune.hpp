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
// bytes: of what one member gives one other, or of the array that is reduced. The same on all
// members.
Choice choose(Collective what, int pes, size_t bytes);

// At init: of the built-in table and SHMEM_TUNE_FILE the rows that are for this architecture, on at
// most most_blocks workgroups, of which `lines` have lines.
void open(const char *arch, unsigned most_blocks, unsigned lines);

} // namespace shmem::tune
