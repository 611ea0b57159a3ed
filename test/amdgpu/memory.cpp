// SPDX-License-Identifier: MIT
// Allocations. An address of a GPU is the same address of the host. All memory is a part of one
// memfd of the process, so that another process can map it: a handle is the process, its
// descriptor, the place and the size. Memory that another process has freed cannot be mapped any
// more, and no memory twice by one process.
#include "memory.hpp"
#include "driver.hpp"
#include "hsakmt.hpp"
#include "sharing.hpp"
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace amdgpu {
namespace {

constexpr int no_place = -1;

struct Memory {
  HSA_POINTER_TYPE type;
  size_t bytes;
  int64_t place; // in the memfd, or no_place
  HSAuint32 node;
  HsaMemFlags flags;
  bool exported;
  void *user;
  std::vector<HSAuint32> mapped;
  int from = 0, fd = -1;     // of imported memory: the process, and a descriptor of its file
  uint8_t *probed = nullptr; // see Range
};

// Not destroyed when the process ends: threads of the runtime, and the processor, are still there.
std::mutex &lock = *new std::mutex;
auto &memory = *new std::map<uintptr_t, Memory>; // by address; none overlaps another
auto &used = *new std::map<HSAuint32, uint64_t>; // of each node, in this process
std::atomic<uint64_t> version = 1;
int file = -1;
int64_t file_end;
constexpr size_t page = 4096, large = size_t(2) << 20;

// The memory that holds it, or end().
auto find(const void *address) {
  const uintptr_t a = uintptr_t(address);
  auto at = memory.upper_bound(a);
  if (at == memory.begin()) return memory.end();
  at = std::prev(at);
  return a < at->first + at->second.bytes ? at : memory.end();
}

void *map(void *at, size_t bytes, int fd, int64_t place) {
  const size_t align = bytes >= large ? large : 64 << 10;
  if (at) {
    void *p = mmap(at, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, place);
    return p == MAP_FAILED ? nullptr : p;
  }
  char *room = static_cast<char *>(
      mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (room == MAP_FAILED) return nullptr;
  char *p = reinterpret_cast<char *>((uintptr_t(room) + align - 1) & ~(align - 1));
  if (p > room) munmap(room, size_t(p - room));
  if (p + bytes < room + bytes + align) munmap(p + bytes, size_t(room + bytes + align - p - bytes));
  void *done =
      mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, place);
  return done == MAP_FAILED ? nullptr : done;
}

bool is_coarse(HsaMemFlags flags) {
  return flags.ui32.CoarseGrain && !flags.ui32.Scratch;
}

struct Handle { // in 32 bytes
  int32_t pid, fd;
  int64_t place;
  uint64_t bytes;
  HSAuint32 runtime; // ROCr keeps an offset there
  HSAuint32 node : 8, flags : 24;
};
static_assert(sizeof(Handle) == sizeof(HsaSharedMemoryHandle));

} // namespace

Range range_of(const void *address) {
  std::lock_guard guard(lock);
  const auto at = find(address);
  if (at == memory.end()) return {};
  const Memory &m = at->second;
  return {reinterpret_cast<const uint8_t *>(at->first),
          m.bytes,
          m.node,
          m.flags.ui32.CoarseGrain != 0,
          name_of(m.from ? m.from : getpid(), m.place < 0 ? int64_t(at->first) : m.place),
          m.probed};
}
uint64_t memory_version() {
  return version;
}

} // namespace amdgpu

using namespace amdgpu;

extern "C" {

HSAKMT_STATUS hsaKmtAllocMemory(HSAuint32 node, HSAuint64 bytes, HsaMemFlags flags,
                                void **address) {
  if (node > nodes().gpus || !bytes || bytes % page) return HSAKMT_STATUS_INVALID_PARAMETER;
  std::lock_guard guard(lock);
  if (file < 0) file = memfd_create("amdgpu", MFD_CLOEXEC);
  if (file < 0) return HSAKMT_STATUS_NO_MEMORY;
  // Scratch is address space that the machine does not need.
  const bool counts = node && !flags.ui32.Scratch;
  if (counts && used[node] + bytes > nodes().memory_mib << 20) return HSAKMT_STATUS_NO_MEMORY;
  const int64_t place = file_end;
  const auto whole = int64_t(bytes_in_file(node, is_coarse(flags), bytes));
  if (ftruncate(file, place + whole)) return HSAKMT_STATUS_NO_MEMORY;
  void *at = map(flags.ui32.FixedAddress ? *address : nullptr, bytes, file, place);
  if (!at) return HSAKMT_STATUS_NO_MEMORY;
  file_end += whole;
  if (counts) used[node] += bytes;
  version++;
  Memory &m = memory[uintptr_t(at)] = {
      HSA_POINTER_ALLOCATED, bytes, place, node, flags, false, nullptr, {}};
  m.probed = map_probed(node, is_coarse(flags), bytes, file, place);
  *address = at;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtFreeMemory(void *address, HSAuint64) {
  memory_goes(range_of(address));
  std::lock_guard guard(lock);
  const auto at = memory.find(uintptr_t(address));
  if (at == memory.end() || at->second.type != HSA_POINTER_ALLOCATED)
    return HSAKMT_STATUS_INVALID_PARAMETER;
  const Memory &m = at->second;
  munmap(address, m.bytes);
  unmap_probed(m.probed, m.bytes);
  // Another process that has it mapped keeps it, and uses it without a fault: the kernel's driver
  // counts the references to a buffer, and an import is one (amdgpu_amdkfd_gpuvm_import_dmabuf, and
  // kfd_ipc_obj of its handle).
  const bool pinned = m.exported && (nodes().pins || marked(file, m.place, Mark::mapped));
  if (m.exported)
    mark(file, m.place, Mark::lives, false);
  else
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, m.place,
              int64_t(bytes_in_file(m.node, is_coarse(m.flags), m.bytes)));
  if (m.node && !m.flags.ui32.Scratch && !pinned) used[m.node] -= m.bytes;
  memory.erase(at);
  version++;
  code_changed();
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRegisterMemoryWithFlags(void *address, HSAuint64 bytes, HsaMemFlags flags) {
  std::lock_guard guard(lock);
  version++;
  if (find(address) == memory.end())
    memory[uintptr_t(address)] = {
        HSA_POINTER_REGISTERED_USER, bytes, no_place, 0, flags, false, nullptr, {}};
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDeregisterMemory(void *address) {
  memory_goes(range_of(address));
  std::lock_guard guard(lock);
  version++;
  const auto at = memory.find(uintptr_t(address));
  if (at == memory.end()) return HSAKMT_STATUS_MEMORY_NOT_REGISTERED;
  if (at->second.type == HSA_POINTER_REGISTERED_SHARED) {
    munmap(address, at->second.bytes);
    unmap_probed(at->second.probed, at->second.bytes);
    close(at->second.fd);
  }
  if (at->second.type != HSA_POINTER_ALLOCATED) memory.erase(at);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtShareMemory(void *address, HSAuint64 bytes, HsaSharedMemoryHandle *handle) {
  if (!nodes().ipc) return HSAKMT_STATUS_ERROR;
  std::lock_guard guard(lock);
  const auto at = memory.find(uintptr_t(address));
  // Whole allocations of this process only, as the kernel has it.
  if (at == memory.end() || at->second.type != HSA_POINTER_ALLOCATED || at->second.bytes != bytes)
    return HSAKMT_STATUS_INVALID_PARAMETER;
  at->second.exported = true;
  mark(file, at->second.place, Mark::lives);
  const Handle h = {
      getpid(), file, at->second.place, bytes, 0, at->second.node, at->second.flags.Value};
  memcpy(handle, &h, sizeof h);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtRegisterSharedHandleToNodes(const HsaSharedMemoryHandle *handle, void **address,
                                                HSAuint64 *bytes, HSAuint64, HSAuint32 *) {
  Handle h;
  memcpy(&h, handle, sizeof h);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return HSAKMT_STATUS_INVALID_HANDLE; // that process has ended
  std::lock_guard guard(lock);
  bool refused = h.pid == getpid() || !marked(fd, h.place, Mark::lives);
  for (const auto &[_, m] : memory) refused |= m.from == h.pid && m.place == h.place;
  void *at = refused ? nullptr : map(nullptr, h.bytes, fd, h.place);
  if (!at) {
    close(fd);
    return refused ? HSAKMT_STATUS_INVALID_HANDLE : HSAKMT_STATUS_NO_MEMORY;
  }
  mark(fd, h.place, Mark::mapped);
  HsaMemFlags flags;
  flags.Value = h.flags;
  version++;
  memory[uintptr_t(at)] = {HSA_POINTER_REGISTERED_SHARED,
                           h.bytes,
                           h.place,
                           h.node,
                           flags,
                           false,
                           nullptr,
                           {},
                           h.pid,
                           fd,
                           map_probed(h.node, is_coarse(flags), h.bytes, fd, h.place)};
  *address = at;
  *bytes = h.bytes;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtRegisterSharedHandle(const HsaSharedMemoryHandle *handle, void **address,
                                         HSAuint64 *bytes) {
  return hsaKmtRegisterSharedHandleToNodes(handle, address, bytes, 0, nullptr);
}
HSAKMT_STATUS hsaKmtRegisterGraphicsHandleToNodes(HSAuint64, HsaGraphicsResourceInfo *, HSAuint64,
                                                  HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtMapMemoryToGPUNodes(void *address, HSAuint64, HSAuint64 *gpu, HsaMemMapFlags,
                                        HSAuint64 count, HSAuint32 *list) {
  std::lock_guard guard(lock);
  const auto at = find(address);
  if (at == memory.end()) return HSAKMT_STATUS_INVALID_PARAMETER;
  at->second.mapped.assign(list, list + count);
  if (gpu) *gpu = HSAuint64(address);
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtMapMemoryToGPU(void *address, HSAuint64 bytes, HSAuint64 *gpu) { // to all
  std::vector<HSAuint32> all;
  for (HSAuint32 node = 1; node <= nodes().gpus; node++) all.push_back(node);
  return hsaKmtMapMemoryToGPUNodes(address, bytes, gpu, {}, all.size(), all.data());
}
HSAKMT_STATUS hsaKmtUnmapMemoryToGPU(void *address) {
  std::lock_guard guard(lock);
  const auto at = find(address);
  if (at == memory.end()) return HSAKMT_STATUS_INVALID_PARAMETER;
  at->second.mapped.clear();
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtQueryPointerInfo(const void *pointer, HsaPointerInfo *info) {
  *info = {};
  std::lock_guard guard(lock);
  const auto at = find(pointer);
  if (at == memory.end()) return HSAKMT_STATUS_ERROR; // HSA_POINTER_UNKNOWN
  const Memory &m = at->second;
  info->Type = m.type;
  info->Node = m.node;
  info->MemFlags = m.flags;
  info->CPUAddress = reinterpret_cast<void *>(at->first);
  info->GPUAddress = at->first;
  info->SizeInBytes = m.bytes;
  info->NMappedNodes = HSAuint32(m.mapped.size());
  info->MappedNodes = m.mapped.data();
  info->UserData = m.user;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtSetMemoryUserData(const void *pointer, void *user) {
  std::lock_guard guard(lock);
  const auto at = find(pointer);
  if (at == memory.end()) return HSAKMT_STATUS_ERROR;
  at->second.user = user;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS HSAKMTAPI hsaKmtAvailableMemory(HSAuint32, HSAuint64 *); // newer than 5.2's header
HSAKMT_STATUS hsaKmtAvailableMemory(HSAuint32 node, HSAuint64 *bytes) {
  std::lock_guard guard(lock);
  *bytes = (nodes().memory_mib << 20) - used[node];
  return HSAKMT_STATUS_SUCCESS;
}

// Memory of the host that the GPU may touch: here it may touch all.
HSAKMT_STATUS hsaKmtSVMSetAttr(void *, HSAuint64, unsigned, HSA_SVM_ATTRIBUTE *) {
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtSVMGetAttr(void *, HSAuint64, unsigned, HSA_SVM_ATTRIBUTE *) {
  return HSAKMT_STATUS_SUCCESS;
}

} // extern "C"
