// SPDX-License-Identifier: MIT
// The kernel's interface to ROCr from 6.3 on, where the thunk is a part of the runtime: /dev/kfd
// and its ioctls. This library is preloaded. A descriptor of the device is one of the memfd of
// which all of the process's memory is a part, so that mmap() needs no help: the kernel's offset of
// an allocation is its place there.
#include "kfd.hpp"
#include "driver.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "sharing.hpp"
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace amdgpu {
namespace {

// Not destroyed when the process ends: threads of the runtime, and the processor, are still there.
std::mutex &lock = *new std::mutex;

// Memory

struct Buffer {
  uint64_t va, bytes;
  Place place; // of no bytes: memory that the program has already, under the same address
  bool imported = false, exported = false;
  int fd = -1;               // of imported memory: of its file, which says that it is mapped here
  uint8_t *probed = nullptr; // see Range
};
auto &buffers = *new std::map<uint64_t, Buffer>;      // by handle
auto &by_address = *new std::map<uint64_t, uint64_t>; // the handle of a GPU's address
auto &used = *new std::map<unsigned, uint64_t>;       // of each node, in this process
uint64_t next_handle = 1;
std::atomic<uint64_t> version = 1;
int file = -1;
int64_t file_end;

int64_t grow(uint64_t bytes, uint64_t align = 4096) {
  const int64_t at = (file_end + int64_t(align) - 1) & ~(int64_t(align) - 1);
  if (ftruncate(file, at + int64_t(bytes))) return -1;
  file_end = at + int64_t(bytes);
  return at;
}

uint64_t add(Buffer buffer) {
  const uint64_t handle = next_handle++;
  const Place &p = buffer.place;
  buffer.probed = map_probed(p.node, p.coarse, p.bytes, buffer.fd < 0 ? file : buffer.fd, p.at);
  version++;
  buffers[handle] = buffer;
  if (buffer.va) by_address[buffer.va] = handle;
  return handle;
}
Range range(const Buffer &b) {
  const Place &p = b.place;
  return {reinterpret_cast<const uint8_t *>(b.va),
          b.bytes,
          p.node,
          p.coarse,
          p.bytes ? name_of(p.pid, p.at) : name_of(getpid(), int64_t(b.va)),
          b.probed};
}
Buffer *find(uint64_t handle) {
  const auto at = buffers.find(handle);
  return at == buffers.end() ? nullptr : &at->second;
}

// The machine reads and writes as the process does, whatever the runtime has asked for itself.
bool reachable(const Buffer &b) {
  if (!b.place.bytes || !b.va) return true;
  const int fd = open_place(b.place);
  if (fd < 0) return false;
  const bool done = mmap(reinterpret_cast<void *>(b.va), b.bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, b.place.at) != MAP_FAILED;
  close(fd);
  return done;
}

int alloc(kfd_ioctl_alloc_memory_of_gpu_args &a) {
  const unsigned node = a.gpu_id;
  if (!node || node > nodes().gpus || !a.size) return EINVAL;
  const bool vram = a.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
  const bool fine = a.flags & (KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED |
                               KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT);
  Buffer b = {a.va_addr, a.size, {}};
  if (a.flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
    if (a.mmap_offset != a.va_addr)
      stop(nullptr, "memory of the program under another address: 0x%llx for 0x%llx",
           (unsigned long long)a.va_addr, (unsigned long long)a.mmap_offset);
  } else if (!(a.flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)) {
    if (vram && used[node] + a.size > nodes().memory_mib << 20) return ENOMEM;
    const bool coarse = vram && !fine;
    const int64_t at = grow(bytes_in_file(node, coarse, a.size));
    if (at < 0) return ENOMEM;
    if (vram) used[node] += a.size;
    b.place = {getpid(), file, at, a.size, vram ? node : 0, coarse};
    a.mmap_offset = uint64_t(at);
  }
  a.handle = add(b);
  return 0;
}
int free_memory(uint64_t handle) {
  Buffer *b = find(handle);
  if (!b) return EINVAL;
  // Its place in the file stays: another process may have it mapped, and keeps it then, see
  // memory.cpp.
  const bool pinned = b->exported && (nodes().pins || marked(file, b->place.at, Mark::mapped));
  const unsigned node = b->place.node;
  if (node && !b->imported && !pinned) used[node] -= std::min(used[node], b->bytes);
  if (b->exported) mark(file, b->place.at, Mark::lives, false);
  if (b->fd >= 0) close(b->fd);
  unmap_probed(b->probed, b->bytes);
  version++;
  if (const auto at = by_address.find(b->va); at != by_address.end() && at->second == handle)
    by_address.erase(at);
  buffers.erase(handle);
  code_changed();
  return 0;
}

int import_place(uint64_t va, unsigned on, const Place &place, uint64_t &handle) {
  if (!on || on > nodes().gpus) return EINVAL;
  Buffer b = {va, place.bytes, place, true};
  if (place.pid != getpid()) {
    b.fd = open_place(place);
    if (b.fd < 0 || !marked(b.fd, place.at, Mark::lives))
      return close(b.fd), EINVAL; // it has been freed
    mark(b.fd, place.at, Mark::mapped);
  }
  handle = add(b);
  return 0;
}

// Of ROCm's own kernel module; mainline kernels have not got them.
struct ipc_export_args {
  uint64_t handle;
  uint32_t share[4];
  uint32_t gpu_id, flags;
};
struct ipc_import_args {
  uint64_t handle, va_addr, mmap_offset;
  uint32_t share[4];
  uint32_t gpu_id, flags;
};
void export_of(Buffer &b) {
  if (b.place.pid != getpid()) return;
  b.exported = true;
  mark(file, b.place.at, Mark::lives);
}
// A dmabuf is a small file that says where the memory is.
int export_place(uint64_t handle) {
  Buffer *b = find(handle);
  if (!b || !b->place.bytes) return -EINVAL;
  const int fd = memfd_create("dmabuf", MFD_CLOEXEC);
  if (fd < 0 || pwrite(fd, &b->place, sizeof b->place, 0) != sizeof b->place) return -ENOMEM;
  export_of(*b);
  return fd;
}
constexpr uint64_t page = 4096;
constexpr uint32_t coarse_grain = 1 << 13; // of the thunk's flags

int ipc_export(ipc_export_args &a) {
  Buffer *b = find(a.handle);
  if (!nodes().ipc || !b || !b->place.bytes) return EINVAL;
  if (b->place.fd >= 1 << 10) return EINVAL; // a process has 22 bits
  export_of(*b);
  a.share[0] = uint32_t(b->place.pid) | uint32_t(b->place.fd) << 22, a.share[1] = a.flags;
  a.share[2] = uint32_t(uint64_t(b->place.at) / page), a.share[3] = uint32_t(b->place.bytes / page);
  return 0;
}
int ipc_import(ipc_import_args &a) {
  const Place place = {int(a.share[0] & 0x3fffff),
                       int(a.share[0] >> 22),
                       int64_t(a.share[2] * page),
                       a.share[3] * page,
                       a.gpu_id,
                       (a.share[1] & coarse_grain) != 0};
  if (!nodes().ipc || place.pid == getpid()) return EINVAL;
  for (const auto &[_, b] : buffers) // nor is anything mapped twice
    if (b.imported && b.place.pid == place.pid && b.place.at == place.at) return EINVAL;
  a.flags = a.share[1];
  // The GPU's turn maps over the memory that is mapped at this offset. With 0 the thunk would think
  // that the memory has no owner.
  a.mmap_offset = page;
  return import_place(a.va_addr, a.gpu_id, place, a.handle);
}

// Events

struct Event {
  bool manual = false, set = false;
  uint64_t age = 1; // how often it was set, from 1: a thread that has seen less need not wait
};
std::mutex &event_lock = *new std::mutex;
auto &changed = *new std::condition_variable;
auto &events = *new std::map<uint32_t, Event>;
uint32_t next_event = 1;

int create_event(kfd_ioctl_create_event_args &a) {
  std::lock_guard guard(event_lock);
  if (next_event >= KFD_SIGNAL_EVENT_LIMIT) return ENOSPC;
  a.event_id = a.event_trigger_data = a.event_slot_index = next_event;
  events[next_event++].manual = !a.auto_reset;
  return 0;
}
int wait_events(kfd_ioctl_wait_events_args &a) {
  auto *list = reinterpret_cast<kfd_event_data *>(a.events_ptr);
  const auto of = [&](uint32_t i) -> Event * {
    const auto at = events.find(list[i].event_id);
    return at == events.end() ? nullptr : &at->second;
  };
  const auto ready = [&] {
    uint32_t set = 0;
    for (uint32_t i = 0; i < a.num_events; i++) {
      const uint64_t seen = list[i].signal_event_data.last_event_age;
      if (const Event *e = of(i)) set += e->set || (seen && seen != e->age);
    }
    return a.wait_for_all ? set == a.num_events : set > 0;
  };
  std::unique_lock guard(event_lock);
  a.wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
  if (a.timeout == ~0u) {
    changed.wait(guard, ready);
  } else if (!changed.wait_for(guard, std::chrono::milliseconds(a.timeout), ready)) {
    a.wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
    return 0;
  }
  for (uint32_t i = 0; i < a.num_events; i++) {
    Event *e = of(i);
    if (!e) continue;
    if (!e->manual) e->set = false;
    if (list[i].signal_event_data.last_event_age) list[i].signal_event_data.last_event_age = e->age;
  }
  return 0;
}

// Queues

constexpr uint64_t doorbell_bytes = 8192; // of a process, for each GPU; 8 a queue
struct Doorbells {
  int64_t at;
  uint64_t *page;
  unsigned queues;
};
auto &doorbells = *new std::map<unsigned, Doorbells>;

int add_queue(kfd_ioctl_create_queue_args &a) {
  if (!a.gpu_id || a.gpu_id > nodes().gpus) return EINVAL;
  const bool sdma = a.queue_type == KFD_IOC_QUEUE_TYPE_SDMA && nodes().sdma;
  if (a.queue_type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL && !sdma) return EOPNOTSUPP;
  if (a.ring_size < packet_bytes || a.ring_size & (a.ring_size - 1)) return EINVAL;
  uint64_t *doorbell;
  {
    std::lock_guard guard(lock);
    auto [at, first] = doorbells.try_emplace(a.gpu_id);
    Doorbells &d = at->second;
    if (first) {
      d.at = grow(doorbell_bytes, doorbell_bytes);
      void *p = d.at < 0
                    ? MAP_FAILED
                    : mmap(nullptr, doorbell_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, d.at);
      if (p == MAP_FAILED) return ENOMEM;
      d.page = static_cast<uint64_t *>(p);
    }
    if (d.queues == doorbell_bytes / 8) return ENOSPC;
    a.doorbell_offset = uint64_t(d.at) + 8 * d.queues;
    doorbell = d.page + d.queues++;
  }
  // Not with the lock: the packet processor has that of the queues when it takes this one
  // (range_of). PEs whose first copy made a queue while a kernel began stood still (2026-11).
  void *ring = reinterpret_cast<void *>(a.ring_base_address);
  auto *read = reinterpret_cast<uint64_t *>(a.read_pointer_address);
  a.queue_id = uint32_t(sdma ? create_sdma(ring, a.ring_size, read, doorbell)
                             : create_queue(a.gpu_id, ring, a.ring_size, read, doorbell));
  return 0;
}

int apertures(kfd_ioctl_get_process_apertures_new_args &a) {
  auto *list = reinterpret_cast<kfd_process_device_apertures *>(a.kfd_process_device_apertures_ptr);
  const uint32_t room = a.num_of_nodes;
  a.num_of_nodes = nodes().gpus;
  for (uint32_t i = 0; i < std::min(room, nodes().gpus); i++) {
    list[i] = {};
    list[i].lds_base = shared_base, list[i].lds_limit = shared_base | 0xffffffff;
    list[i].scratch_base = private_base, list[i].scratch_limit = private_base | 0xffffffff;
    list[i].gpuvm_base = 64 << 10, list[i].gpuvm_limit = (uint64_t(1) << 47) - 1;
    list[i].gpu_id = i + 1;
  }
  return 0;
}

Range range_of_handle(uint64_t handle) {
  std::lock_guard guard(lock);
  const Buffer *b = find(handle);
  return b ? range(*b) : Range();
}

template <class T> T &as(void *p) {
  return *static_cast<T *>(p);
}

} // namespace

void set_event(uint32_t id) {
  {
    std::lock_guard guard(event_lock);
    const auto at = events.find(id);
    if (at == events.end()) return;
    at->second.set = true;
    at->second.age++;
  }
  changed.notify_all();
}

Range range_of(const void *address) {
  std::lock_guard guard(lock);
  auto at = by_address.upper_bound(reinterpret_cast<uint64_t>(address));
  if (at == by_address.begin()) return {};
  const Buffer &b = buffers.at(std::prev(at)->second);
  if (reinterpret_cast<uint64_t>(address) >= b.va + b.bytes) return {};
  return range(b);
}
uint64_t memory_version() {
  return version;
}

int open_device() {
  if (!nodes().open) return errno = EACCES, -1;
  std::lock_guard guard(lock);
  if (file < 0) file = memfd_create("amdgpu", MFD_CLOEXEC);
  return file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0);
}

int open_place(const Place &place) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", place.pid, place.fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

bool place_in(int fd, Place &place) {
  return pread(fd, &place, sizeof place, 0) == sizeof place;
}

int device_call(unsigned long request, void *p) {
  // Memory of the host that the GPU may touch: here it may touch all. Its size is that of a list.
  if (_IOC_NR(request) == _IOC_NR(AMDKFD_IOC_SVM)) return 0;
  switch (request) {
  case AMDKFD_IOC_WAIT_EVENTS:
    return wait_events(as<kfd_ioctl_wait_events_args>(p));
  case AMDKFD_IOC_SET_EVENT:
    return set_event(as<kfd_ioctl_set_event_args>(p).event_id), 0;
  case AMDKFD_IOC_CREATE_EVENT:
    return create_event(as<kfd_ioctl_create_event_args>(p));
  case AMDKFD_IOC_DESTROY_EVENT: {
    std::lock_guard guard(event_lock);
    return events.erase(as<kfd_ioctl_destroy_event_args>(p).event_id) ? 0 : EINVAL;
  }
  case AMDKFD_IOC_RESET_EVENT: {
    std::lock_guard guard(event_lock);
    events[as<kfd_ioctl_reset_event_args>(p).event_id].set = false;
    return 0;
  }
  case AMDKFD_IOC_FREE_MEMORY_OF_GPU: {
    const uint64_t handle = as<kfd_ioctl_free_memory_of_gpu_args>(p).handle;
    memory_goes(range_of_handle(handle));
    std::lock_guard guard(lock);
    return free_memory(handle);
  }
  case AMDKFD_IOC_CREATE_QUEUE:
    return add_queue(as<kfd_ioctl_create_queue_args>(p));
  case AMDKFD_IOC_DESTROY_QUEUE:
    return destroy_queue(as<kfd_ioctl_destroy_queue_args>(p).queue_id) ? 0 : EINVAL;
  }
  std::lock_guard guard(lock);
  switch (request) {
  case AMDKFD_IOC_GET_VERSION:
    as<kfd_ioctl_get_version_args>(p) = {1, 16};
    return 0;
  case AMDKFD_IOC_UPDATE_QUEUE: // priority: all queues have their turns
  case AMDKFD_IOC_SET_MEMORY_POLICY:
  case AMDKFD_IOC_SET_TRAP_HANDLER: // s_trap ends the process here
  case AMDKFD_IOC_ACQUIRE_VM:
  case AMDKFD_IOC_SET_SCRATCH_BACKING_VA:
    return 0;
  case AMDKFD_IOC_GET_CLOCK_COUNTERS: {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    auto &c = as<kfd_ioctl_get_clock_counters_args>(p);
    c.cpu_clock_counter = c.system_clock_counter =
        (uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec)) / 10 * 10; // ROCr takes the ratio
    c.gpu_clock_counter = c.cpu_clock_counter / 10;
    c.system_clock_freq = 1000000000;
    return 0;
  }
  case AMDKFD_IOC_GET_PROCESS_APERTURES_NEW:
    return apertures(as<kfd_ioctl_get_process_apertures_new_args>(p));
  case AMDKFD_IOC_GET_TILE_CONFIG: { // of images, which ROCr asks for
    auto &c = as<kfd_ioctl_get_tile_config_args>(p);
    c.num_tile_configs = c.num_macro_tile_configs = 0;
    c.gb_addr_config = 0x2a110002;
    c.num_banks = 4, c.num_ranks = 1;
    return 0;
  }
  case AMDKFD_IOC_ALLOC_MEMORY_OF_GPU:
    return alloc(as<kfd_ioctl_alloc_memory_of_gpu_args>(p));
  case AMDKFD_IOC_MAP_MEMORY_TO_GPU: {
    auto &m = as<kfd_ioctl_map_memory_to_gpu_args>(p);
    const Buffer *b = find(m.handle);
    if (!b || !reachable(*b)) return EINVAL;
    m.n_success = m.n_devices;
    return 0;
  }
  case AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU: {
    auto &m = as<kfd_ioctl_unmap_memory_from_gpu_args>(p);
    m.n_success = m.n_devices;
    return find(m.handle) ? 0 : EINVAL;
  }
  case AMDKFD_IOC_AVAILABLE_MEMORY: {
    auto &m = as<kfd_ioctl_get_available_memory_args>(p);
    m.available = (nodes().memory_mib << 20) - used[m.gpu_id];
    return 0;
  }
  case AMDKFD_IOC_IMPORT_DMABUF: {
    auto &a = as<kfd_ioctl_import_dmabuf_args>(p);
    Place place;
    uint64_t handle = 0;
    if (!place_in(int(a.dmabuf_fd), place)) return EINVAL;
    const int status = import_place(a.va_addr, a.gpu_id, place, handle);
    a.handle = handle;
    return status;
  }
  case AMDKFD_IOC_EXPORT_DMABUF: {
    auto &a = as<kfd_ioctl_export_dmabuf_args>(p);
    const int fd = export_place(a.handle);
    if (fd < 0) return -fd;
    a.dmabuf_fd = uint32_t(fd);
    return 0;
  }
  case AMDKFD_IOC_GET_DMABUF_INFO: {
    auto &a = as<kfd_ioctl_get_dmabuf_info_args>(p);
    Place place;
    if (!place_in(int(a.dmabuf_fd), place)) return EINVAL;
    a.size = place.bytes, a.metadata_size = 0, a.gpu_id = std::max(place.node, 1u);
    a.flags = place.node ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM : KFD_IOC_ALLOC_MEM_FLAGS_GTT;
    return 0;
  }
  case _IOWR('K', 0x80, ipc_import_args):
    return ipc_import(as<ipc_import_args>(p));
  case _IOWR('K', 0x81, ipc_export_args):
    return ipc_export(as<ipc_export_args>(p));
  case AMDKFD_IOC_SET_XNACK_MODE: { // no page faults that are repeated
    auto &x = as<kfd_ioctl_set_xnack_mode_args>(p);
    if (x.xnack_enabled > 0) return EPERM;
    x.xnack_enabled = 0;
    return 0;
  }
  case AMDKFD_IOC_RUNTIME_ENABLE: // debuggers, and what is counted
  case AMDKFD_IOC_DBG_TRAP:
  case AMDKFD_IOC_SMI_EVENTS:
  case AMDKFD_IOC_ALLOC_QUEUE_GWS:
  case AMDKFD_IOC_SET_CU_MASK:
    return EOPNOTSUPP;
  }
  stop(nullptr, "unknown ioctl of /dev/kfd: number 0x%02lx, %lu bytes", request & 255,
       request >> 16 & 0x3fff);
}

} // namespace amdgpu
