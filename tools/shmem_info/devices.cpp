// SPDX-License-Identifier: MIT
// The GPUs, as HIP shows them to a program that is started here.
#include "../../device/runtime.hpp"
#include "gpu/topology.hpp"
#include "info.hpp"
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime_api.h>
#include <string>

namespace info {

namespace {

// The NUMA node next to it; "unknown" also where the machine has just one.
std::string numa_node(const char *bus) {
  std::string path = "/sys/bus/pci/devices/";
  for (const char *c = bus; *c; c++) path += char(tolower(*c));
  int node = -1;
  if (FILE *file = fopen((path + "/numa_node").c_str(), "re")) {
    if (fscanf(file, "%d", &node) != 1) node = -1;
    fclose(file);
  }
  return node < 0 ? "unknown" : std::to_string(node);
}

void say_links(int device, const char *bus, int count) {
  begin_list("links");
  for (int peer = 0; peer < count; peer++) {
    if (peer == device) continue;
    uint32_t type = ~0u, hops = 0;
    int access = 0;
    const bool known = hipExtGetLinkTypeAndHopCount(device, peer, &type, &hops) == hipSuccess;
    if (hipDeviceCanAccessPeer(&access, device, peer) != hipSuccess) access = 0;
    char there[64] = "";
    if (hipDeviceGetPCIBusId(there, sizeof there, peer) != hipSuccess) *there = '\0';
    const double rate = shmem::gpu::link_rate(shmem::gpu::topology, bus, there);
    if (json) {
      begin_item();
      say("device", size_t(peer));
      say("type", known ? shmem::runtime::link_name(type) : "unknown");
      if (known) say("hops", size_t(hops));
      if (rate > 0) say("megabytes_per_second", size_t(rate));
      say("peer_access", access != 0);
      end_item();
    } else {
      const std::string text =
          (known ? shmem::runtime::link_name(type) + (", " + std::to_string(hops)) +
                       (hops == 1 ? " hop" : " hops")
                 : std::string("unknown link")) +
          (rate > 0 ? ", " + std::to_string(std::lround(rate / 1000)) + " GB/s" : "") +
          (access ? "" : ", NO PEER ACCESS");
      say(("to device " + std::to_string(peer)).c_str(), text.c_str());
    }
  }
  end_list();
}

} // namespace

void say_devices() {
  int count = 0, version = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  begin("gpus");
  if (hipRuntimeGetVersion(&version) == hipSuccess) say("runtime_version", size_t(version));
  if (error != hipSuccess) {
    say("none", hipGetErrorString(error));
    count = 0;
  } else {
    say("visible", size_t(count));
  }
  begin_list("devices");
  for (int device = 0; device < count; device++) {
    hipDeviceProp_t p;
    char bus[64] = "";
    size_t free = 0, total = 0;
    if (hipGetDeviceProperties(&p, device) != hipSuccess) continue;
    if (hipDeviceGetPCIBusId(bus, sizeof bus, device) != hipSuccess) *bus = '\0';
    begin_item();
    if (!json) printf("\n");
    say("device", size_t(device));
    say("name", p.name);
    say("architecture", p.gcnArchName);
    say("bus", bus);
    say("numa_node", numa_node(bus).c_str());
    say("compute_units", size_t(p.multiProcessorCount));
    say("wave_size", size_t(p.warpSize));
    say_bytes("memory", p.totalGlobalMem);
    if (hipSetDevice(device) == hipSuccess && hipMemGetInfo(&free, &total) == hipSuccess)
      say_bytes("memory_free", free);
    say("memory_of_the_cpu", p.integrated != 0);
    say_links(device, bus, count);
    end_item();
  }
  end_list();
  bool near = count > 0;
  for (int device = 0; device < count; device++) near &= shmem::runtime::shares_memory(device);
  const bool on_device = shmem::runtime::heap_on_device(near);
  say("default_heap", on_device ? "device" : "host");
  say("other_heap", count == 0 ? "none" : on_device ? "host" : "device");
  end();
}

} // namespace info
