// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace shmem::gpu {

// Memory that each PE of the node has and all map. No routine uses these words yet.
struct Trial {
  const uintptr_t *starts; // of each PE of the node: where its memory is mapped here
  const char *what;
  size_t first, last; // words; a mark for each PE of the node behind the first
};
// Ends the program where a mapping is wrong. Collective.
void try_out(std::initializer_list<Trial> trials);
// Returns when the copies and memsets of all PEs have arrived. Collective.
void copies_arrive();

} // namespace shmem::gpu
