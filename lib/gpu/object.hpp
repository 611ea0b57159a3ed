// SPDX-License-Identifier: MIT
// How a team makes an object that has a block of the device heap. All PEs of the world make it at
// once, because an allocation has one size. A PE that passes SHMEM_TEAM_INVALID has no part in it.
#pragma once
#include "../memory/heap.hpp"
#include "../team.hpp"
#include <new>

namespace shmem::gpu {

template <class Object> struct Made {
  Object *object;
  Team *team;   // null on a PE that has no part
  char *memory; // from a line of the GPU's caches on, as flags must
};

// bytes(object, team): checks what the caller passes, and says how large the block is to be.
template <class Object, class Bytes>
Made<Object> make_object(const char *fn, shmem_team_t team, Bytes bytes) {
  check_ready(fn);
  open_device_heap();
  Team *const t = team == SHMEM_TEAM_INVALID ? nullptr : &need_team(fn, "team", team);
  auto *const object = new (std::nothrow) Object{};
  if (!object) fatal("%s: no memory", fn);
  object->block = largest_block(fn, t ? bytes(*object, *t) : 0);
  return {object, t, static_cast<char *>(object->block)};
}

// The members have to agree in all that places follow from.
inline void check_shapes(const char *fn, Team &t, uint64_t digest) {
  exchange_value(t, digest, [&](int i, uint64_t theirs) {
    if (theirs != digest)
      fatal("%s: shape: differs from that of PE %d, member %d of the team", fn, t.pe(i), i);
  });
}

} // namespace shmem::gpu
