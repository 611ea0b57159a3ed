// SPDX-License-Identifier: MIT
// Teams whose members are on several nodes, in two levels: on each node as ever, and one member of each
// among themselves.
#pragma once
#include "../net.hpp"
#include "../team.hpp"
#include <map>
#include <vector>

namespace shmem {

struct Nodes {
  Team here;                 // the members on this node, whose first speaks for it
  uint64_t tag;              // of its messages
  int me;                    // which of the nodes, in the order of their first members
  std::vector<int> first;    // those, as PEs of the world
  std::map<int, int> number; // of a node of the world
};

// The part of the team that shares memory.
inline Team &here(Team &t) {
  return t.nodes ? t.nodes->here : t;
}
inline const Team &here(const Team &t) {
  return t.nodes ? t.nodes->here : t;
}

// A job of several nodes has at most 2^18 PEs, so that a tag says whose message it is, and of which team:
// PE `start` and its number there, as splits give it, or, of an active set, which has no number that all know,
// the set.
inline constexpr int tag_pe_bits = 18;
inline uint64_t team_tag(int start, int id) {
  return uint64_t(start) << 10 | uint64_t(id);
}
inline uint64_t set_tag(int start, int log_stride, int size) {
  return uint64_t(1) << 44 | uint64_t(start) << 24 | uint64_t(log_stride) << 19 | uint64_t(size);
}
static_assert(max_teams <= 1 << 10);

// Null for a team on one node. t has its share and counts.
Nodes *make_nodes(const Team &t, uint64_t tag);
void free_nodes(Nodes *nodes);

namespace coll {
void broadcast_nodes(const char *fn, Team &t, void *dest, const void *source, size_t bytes,
                     int root, bool root_too);
}

} // namespace shmem
