// SPDX-License-Identifier: MIT
#include "numa.hpp"
#include "log.hpp"
#include <hwloc.h>
#include <unistd.h>

namespace shmem::numa {

void bind(void *start, size_t bytes) {
  // Reading the topology takes milliseconds, so not on a machine that has nothing to choose.
  if (access("/sys/devices/system/node/node1", F_OK) != 0) return;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) < 0) return;
  hwloc_bitmap_t cores = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();
  if (hwloc_topology_load(topology) == 0 &&
      hwloc_get_cpubind(topology, cores, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_cpuset_to_nodeset(topology, cores, nodes);
    // Not strict: a full node spills over rather than kill the program.
    if (hwloc_set_area_membind(topology, start, bytes, nodes, HWLOC_MEMBIND_BIND,
                               HWLOC_MEMBIND_BYNODESET) < 0)
      debug("NUMA binding refused; pages lie where they are touched first");
  }
  hwloc_bitmap_free(nodes);
  hwloc_bitmap_free(cores);
  hwloc_topology_destroy(topology);
}

} // namespace shmem::numa
