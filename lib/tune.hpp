// SPDX-License-Identifier: MIT
// The choice of a collective's algorithm: on a stream, with the number of workgroups, and between
// nodes.
#pragma once
#include "../device/kinds.hpp"
#include <cstddef>

namespace shmem::tune {

struct Choice {
  CollectiveAlgorithm algorithm;
  unsigned blocks, threads;
};
// bytes: from one member to one other, or the size of the array that is reduced. The same on all
// members. each_meets: the workgroups need a channel each, so they have to be resident at once;
// else there may be more of them, see kernels::Call. oneshot, results: the call can go that way; a
// row that names it matches no other call. split: only ways in which each member loads a part.
// short_rows: RMSNorm of rows up to rows::short_deep. pieces: the workgroups of a norm's row where
// workgroups share it, which have to meet all at once.
struct Asked {
  Collective what;
  int pes;
  size_t bytes;
  bool each_meets = false, oneshot = false, results = false, split = false, short_rows = false;
  unsigned pieces = 1;
};
Choice choose(const Asked &asked);

// tree: log2 steps; in a reduction every member is told all operands. chain: along the nodes, a
// step each. Both go by `segment` bytes at a time, in_flight of which have a buffer.
enum class Route { tree, chain };
struct Between {
  Route way;
  size_t segment;
  unsigned in_flight;
};
// bytes: what the members of a node give or get together; of a broadcast, the size of the array.
Between choose_between(Collective what, int nodes, size_t bytes);

// Workgroups that meet and have lines.
unsigned most_lines();

// At init: reads SHMEM_TUNE_FILE and the built-in table, and keeps the rows between nodes and those
// for this architecture. Choices of workgroups that meet are at most these.
struct Most {
  unsigned blocks, lines, short_rows;
};
void open(const char *arch, Most most);

} // namespace shmem::tune
