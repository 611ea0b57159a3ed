// SPDX-License-Identifier: MIT
// Memory. Each allocation of a device is a memfd with a mapping, so another process of the user can
// open it through /proc while this one has it, and nothing has a name that could be left behind.
#include "../../memory/map_lazily.hpp"
#include "internal.hpp"
#include "sanitize.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hip_cpu {
namespace impl {

std::pair<const uintptr_t, Allocation> *find(const void *p) {
  auto &memory = runtime().memory;
  auto after = memory.upper_bound(uintptr_t(p));
  if (after == memory.begin()) return nullptr;
  auto &entry = *--after;
  return uintptr_t(p) - entry.first < entry.second.bytes ? &entry : nullptr;
}

} // namespace impl

using impl::Allocation, impl::done, impl::find, impl::runtime;

namespace {

constexpr size_t page = 4096;

// What a hipIpcMemHandle_t holds. The tag is also the name of the memfd, so a handle opens nothing
// if its process is gone and another one has its number and descriptor.
struct Handle {
  uint64_t tag, bytes, mapped;
  int32_t pid, fd, device;
  uint32_t flags;
};
static_assert(sizeof(Handle) <= sizeof(hipIpcMemHandle_t));

void file_name(char (&name)[32], uint64_t tag) {
  snprintf(name, sizeof name, "hip-%016llx", static_cast<unsigned long long>(tag));
}

// A page without access follows, and under ASan the rest of the last page has no access either.
void *map(int fd, size_t bytes, size_t mapped) {
  void *place =
      mmap(nullptr, mapped + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  void *p = shmem::map_lazily(place, mapped, MAP_SHARED | MAP_FIXED, fd, 0); // a dump has none of
                                                                             // a GPU's memory

  if (p == MAP_FAILED) {
    munmap(place, mapped + page);
    return nullptr;
  }
  madvise(p, mapped + page,
          MADV_DONTFORK); // as with a GPU's memory; the child has a runtime of its own
  ASAN_UNPOISON_MEMORY_REGION(p, mapped);
  ASAN_POISON_MEMORY_REGION(static_cast<char *>(p) + bytes, mapped - bytes);
  return p;
}
void unmap(void *p, size_t mapped) {
  ASAN_UNPOISON_MEMORY_REGION(p, mapped);
  munmap(p, mapped + page);
}

hipError_t allocate(void **p, size_t bytes, unsigned flags) {
  if (!p || flags > hipDeviceMallocContiguous || (flags == hipMallocSignalMemory && bytes != 8))
    return hipErrorInvalidValue;
  *p = nullptr;
  if (bytes == 0) return hipSuccess;
  const int device = impl::current_device();
  std::lock_guard guard(runtime().mutex);
  size_t &used = runtime().used[size_t(device)];
  if (bytes > runtime().total - used) return hipErrorOutOfMemory;
  const size_t mapped = (bytes + page - 1) / page * page;
  uint64_t tag;
  if (getrandom(&tag, sizeof tag, 0) != sizeof tag) return hipErrorOperatingSystem;
  char name[32];
  file_name(name, tag);
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return hipErrorOutOfMemory;
  *p = ftruncate(fd, off_t(mapped)) == 0 ? map(fd, bytes, mapped) : nullptr;
  if (!*p) {
    close(fd);
    return hipErrorOutOfMemory;
  }
  used += mapped;
  runtime().memory[uintptr_t(*p)] = {Allocation::device, bytes, mapped, device, flags, fd, tag, 0};
  return hipSuccess;
}

// Takes an allocation of that kind out of the list; mapped is 0 if there is none.
Allocation take(void *p, Allocation::MemoryKind kind) {
  std::lock_guard guard(runtime().mutex);
  auto &memory = runtime().memory;
  auto it = memory.find(uintptr_t(p));
  if (it == memory.end() || it->second.kind != kind) return {};
  Allocation a = it->second;
  memory.erase(it);
  if (kind == Allocation::device) runtime().used[size_t(a.on)] -= a.mapped;
  return a;
}

// Whether the descriptor is the memory that the handle was made of.
bool same(int fd, const Handle &h) {
  char self[40], link[64], name[32], want[64];
  snprintf(self, sizeof self, "/proc/thread-self/fd/%d", fd);
  ssize_t n = readlink(self, link, sizeof link - 1);
  if (n < 0) return false;
  link[n] = '\0';
  file_name(name, h.tag);
  snprintf(want, sizeof want, "/memfd:%s (deleted)", name);
  struct stat st;
  return strcmp(link, want) == 0 && fstat(fd, &st) == 0 && size_t(st.st_size) == h.mapped;
}

} // namespace

inline namespace names {

hipError_t hipMalloc(void **p, size_t bytes) {
  HIP_ENTER_UNLESS_CAPTURING();
  return done(allocate(p, bytes, hipDeviceMallocDefault));
}
hipError_t hipExtMallocWithFlags(void **p, size_t bytes, unsigned flags) {
  HIP_ENTER_UNLESS_CAPTURING();
  return done(allocate(p, bytes, flags));
}

hipError_t hipFree(void *p) {
  HIP_ENTER_UNLESS_CAPTURING();
  if (!p) return hipSuccess;
  int device;
  {
    std::lock_guard guard(runtime().mutex);
    auto *entry = find(p);
    if (!entry || entry->first != uintptr_t(p) || entry->second.kind != Allocation::device)
      return done(hipErrorInvalidValue);
    device = entry->second.on;
  }
  impl::wait_for_device(device);
  Allocation a = take(p, Allocation::device);
  if (!a.mapped) return done(hipErrorInvalidValue);
  unmap(p, a.mapped);
  close(a.fd);
  return hipSuccess;
}

hipError_t hipHostMalloc(void **p, size_t bytes, unsigned flags) {
  HIP_ENTER_UNLESS_CAPTURING();
  if (!p) return done(hipErrorInvalidValue);
  *p = nullptr;
  if (bytes == 0) return hipSuccess;
  if (bytes > runtime().total || posix_memalign(p, page, bytes)) return done(hipErrorOutOfMemory);
  std::lock_guard guard(runtime().mutex);
  runtime().memory[uintptr_t(*p)] = {
      Allocation::host, bytes, bytes, impl::current_device(), flags, -1, 0, 0};
  return hipSuccess;
}
hipError_t hipHostFree(void *p) {
  HIP_ENTER_UNLESS_CAPTURING();
  if (!p) return hipSuccess;
  for (int device = 0; device < runtime().devices; device++) impl::wait_for_device(device);
  if (!take(p, Allocation::host).mapped) return done(hipErrorInvalidValue);
  free(p);
  return hipSuccess;
}

hipError_t hipHostRegister(void *p, size_t bytes, unsigned flags) {
  HIP_ENTER_UNLESS_CAPTURING();
  if (!p || !bytes) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  auto &memory = runtime().memory;
  auto next = memory.lower_bound(uintptr_t(p));
  if (find(p) || (next != memory.end() && next->first - uintptr_t(p) < bytes))
    return done(hipErrorHostMemoryAlreadyRegistered);
  memory[uintptr_t(p)] = {
      Allocation::registered, bytes, bytes, impl::current_device(), flags, -1, 0, 0};
  return hipSuccess;
}
hipError_t hipHostUnregister(void *p) {
  HIP_ENTER_UNLESS_CAPTURING();
  return done(take(p, Allocation::registered).mapped ? hipSuccess
                                                     : hipErrorHostMemoryNotRegistered);
}

hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags) {
  HIP_ENTER();
  if (!device || flags) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  auto *entry = find(host);
  if (!entry ||
      (entry->second.kind != Allocation::host && entry->second.kind != Allocation::registered))
    return done(hipErrorInvalidValue);
  *device = host;
  return hipSuccess;
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t p) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  auto *entry = find(p);
  if (!entry) return done(hipErrorNotFound);
  if (base) *base = reinterpret_cast<void *>(entry->first);
  if (size) *size = entry->second.bytes;
  return hipSuccess;
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *p) {
  HIP_ENTER();
  if (!attributes || !p) return done(hipErrorInvalidValue);
  *attributes = {};
  std::lock_guard guard(runtime().mutex);
  auto *entry = find(p);
  if (!entry) {
    attributes->device = -1;
    return hipSuccess;
  }
  const Allocation &a = entry->second;
  const bool device = a.kind != Allocation::host && a.kind != Allocation::registered;
  attributes->type = device ? hipMemoryTypeDevice : hipMemoryTypeHost;
  attributes->device = a.on;
  attributes->devicePointer = const_cast<void *>(p);
  attributes->hostPointer = device ? nullptr : const_cast<void *>(p);
  attributes->allocationFlags = a.flags;
  return hipSuccess;
}

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *p) {
  HIP_ENTER();
  if (!handle) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  auto *entry = find(p);
  if (!entry || entry->first != uintptr_t(p) || entry->second.kind != Allocation::device)
    return done(hipErrorInvalidValue);
  const Allocation &a = entry->second;
  const Handle h{a.tag, a.bytes, a.mapped, getpid(), a.fd, a.on, a.flags};
  *handle = {};
  memcpy(handle, &h, sizeof h);
  return hipSuccess;
}

// The same memory opened twice is mapped once, and closed as often as it was opened.
hipError_t hipIpcOpenMemHandle(void **p, hipIpcMemHandle_t handle, unsigned flags) {
  HIP_ENTER_UNLESS_CAPTURING();
  if (!p || flags > hipIpcMemLazyEnablePeerAccess) return done(hipErrorInvalidValue);
  *p = nullptr;
  Handle h;
  memcpy(&h, &handle, sizeof h);
  std::lock_guard guard(runtime().mutex);
  for (auto &[address, a] : runtime().memory) {
    if (!a.tag || a.tag != h.tag) continue;
    if (a.kind == Allocation::device) return done(hipErrorInvalidContext);
    a.opens++;
    *p = reinterpret_cast<void *>(address);
    return hipSuccess;
  }
  if (!impl::peer_access(impl::current_device(), h.device))
    return done(hipErrorPeerAccessUnsupported);
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/fd/%d", h.pid, h.fd);
  int fd = open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return done(hipErrorInvalidHandle);
  if (!same(fd, h)) {
    close(fd);
    return done(hipErrorInvalidHandle);
  }
  *p = map(fd, h.bytes, h.mapped);
  close(fd);
  if (!*p) return done(hipErrorMapFailed);
  runtime().memory[uintptr_t(*p)] = {
      Allocation::imported, h.bytes, h.mapped, h.device, h.flags, -1, h.tag, 1};
  return hipSuccess;
}
hipError_t hipIpcCloseMemHandle(void *p) {
  HIP_ENTER_UNLESS_CAPTURING();
  for (int device = 0; device < runtime().devices; device++) impl::wait_for_device(device);
  size_t mapped;
  {
    std::lock_guard guard(runtime().mutex);
    auto it = runtime().memory.find(uintptr_t(p));
    if (it == runtime().memory.end() || it->second.kind != Allocation::imported)
      return done(hipErrorInvalidValue);
    if (--it->second.opens) return hipSuccess;
    mapped = it->second.mapped;
    runtime().memory.erase(it);
  }
  unmap(p, mapped);
  return hipSuccess;
}

} // namespace names
} // namespace hip_cpu
