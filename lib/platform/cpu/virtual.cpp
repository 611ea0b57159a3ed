// SPDX-License-Identifier: MIT
// Addresses and memory apart: a chunk of memory is a memfd, and its handle for other processes is
// that descriptor.
#include "internal.hpp"
#include "sanitize.hpp"
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hip_cpu {

inline namespace names {
struct ihipMemGenericAllocationHandle {
  int fd;
  size_t bytes;
  int on;      // the device
  bool own;    // and not another process's
  int users;   // the handle, and where it is mapped
  bool handle; // there is one
};
} // namespace names

using impl::Allocation, impl::done, impl::find, impl::runtime;
using Chunk = ihipMemGenericAllocationHandle;

namespace {

constexpr size_t step = 2 << 20;

void drop(Chunk *c) {
  if (--c->users) return;
  if (c->own) runtime().used[size_t(c->on)] -= c->bytes;
  close(c->fd);
  delete c;
}
bool good(const hipMemAllocationProp *prop) {
  return prop && prop->type == hipMemAllocationTypePinned &&
         prop->location.type == hipMemLocationTypeDevice && prop->location.id >= 0 &&
         prop->location.id < runtime().devices;
}
// The reserved range that has all of [p, p + bytes), which lies on steps.
std::pair<const uintptr_t, Allocation> *reserved(const void *p, size_t bytes) {
  auto *entry = find(p);
  return entry && entry->second.kind == Allocation::reserved && bytes && bytes % step == 0 &&
                 (uintptr_t(p) - entry->first) % step == 0 &&
                 bytes <= entry->second.bytes - (uintptr_t(p) - entry->first)
             ? entry
             : nullptr;
}
bool forbid(void *p, size_t bytes) {
  return mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

} // namespace

inline namespace names {

hipError_t hipMemGetAllocationGranularity(size_t *bytes, const hipMemAllocationProp *prop,
                                          hipMemAllocationGranularity_flags) {
  HIP_ENTER();
  if (!bytes || !good(prop)) return done(hipErrorInvalidValue);
  *bytes = step;
  return hipSuccess;
}

hipError_t hipMemAddressReserve(void **p, size_t bytes, size_t, void *, unsigned long long flags) {
  HIP_ENTER();
  if (!p || !bytes || bytes % step || flags) return done(hipErrorInvalidValue);
  void *at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return done(hipErrorOutOfMemory);
  std::lock_guard guard(runtime().mutex);
  runtime().memory[uintptr_t(at)] = {
      Allocation::reserved, bytes, bytes, impl::current_device(), 0, -1, 0, 0};
  *p = at;
  return hipSuccess;
}
hipError_t hipMemAddressFree(void *p, size_t bytes) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  auto *entry = reserved(p, bytes);
  auto mapped = runtime().chunks.lower_bound(uintptr_t(p));
  if (!entry || entry->first != uintptr_t(p) || entry->second.bytes != bytes ||
      (mapped != runtime().chunks.end() && mapped->first - uintptr_t(p) < bytes))
    return done(hipErrorInvalidValue);
  runtime().memory.erase(uintptr_t(p));
  munmap(p, bytes);
  return hipSuccess;
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                        const hipMemAllocationProp *prop, unsigned long long flags) {
  HIP_ENTER();
  if (!handle || !bytes || bytes % step || !good(prop) || flags) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  size_t &used = runtime().used[size_t(prop->location.id)];
  if (bytes > runtime().total - used) return done(hipErrorOutOfMemory);
  char name[32]; // by which another process knows the device
  snprintf(name, sizeof name, "hip-chunk-%d", prop->location.id);
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return done(hipErrorOutOfMemory);
  if (ftruncate(fd, off_t(bytes))) {
    close(fd);
    return done(hipErrorOutOfMemory);
  }
  used += bytes;
  *handle = new Chunk{fd, bytes, prop->location.id, true, 1, true};
  return hipSuccess;
}
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  HIP_ENTER();
  if (!handle || !handle->handle) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  handle->handle = false;
  drop(handle);
  return hipSuccess;
}

hipError_t hipMemExportToShareableHandle(void *to, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type,
                                         unsigned long long flags) {
  HIP_ENTER();
  if (!to || !handle || type != hipMemHandleTypePosixFileDescriptor || flags)
    return done(hipErrorInvalidValue);
  const int fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return done(hipErrorOperatingSystem);
  *static_cast<int *>(to) = fd;
  return hipSuccess;
}
// The descriptor stays the caller's.
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *from,
                                           hipMemAllocationHandleType type) {
  HIP_ENTER();
  struct stat st;
  const int theirs = int(reinterpret_cast<intptr_t>(from));
  if (!handle || type != hipMemHandleTypePosixFileDescriptor || fstat(theirs, &st) ||
      !S_ISREG(st.st_mode) || st.st_size == 0)
    return done(hipErrorInvalidValue);
  char self[40], link[64];
  snprintf(self, sizeof self, "/proc/thread-self/fd/%d", theirs);
  const ssize_t length = readlink(self, link, sizeof link - 1);
  link[std::max<ssize_t>(length, 0)] = '\0';
  int on;
  if (sscanf(link, "/memfd:hip-chunk-%d", &on) != 1) return done(hipErrorInvalidValue);
  const int fd = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return done(hipErrorOperatingSystem);
  *handle = new Chunk{fd, size_t(st.st_size), on, false, 1, true};
  return hipSuccess;
}

// The memory has no access before hipMemSetAccess.
hipError_t hipMemMap(void *p, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags) {
  HIP_ENTER();
  if (!handle || !handle->handle || offset || flags || bytes != handle->bytes)
    return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  auto &chunks = runtime().chunks;
  auto next = chunks.lower_bound(uintptr_t(p));
  const bool taken = (next != chunks.end() && next->first - uintptr_t(p) < bytes) ||
                     (next != chunks.begin() &&
                      uintptr_t(p) - std::prev(next)->first < std::prev(next)->second->bytes);
  if (!reserved(p, bytes) || taken) return done(hipErrorInvalidValue);
  if (mmap(p, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd, 0) == MAP_FAILED)
    return done(hipErrorMapFailed);
  madvise(p, bytes, MADV_DONTFORK); // as other memory of devices
  madvise(p, bytes, MADV_DONTDUMP);
  handle->users++;
  chunks[uintptr_t(p)] = handle;
  return hipSuccess;
}
hipError_t hipMemSetAccess(void *p, size_t bytes, const hipMemAccessDesc *desc, size_t count) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  auto it = runtime().chunks.find(uintptr_t(p));
  if (!desc || count != 1 || it == runtime().chunks.end() || it->second->bytes != bytes)
    return done(hipErrorInvalidValue);
  if (!impl::peer_access(desc->location.id, it->second->on))
    return done(hipErrorPeerAccessUnsupported);
  const int protection = desc->flags == hipMemAccessFlagsProtReadWrite ? PROT_READ | PROT_WRITE
                         : desc->flags == hipMemAccessFlagsProtRead    ? PROT_READ
                                                                       : PROT_NONE;
  return done(mprotect(p, bytes, protection) ? hipErrorMapFailed : hipSuccess);
}
hipError_t hipMemUnmap(void *p, size_t bytes) {
  HIP_ENTER();
  std::lock_guard guard(runtime().mutex);
  auto it = runtime().chunks.find(uintptr_t(p));
  if (it == runtime().chunks.end() || it->second->bytes != bytes || !forbid(p, bytes))
    return done(hipErrorInvalidValue);
  drop(it->second);
  runtime().chunks.erase(it);
  return hipSuccess;
}

} // namespace names
} // namespace hip_cpu
