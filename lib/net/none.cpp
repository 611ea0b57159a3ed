// SPDX-License-Identifier: MIT
// A build without a network: all PEs are on one node. Functions that init, finalize and quiet call
// do nothing; functions for remote PEs end the program.
#include "../coll/nodes.hpp"
#include "../gpu/ring.hpp"
#include "../log.hpp"

namespace shmem {

#define REMOTE(...)                                                                                \
  __VA_ARGS__ {                                                                                    \
    fatal("a call for a PE on another node, and the library was built without a network");         \
  }

namespace net {

void check(const bootstrap::Place &place) {
  if (place.elsewhere >= 0)
    fatal("PE %d is on another node, and the library was built without a network: build it with "
          "-Ducx=enabled, or run all PEs on one node",
          place.elsewhere);
}
size_t address_table_bytes() {
  return 0;
}
void open() {}
void open_device(bool) {}
void start() {}
void leave() {}
void stop() {}
void close() {}
void tell_exit(int) {}
void quiet() {}
void quiet(uint64_t) {}
uint64_t last_begun() {
  return 0;
}
bool progress(bool) {
  return false;
}

REMOTE(void open_buffer(int, const Span &, bool))
REMOTE(void close_buffer(int))
REMOTE(void open_chunk(bool, size_t, size_t))
REMOTE(void close_chunk(bool, size_t))
REMOTE(int node_of(int))
REMOTE(int nodes())
REMOTE(void quiet_at(const int *, size_t, uint64_t))

} // namespace net

namespace gpu {
void serve_kernels() {}
void finish_ring() {}
void close_ring() {}
REMOTE(device::Ring open_ring(uint64_t (*)(uint64_t, int)))
} // namespace gpu

void free_nodes(Nodes *) {}
REMOTE(Nodes *make_nodes(const Team &, uint64_t))
REMOTE(void sync_nodes(Team &))
REMOTE(void exchange_nodes(Team &, const void *, size_t, void *))
REMOTE(void coll::broadcast_nodes(const char *, Team &, void *, const void *, size_t, int, bool))
REMOTE(void coll::combine_nodes(const Combine &, const char *, Team &, void *, const void *, size_t,
                                Shape))
REMOTE(void coll::collect_nodes(const char *, Team &, void *, const void *, const MemberBlocks &))
REMOTE(void coll::alltoall_nodes(const char *, Team &, void *, const void *, size_t))

} // namespace shmem
