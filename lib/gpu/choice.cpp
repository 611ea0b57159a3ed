// SPDX-License-Identifier: MIT
// Which GPU a PE takes: the one that the program has made current; or the next in turn of those
// nearest to the PE's cores, so that the PEs of a node spread evenly. The runtime has already
// applied the variables that hide devices (ROCR_VISIBLE_DEVICES and its like); where a launcher
// shows each PE one device, there is nothing to choose.
#include "choice.hpp"
#include "../../device/runtime.hpp"
#include "../team.hpp"
#include "hip.hpp"
#include "topology.hpp"
#include <algorithm>
#include <bit>
#include <cstring>
#include <hwloc.h>
#include <link.h>

namespace shmem::gpu {

std::vector<Gpu> gpus;

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

// The visible devices that this PE may take, one bit each: SHMEM_DEVICE, or the nearest.
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

hipError_t identify(int device, Gpu &g) {
  hipUUID uuid;
  static_assert(sizeof uuid == sizeof g.uuid);
  g.device = device;
  if (tried(hipDeviceGetUuid(&uuid, device))) memcpy(g.uuid, &uuid, sizeof uuid);
  return hipDeviceGetPCIBusId(g.bus, sizeof g.bus, device);
}

bool was_in_use; // the process had used the runtime before shmem_init

// Calls f with the name of each library that the object needs by itself.
template <class F> void each_needed(const dl_phdr_info &object, F f) {
  for (int i = 0; i < object.dlpi_phnum; i++) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto *const all =
        reinterpret_cast<const ElfW(Dyn) *>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    uintptr_t strings = 0;
    for (auto *d = all; d->d_tag != DT_NULL; d++)
      if (d->d_tag == DT_STRTAB) strings = d->d_un.d_ptr;
    if (strings < object.dlpi_addr) strings += object.dlpi_addr; // the C library sets most of them
    for (auto *d = all; d->d_tag != DT_NULL; d++)
      if (d->d_tag == DT_NEEDED) f(reinterpret_cast<const char *>(strings + d->d_un.d_val));
  }
}

// The program, or a library that it has loaded, is linked with the runtime: it makes streams or
// loads modules on the device that is current after shmem_init.
bool is_linked() {
  bool found = false;
  const auto look_at = [](dl_phdr_info *object, size_t, void *is) {
    const char *const end = strrchr(object->dlpi_name, '/');
    const char *const name = end ? end + 1 : object->dlpi_name;
    if (!strncmp(name, "libshmem", strlen("libshmem"))) return 0;
    each_needed(*object, [&](const char *needed) {
      if (!strncmp(needed, runtime::library, strlen(runtime::library)))
        *static_cast<bool *>(is) = true;
    });
    return 0;
  };
  if (*runtime::library) dl_iterate_phdr(look_at, &found);
  return found;
}

// Whether PE pe shares this machine's GPUs. With SHMEM_P2P=0 PEs of one machine are nodes of their
// own.
bool shares_machine(int pe) {
  return self.env.p2p == Env::network || local_of(pe) >= 0;
}

// The device that the program has made current, or -1. Every process starts with device 0, so 0
// says nothing where several PEs of the machine all have it.
int current_device(bool any) {
  int device = -1, others = 0;
  bool known = self.env.gpu_choice == Env::gpu::current;
  if (any && (known || (was_in_use && self.env.gpu_choice == Env::gpu::any)) &&
      !tried(hipGetDevice(&device)))
    device = -1;
  exchange_value(*self.world, device, [&](int pe, int theirs) {
    if (!shares_machine(pe)) return;
    others += pe != self.me;
    known |= theirs > 0;
  });
  return known || others == 0 ? device : -1;
}

std::vector<double> rates; // from this PE's GPU to each of `gpus` in MB/s, once somebody has asked
double usual_rate;         // where the driver knows none; 0: a switch joins the GPUs

} // namespace

bool Gpu::operator==(const Gpu &other) const {
  return !strcmp(bus, other.bus) && !memcmp(uuid, other.uuid, sizeof uuid);
}

std::string obstacle(int device) {
  int count = 0;
  if (device < 0 || !tried(hipGetDeviceCount(&count)) || device < count || count == 0) return {};
  return "device = " + std::to_string(device) + ": this PE sees " + std::to_string(count) +
         " GPUs, from 0";
}

void look() {
  was_in_use = runtime::in_use();
}

static bool given_up;

void give_up(bool yes) {
  given_up = yes;
}
bool may_open() {
  const bool wanted = self.env.heap == Env::device || self.env.device_size != 0;
  return !self.device.size && wanted && !given_up;
}
const char *missing() {
  return may_open() ? "no PE has asked for a GPU yet, as shmem_malloc_with_hints does with "
                      "SHMEMX_MALLOC_DEVICE, and SHMEM_DEVICE at init"
                    : "no GPU, or SHMEM_DEVICE_SIZE=0";
}

// A job that has no use for a GPU does not pay for one: the first call of HIP opens every GPU,
// which takes half a second and a GiB of memory of each (2 H100s, 2026-11-27).
bool asked(bool kernels) {
  using Choice = Env::gpu;
  const Choice choice = self.env.gpu_choice;
  const bool mine = kernels || is_linked() || was_in_use || self.env.heap == Env::device ||
                    env_text("DEVICE_SIZE") || (choice != Choice::any && choice != Choice::none);
  bool all = false;
  exchange_value(*self.world, mine, [&](int, bool theirs) { all |= theirs; });
  return all;
}

bool choose(int known) {
  const bool none = self.env.gpu_choice == Env::gpu::none;
  int count = 0;
  hipError_t error = none ? hipSuccess : hipGetDeviceCount(&count);
  if (!tried(error) || count < 0) count = 0;
  int current = current_device(count > 0);
  if (known >= 0) current = known;
  const uint64_t mine = count == 0     ? 0
                        : current >= 0 ? uint64_t(1) << current
                                       : nearest_devices(count);
  int without = -1, turn = 0; // among the PEs to which the same devices are nearest
  exchange_value(*self.world, mine, [&](int pe, uint64_t theirs) {
    if (!theirs && without < 0) without = pe;
    turn += pe < self.me && theirs == mine && shares_machine(pe);
  });
  if (without >= 0) {
    if (self.env.heap == Env::device)
      fatal_all("SHMEM_HEAP = \"device\": PE %d sees no GPU (hipGetDeviceCount here: %s)", without,
                none                  ? "not called: SHMEM_DEVICE = none"
                : error == hipSuccess ? "no error"
                                      : hipGetErrorString(error));
    debug("no device heap: PE %d sees no GPU%s", without,
          none ? ", by SHMEM_DEVICE = none here" : "");
    return false;
  }
  uint64_t left = mine;
  for (turn %= std::popcount(mine); turn; turn--) left &= left - 1;
  chosen = std::countr_zero(left);
  MUST(hipSetDevice(chosen), "hipSetDevice");
  return true;
}

void exchange_gpus() {
  Gpu mine{};
  MUST(identify(chosen, mine), "hipDeviceGetPCIBusId");
  mine.near = runtime::shares_memory(chosen);
  MUST(hipMemGetInfo(&mine.free, &mine.total), "hipMemGetInfo");
  gpus.resize(size_t(self.n_local));
  exchange_value(*self.shared, mine, [](int i, const Gpu &g) { gpus[size_t(i)] = g; });
  rates.assign(gpus.size(), 0);
  usual_rate = runtime::link_rate(chosen);
}

int device_here(const Gpu &theirs) {
  static const std::vector<Gpu> all = [] {
    int n = 0;
    if (!tried(hipGetDeviceCount(&n))) n = 0;
    auto visible = std::vector<Gpu>(size_t(n));
    for (int i = 0; i < n; i++) tried(identify(i, visible[size_t(i)]));
    return visible;
  }();
  const auto found = std::find(all.begin(), all.end(), theirs);
  return found == all.end() ? -1 : int(found - all.begin());
}

bool shares_gpu(int local) {
  return gpus[size_t(local)] == gpus[size_t(self.local)];
}

double rate_to(int pe) {
  const int local = local_of(pe);
  if (gpus.empty() || usual_rate == 0 || local < 0) return 0;
  const char *const bus = gpus[size_t(self.local)].bus, *const there = gpus[size_t(local)].bus;
  // PEs on one GPU, or its partitions, share its memory: of an MI300X's 5,300 GB/s eight read and
  // write 330 each.
  if (!strcmp(bus, there)) return 330e3;
  double &rate = rates[size_t(local)];
  if (rate == 0) {
    const double told = link_rate(topology, bus, there);
    rate = told > 0 ? told : usual_rate;
  }
  return rate;
}

} // namespace shmem::gpu
