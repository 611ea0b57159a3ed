// SPDX-License-Identifier: MIT
// libhsakmt's interface to ROCr up to 6.1, but for memory and events: nodes, their memory and
// caches, the links between them, queues; and errors for parts that this machine does not have,
// where ROCr goes on.
#include "hsakmt.hpp"
#include "driver.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include <atomic>
#include <cstdio>
#include <ctime>
#include <sys/mman.h>
#include <unistd.h>

using namespace amdgpu;

namespace {

constexpr size_t doorbells = 4096; // of 8 bytes

bool gpu(HSAuint32 node) {
  return node >= 1 && node <= nodes().gpus;
}

} // namespace

extern "C" {

HSAKMT_STATUS hsaKmtOpenKFD() {
  return nodes().open ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
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
  p->LocationId = location(node);
  p->LocalMemSize = 0; // all of it is visible to the host
  p->MaxEngineClockMhzFCompute = n.clock_mhz;
  p->MaxEngineClockMhzCCompute = 3000;
  p->DrmRenderMinor = HSAint32(127 + node);
  p->HiveID = 0x6d693235; // one of all GPUs
  p->NumCpQueues = 24;
  p->NumSdmaEngines = nodes().sdma, p->NumSdmaQueuesPerEngine = nodes().sdma ? 8 : 0;
  p->UniqueID = unique(node);
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
  *c = {ns / 10, ns / 10 * 10, ns / 10 * 10, 1000000000}; // of which ROCr takes the ratio
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

HSAKMT_STATUS hsaKmtCreateQueue(HSAuint32 node, HSA_QUEUE_TYPE type, HSAuint32, HSA_QUEUE_PRIORITY,
                                void *ring, HSAuint64 bytes, HsaEvent *,
                                HsaQueueResource *resource) {
  if (!gpu(node)) return HSAKMT_STATUS_INVALID_NODE_UNIT;
  const bool sdma = type == HSA_QUEUE_SDMA && nodes().sdma;
  if (type != HSA_QUEUE_COMPUTE_AQL && !sdma)
    return HSAKMT_STATUS_NOT_SUPPORTED; // ROCr copies with kernels then
  if (bytes < packet_bytes || bytes & (bytes - 1)) return HSAKMT_STATUS_INVALID_PARAMETER;
  static std::atomic<size_t> made;
  static uint64_t *const page = [] {
    void *p =
        mmap(nullptr, 8 * doorbells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return static_cast<uint64_t *>(p == MAP_FAILED ? nullptr : p);
  }();
  const size_t at = made++;
  if (!page || at >= doorbells) return HSAKMT_STATUS_OUT_OF_RESOURCES;
  resource->Queue_DoorBell_aql = page + at;
  if (sdma) { // its indices are the driver's
    static uint64_t indices[doorbells][2];
    resource->Queue_read_ptr_aql = &indices[at][0], resource->Queue_write_ptr_aql = &indices[at][1];
    resource->QueueId = create_sdma(ring, bytes, &indices[at][0], page + at);
    return HSAKMT_STATUS_SUCCESS;
  }
  resource->QueueId = create_queue(node, ring, bytes, resource->Queue_read_ptr_aql, page + at);
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtDestroyQueue(HSA_QUEUEID id) {
  return destroy_queue(id) ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_PARAMETER;
}
HSAKMT_STATUS hsaKmtUpdateQueue(HSA_QUEUEID, HSAuint32, HSA_QUEUE_PRIORITY, void *, HSAuint64,
                                HsaEvent *) {
  return HSAKMT_STATUS_SUCCESS; // priority: all queues have their turns
}
HSAKMT_STATUS hsaKmtSetQueueCUMask(HSA_QUEUEID, HSAuint32, HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtAllocQueueGWS(HSA_QUEUEID, HSAuint32, HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

#if __has_include(<hsakmt/hsakmt.h>)
HSAKMT_STATUS hsaKmtGetAMDGPUDeviceHandle(HSAuint32 node, HsaAMDGPUDeviceHandle *device) {
  static char devices[256]; // a name that libdrm's functions would know, were they called
  *device = devices + node;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtGetRuntimeCapabilities(HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtExportDMABufHandle(void *, HSAuint64, int *, HSAuint64 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgEnable(void **, HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgDisable() {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgGetDeviceData(void **, HSAuint32 *, HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgGetQueueData(void **, HSAuint32 *, HSAuint32 *, bool) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtReplaceAsanHeaderPage(void *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtReturnAsanHeaderPage(void *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
#endif
HSAKMT_STATUS HSAKMTAPI hsaKmtOpenSMI(HSAuint32, int *);
HSAKMT_STATUS hsaKmtOpenSMI(HSAuint32, int *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtSPMAcquire(HSAuint32) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtSPMRelease(HSAuint32) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtSPMSetDestBuffer(HSAuint32, HSAuint32, HSAuint32 *, HSAuint32 *, void *,
                                     bool *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

} // extern "C"
