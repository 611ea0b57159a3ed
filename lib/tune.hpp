// SPDX-License-Identifier: MIT
// Which algorithm a collective takes: on a stream, and on how many workgroups; and between nodes.
#pragma once
#include "../device/kinds.hpp"
#include <cstddef>

namespace shmem::tune {

struct Choice {
  CollectiveAlgorithm algorithm;
  unsigned blocks, threads;
};
// bytes: what one member gives one other, or the size of the array that is reduced. The same on all
// members. each_meets: the workgroups need a channel each, so they have to be resident at once;
// else there may be more of them, see kernels::Call.
Choice choose(Collective what, int pes, size_t bytes, bool each_meets);

// tree: in log2 steps, and of a reduction everybody is told all that is to be combined. chain:
// along the nodes, a step each. In segments of so many bytes, of which so many have a buffer.
enum class Route { tree, chain };
struct Between {
  Route way;
  size_t segment;
  unsigned in_flight;
};
// bytes: what the members of a node give or get together, of a broadcast the array's.
Between choose_between(Collective what, int nodes, size_t bytes);

// At init: takes the rows between nodes and those for this architecture of SHMEM_TUNE_FILE and of
// the built-in table. Choices of workgroups that meet are at most most_blocks, of which `lines`
// have lines.
void open(const char *arch, unsigned most_blocks, unsigned lines);

} // namespace shmem::tune
