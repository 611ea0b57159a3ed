// SPDX-License-Identifier: MIT
// Topology: nodes, their memory and caches, and the links between them.
#include "driver.hpp"
#include "hsakmt.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <unistd.h>

namespace amdgpu {
namespace {

Nodes read() {
  std::string path;
  if (const char *named = getenv("AMDGPU_NODES")) {
    path = named;
  } else {
    Dl_info here;
    if (!dladdr(reinterpret_cast<void *>(&hsaKmtOpenKFD), &here))
      stop(nullptr, "where is this library?");
    path = here.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + AMDGPU_NODES_FILE;
  }
  std::ifstream file(path);
  if (!file) stop(nullptr, "AMDGPU_NODES: cannot read %s", path.c_str());
  Nodes n;
  std::string line, key;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (!(words >> key) || key[0] == '#') continue;
    words >> std::ws;
    unsigned long value = 0;
    if (key == "name" || key == "product") {
      std::getline(words, key == "name" ? n.name : n.product);
      continue;
    }
    if (key == "version") {
      words >> n.major >> n.minor >> n.stepping;
      continue;
    }
    if (!(words >> std::setbase(0) >> value))
      stop(nullptr, "%s: %s: not a number", path.c_str(), line.c_str());
    const auto is = [&](const char *name, auto &field) {
      if (key == name) field = std::remove_reference_t<decltype(field)>(value);
      return key == name;
    };
    if (!(is("gpus", n.gpus) || is("device", n.device) || is("units", n.units) ||
          is("engines", n.engines) || is("clock_mhz", n.clock_mhz) ||
          is("memory_mib", n.memory_mib) || is("memory_width", n.memory_width) ||
          is("memory_mhz", n.memory_mhz) || is("l1_kib", n.l1_kib) || is("l2_kib", n.l2_kib) ||
          is("xgmi", n.xgmi) || is("pcie", n.pcie) || is("xccs", n.xccs) ||
          is("partitions", n.partitions) || is("lds_kib", n.lds_kib)))
      stop(nullptr, "%s: %s: unknown word", path.c_str(), line.c_str());
  }
  if (n.name != "gfx90a" && n.name != "gfx942" && n.name != "gfx950")
    stop(nullptr, "%s: name %s: only gfx90a, gfx942 and gfx950 are known", path.c_str(),
         n.name.c_str());
  return n;
}

bool gpu(HSAuint32 node) {
  return node >= 1 && node <= nodes().gpus;
}

} // namespace

const Nodes &nodes() {
  static const Nodes &all = *new Nodes(read());
  return all;
}

} // namespace amdgpu

using namespace amdgpu;

extern "C" {

HSAKMT_STATUS hsaKmtOpenKFD() {
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtCloseKFD() {
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo *version) {
  *version = {1, 8};
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties *system) {
  *system = {};
  system->NumNodes = 1 + nodes().gpus;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtReleaseSystemProperties() {
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeProperties(HSAuint32 node, HsaNodeProperties *p) {
  const Nodes &n = nodes();
  if (node > n.gpus) return HSAKMT_STATUS_INVALID_NODE_UNIT;
  *p = {};
  p->NumIOLinks = n.gpus;
  p->NumCaches = 2;
  const std::string name = gpu(node) ? n.product : "host";
  for (size_t i = 0; i < name.size() && i + 1 < HSA_PUBLIC_NAME_SIZE; i++)
    p->MarketingName[i] = HSAuint16(name[i]);
  snprintf(reinterpret_cast<char *>(p->AMDName), sizeof p->AMDName, "%s",
           gpu(node) ? n.name.c_str() : "");
  if (!gpu(node)) {
    p->NumCPUCores = HSAuint32(sysconf(_SC_NPROCESSORS_ONLN));
    p->NumMemoryBanks = 1;
    return HSAKMT_STATUS_SUCCESS;
  }
  p->NumMemoryBanks = 3;
  p->NumSIMDPerCU = 4;
  p->NumFComputeCores = 4 * n.units;
  p->MaxWavesPerSIMD = 8;
  p->MaxSlotsScratchCU = 32;
  p->LDSSizeInKB = n.lds_kib;
  p->WaveFrontSize = 64;
  p->NumShaderBanks = n.engines;
  p->NumArrays = 1;
  p->NumCUPerArray = (n.units + n.engines - 1) / n.engines;
  p->EngineId.ui32.Major = n.major;
  p->EngineId.ui32.Minor = n.minor;
  p->EngineId.ui32.Stepping = n.stepping;
  p->EngineId.ui32.uCode = 60;
  p->VendorId = 0x1002;
  p->DeviceId = HSAuint16(n.device);
  // Bus, device, function; the partitions of a GPU share them, and the kernel counts them in the
  // upper bits.
  p->LocationId = (1 + (node - 1) / n.partitions) << 8 | (node - 1) % n.partitions << 28;
  p->LocalMemSize = 0; // all of it is visible to the host
  p->MaxEngineClockMhzFCompute = n.clock_mhz;
  p->MaxEngineClockMhzCCompute = 3000;
  p->DrmRenderMinor = HSAint32(127 + node);
  p->HiveID = 0x6d693235; // one of all GPUs
  p->NumCpQueues = 24;
  p->UniqueID = uint64_t(n.device) << 48 | node;
  p->VGPRSizePerCU = 512 << 10;
  p->SGPRSizePerCU = 16 << 10;
  p->Capability.ui32.QueueSizePowerOfTwo = 1;
  p->Capability.ui32.DoorbellType = 2; // 64 bits, the index of a packet
  p->Capability.ui32.SVMAPISupported = 1;
  [&](auto &newer) { // from ROCm 6.0 on
    if constexpr (requires { newer.NumXcc; }) newer.NumXcc = n.xccs, newer.KFDGpuID = node;
  }(*p);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeMemoryProperties(HSAuint32 node, HSAuint32 banks,
                                            HsaMemoryProperties *p) {
  const Nodes &n = nodes();
  if (node > n.gpus || banks > (gpu(node) ? 3u : 1u)) return HSAKMT_STATUS_INVALID_PARAMETER;
  for (HSAuint32 i = 0; i < banks; i++) p[i] = {};
  if (!banks) return HSAKMT_STATUS_SUCCESS;
  p[0].HeapType = gpu(node) ? HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC : HSA_HEAPTYPE_SYSTEM;
  p[0].SizeInBytes = gpu(node)
                         ? n.memory_mib << 20
                         : uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  p[0].Width = n.memory_width;
  p[0].MemoryClockMax = n.memory_mhz;
  if (banks > 1)
    p[1].HeapType = HSA_HEAPTYPE_GPU_LDS, p[1].SizeInBytes = n.lds_kib << 10,
    p[1].VirtualBaseAddress = shared_base;
  if (banks > 2)
    p[2].HeapType = HSA_HEAPTYPE_GPU_SCRATCH, p[2].SizeInBytes = uint64_t(1) << 32,
    p[2].VirtualBaseAddress = private_base;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeCacheProperties(HSAuint32 node, HSAuint32 processor, HSAuint32 count,
                                           HsaCacheProperties *p) {
  if (node > nodes().gpus || count > 2) return HSAKMT_STATUS_INVALID_PARAMETER;
  for (HSAuint32 i = 0; i < count; i++) {
    p[i] = {};
    p[i].ProcessorIdLow = processor; // ROCr takes only those of the one that it asks for
    p[i].CacheLevel = i + 1;
    p[i].CacheSize = i ? nodes().l2_kib : nodes().l1_kib;
    p[i].CacheLineSize = i ? 128 : 64;
    p[i].CacheType.ui32.Data = 1;
    p[i].CacheType.ui32.HSACU = gpu(node);
    p[i].CacheType.ui32.CPU = !gpu(node);
  }
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32 node, HSAuint32 count,
                                            HsaIoLinkProperties *p) {
  if (node > nodes().gpus || count > nodes().gpus) return HSAKMT_STATUS_INVALID_PARAMETER;
  for (HSAuint32 i = 0, to = 0; i < count; i++, to++) {
    to += to == node; // one to each other node
    const bool xgmi = gpu(node) && gpu(to);
    p[i] = {};
    p[i].IoLinkType = xgmi ? HSA_IOLINK_TYPE_XGMI : HSA_IOLINKTYPE_PCIEXPRESS;
    p[i].NodeFrom = node;
    p[i].NodeTo = to;
    p[i].Weight = xgmi ? 15 : 20;
    p[i].MinimumBandwidth = p[i].MaximumBandwidth = xgmi ? nodes().xgmi : nodes().pcie;
  }
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetClockCounters(HSAuint32, HsaClockCounters *c) {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const uint64_t ns = uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
  *c = {ns / 10, ns, ns, 1000000000};
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtGetTileConfig(HSAuint32,
                                  HsaGpuTileConfig *config) { // of images, which ROCr asks for
  config->NumTileConfigs = config->NumMacroTileConfigs = 0;
  config->GbAddrConfig = 0x2a110002;
  config->NumBanks = 4;
  config->NumRanks = 1;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtSetMemoryPolicy(HSAuint32, HSAuint32, HSAuint32, void *, HSAuint64) {
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtSetTrapHandler(HSAuint32, void *, HSAuint64, void *,
                                   HSAuint64) { // s_trap ends the process here
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtRuntimeEnable(void *, bool) {
  return HSAKMT_STATUS_NOT_SUPPORTED; // debuggers
}
HSAKMT_STATUS hsaKmtRuntimeDisable() {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtSetXNACKMode(HSAint32) { // no page faults that are repeated
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtGetXNACKMode(HSAint32 *enabled) {
  *enabled = 0;
  return HSAKMT_STATUS_SUCCESS;
}

} // extern "C"
