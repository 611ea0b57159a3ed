// SPDX-License-Identifier: MIT
// The process that makes a unique id: a thread of it listens until all PEs of that job have come,
// and tells each where its parent in the tree listens. It need not be a PE.
#pragma once
#include "link.hpp"

namespace shmem::bootstrap {

// The 128 bytes of a unique id.
struct Id {
  char magic[8];
  Secret secret;
  Where where;
  uint8_t room[12];
  bool right() const;
};
static_assert(sizeof(Id) == 128);

// PE r > 0 connects to PE (r - 1) / children.
inline constexpr int children = 32;
inline int parent_of(int pe) {
  return (pe - 1) / children;
}

// Makes an id and listens for its job. secret: null for random bits; port: 0 for any. timeout: in
// seconds, from the first PE that comes. False: error says why.
bool make_id(const char *interfaces, uint16_t port, const Secret *secret, double timeout, Id *id,
             std::string *error);

} // namespace shmem::bootstrap
