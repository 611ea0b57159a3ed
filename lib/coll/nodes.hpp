// SPDX-License-Identifier: MIT
// Teams whose members are on several nodes, in two levels: the members on each node, as in a team
// of one node, and one member of each node among themselves.
#pragma once
#include "../../device/kinds.hpp"
#include "../net.hpp"
#include "../team.hpp"
#include "../tune.hpp"
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

namespace shmem {

// The members on one node.
struct Part : PeOrder {
  PeOrder at; // which members of the team
  int first() const { return pe(0); }
};
// Members that follow each other in the team and are on one node: n of that part, from one on.
struct Run {
  int part, from, n;
};

struct TaggedMessages;
struct Nodes {
  Team here;               // the members on this node, whose first speaks for it
  uint64_t tag;            // of its messages
  int me;                  // which of the parts, which are in the order of their first members
  int rails;               // members that every part has
  std::vector<Part> parts; // owns their lists; rail i is the i-th members of all parts
  std::vector<Run> runs;   // in the order of the team's members
  // Of each part: the message by which it tells that it has this PE's last broadcast.
  std::vector<std::unique_ptr<TaggedMessages>> taken;
  Nodes();
  ~Nodes();
};

// The part of the team that shares memory.
inline Team &here(Team &t) {
  return t.nodes ? t.nodes->here : t;
}
inline const Team &here(const Team &t) {
  return t.nodes ? t.nodes->here : t;
}

// A tag says the sender of a message, its way and its team. A job of several nodes has at most 2^20
// PEs. A team is known by PE `start` and its number there, as splits give it; an active set, which
// has no number that all know, by the set.
inline constexpr int tag_pe_bits = 20, tag_way_bits = 2;
enum class Tag : uint64_t { meet, along, back, taken }; // a way of messages, which come in order
inline uint64_t team_tag(int start, int id) {
  return uint64_t(start) << 10 | uint64_t(id);
}
// The larger the stride, the fewer members fit: the first bit that is set tells the stride, the
// bits after it the size. A set of one has no messages.
inline uint64_t set_tag(int start, int log_stride, int size) {
  const uint64_t members =
      uint64_t(1) << std::max(0, tag_pe_bits - log_stride) | uint64_t(size - 1);
  return uint64_t(1) << (2 * tag_pe_bits + 1) | uint64_t(start) << (tag_pe_bits + 1) | members;
}
// The tag of a team that its members are making: 40 bits of its key, which no other team has.
inline uint64_t meeting_tag(uint64_t key) {
  return uint64_t(1) << (2 * tag_pe_bits) | key % (uint64_t(1) << (2 * tag_pe_bits));
}
static_assert(max_teams <= 1 << 10 && max_pes <= 1 << tag_pe_bits &&
              2 * tag_pe_bits + 2 + tag_way_bits + tag_pe_bits <= 64);

// Messages of this team.
struct TaggedMessages : net::Messages {
  uint64_t tag;
  TaggedMessages(const Nodes &nodes, Tag way) : tag(nodes.tag | uint64_t(way) << tag_pe_bits) {}
  void to(int pe, const void *p, size_t bytes) { send(pe, tag | uint64_t(self.me), p, bytes); }
  void from(int pe, void *p, size_t bytes) { receive(tag | uint64_t(pe), p, bytes); }
};

// Null for a team on one node. t has its share and counts.
Nodes *make_nodes(const Team &t, uint64_t tag);
void free_nodes(Nodes *nodes);

namespace coll {
void broadcast_nodes(const char *fn, Team &t, void *dest, const void *source, size_t bytes,
                     int root, bool root_too);

// The blocks of all members, of which member i's has size(i) bytes and comes to at(i), in host
// memory.
struct MemberBlocks {
  const size_t *ends; // null: all have the same size
  size_t bytes;
  size_t at(int i) const { return !ends ? size_t(i) * bytes : i ? ends[i - 1] : 0; }
  size_t size(int i) const { return ends ? ends[i] - at(i) : bytes; }
};
void collect_nodes(const char *fn, Team &t, void *dest, const void *source,
                   const MemberBlocks &blocks);

// In host memory.
void alltoall_nodes(const char *fn, Team &t, void *dest, const void *source, size_t bytes);

// The type and operator of a reduction.
struct Combine {
  size_t size, align;
  void (*with)(void *acc, const void *in, size_t n); // acc = acc op in, of n elements
  Operator op;
  std::optional<ElementType> type; // if kernels combine it
};
// A reduction of all (Shape::all), or a scan.
void combine_nodes(const Combine &by, const char *fn, Team &t, void *dest, const void *source,
                   size_t n, Shape shape);
} // namespace coll

} // namespace shmem
