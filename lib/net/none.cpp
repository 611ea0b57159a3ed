// SPDX-License-Identifier: MIT
// Built without a network: all PEs are on one node.
#include "../gpu.hpp"
#include "../log.hpp"
#include "../net.hpp"

namespace shmem::net {

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
void start() {}
void leave() {}
void stop() {}
void tell_exit(int) {}

} // namespace shmem::net

namespace shmem::gpu {
void serve_kernels() {}
} // namespace shmem::gpu
