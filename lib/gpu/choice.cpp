// SPDX-License-Identifier: MIT
// Which GPU a PE takes: the next in turn of those nearest to its cores, so that the PEs of a node
// spread evenly. The runtime has already applied the variables that hide devices
// (ROCR_VISIBLE_DEVICES and its like); where a launcher shows each PE one device, there is nothing
// to choose.
#include "hip.hpp"
#include <algorithm>
#include <hwloc.h>

namespace shmem::gpu {

int chosen = -1;

namespace {

constexpr int most = 64; // devices of a node that can be told apart

// How far the device at this PCI address is from the PE's cores: how many cores the smallest part
// of the machine has that holds the device and one of them. 0 when nothing is known.
unsigned distance(hwloc_topology_t topology, hwloc_const_bitmap_t cores, const char *bus) {
  hwloc_obj_t at = hwloc_get_pcidev_by_busidstring(topology, bus);
  if (at) at = hwloc_get_non_io_ancestor_obj(topology, at);
  while (at && !hwloc_bitmap_intersects(at->cpuset, cores)) at = at->parent;
  return at ? unsigned(hwloc_bitmap_weight(at->cpuset)) : 0;
}

} // namespace

uint64_t nearest_devices(int visible) {
  const int asked = int(self.env.gpu_choice);
  if (asked >= std::min(visible, most))
    fatal("SHMEM_DEVICE = \"%d\": this PE sees %d GPUs, from 0", asked, visible);
  if (asked >= 0) return uint64_t(1) << asked;
  const uint64_t all = visible >= most ? ~uint64_t(0) : (uint64_t(1) << visible) - 1;
  hwloc_topology_t topology;
  // Reading the topology takes milliseconds, so it is not read where there is nothing to choose.
  if (visible == 1 || hwloc_topology_init(&topology) < 0) return all;
  // PCI devices only: to know more of them, hwloc would start OpenCL or X11.
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_bitmap_t cores = hwloc_bitmap_alloc();
  uint64_t best = all;
  if (hwloc_topology_load(topology) == 0 &&
      hwloc_get_cpubind(topology, cores, HWLOC_CPUBIND_PROCESS) == 0) {
    unsigned least = ~0u;
    for (int d = 0; d < visible && d < most; d++) {
      char bus[32];
      unsigned far = 0;
      if (tried(hipDeviceGetPCIBusId(bus, sizeof bus, d))) far = distance(topology, cores, bus);
      if (far == 0) far = ~0u - 1; // unknown: as far as any
      if (far < least) best = 0;
      if (far <= least) best |= uint64_t(1) << d;
      if (far < least) least = far;
    }
  }
  hwloc_bitmap_free(cores);
  hwloc_topology_destroy(topology);
  return best;
}

} // namespace shmem::gpu
