// SPDX-License-Identifier: MIT
// Memory of the program's own on this PE's GPU: what of it can be shared, and the peers' as mapped
// here. Only whole allocations can be exported, and programs cut theirs into pieces, so several
// buffers may lie in one, which is mapped once. Callers hold the registration's lock.
#include "buffer.hpp"
#include "../../device/runtime.hpp"
#include "../state.hpp"
#include "hip.hpp"
#include <cstring>
#include <vector>

namespace shmem::gpu {

static_assert(sizeof(hipIpcMemHandle_t) <= sizeof Exported::handle);

namespace {

struct Opened {
  int pe;
  uintptr_t base; // at that PE, which does not free it while it is a buffer
  hipIpcMemHandle_t handle;
  char *at;
  int buffers; // or 0, where HIP leaves mapped what is closed: for when it is opened again
};
std::vector<Opened> opened;

} // namespace

bool has_memory(const char *fn, const void *p, size_t bytes, Exported *exported) {
  if (chosen < 0) return false;
  const OnDevice on;
  hipPointerAttribute_t a{}; // ROCm up to 6 has an error for what it does not know
  if (!tried(hipPointerGetAttributes(&a, p)) || a.hostPointer) return false;
  // CUDA has no address in this GPU for another's memory, and no GPU for what it does not know.
  if (!a.devicePointer && (a.device < 0 || a.device == chosen)) return false;
  if (a.device != chosen)
    fatal("%s: ptr = %p: memory of GPU %d, and this PE has its heap on GPU %d", fn, p, a.device,
          chosen);
  void *base = nullptr;
  size_t size = 0;
  if (hipError_t error = runtime::allocation(&base, &size, p); !tried(error))
    fatal("%s: ptr = %p: memory of GPU %d whose allocation cannot be found: %s", fn, p, chosen,
          hipGetErrorString(error));
  exported->base = uintptr_t(base);
  const size_t room = size - (uintptr_t(p) - exported->base);
  if (bytes > room)
    fatal("%s: ptr = %p: %zu bytes from there, but its allocation on GPU %d ends after %zu", fn, p,
          bytes, chosen, room);
  exported->coarse = runtime::kept_by_peers(p, chosen);
  if (self.n_local == 1) return true; // as for the heap: some systems refuse to share
  hipIpcMemHandle_t handle{};         // which is compared
  if (hipError_t error = hipIpcGetMemHandle(&handle, base); !tried(error))
    fatal("%s: ptr = %p: memory of GPU %d that cannot be exported (hipIpcGetMemHandle: %s): use "
          "hipMalloc or shmem_malloc",
          fn, p, chosen, hipGetErrorString(error));
  memcpy(exported->handle, &handle, sizeof handle);
  return true;
}

bool has_pages(const void *p) {
  if (chosen < 0) return false;
  const OnDevice on;
  hipPointerAttribute_t a{}; // ROCm up to 6 has an error for what it does not know
  return tried(hipPointerGetAttributes(&a, p)) && a.devicePointer;
}

char *open_memory(const char *fn, int pe, const Exported &theirs) {
  hipIpcMemHandle_t handle;
  memcpy(&handle, theirs.handle, sizeof handle);
  for (Opened &o : opened)
    if (o.buffers ? o.pe == pe && o.base == theirs.base
                  : !memcmp(&o.handle, &handle, sizeof handle)) {
      o.pe = pe, o.base = theirs.base; // it may have been another PE's number in an earlier job
      return o.buffers++, o.at;
    }
  const OnDevice on;
  void *p = nullptr;
  // ROCr cuts allocations of less than 2 MiB from a larger one, and exports the larger one. A
  // driver may map an allocation once only (ROCm 5.2.3 over a strict one, 2026-11-23).
  MUST(hipIpcOpenMemHandle(&p, handle, hipIpcMemLazyEnablePeerAccess),
       "%s: hipIpcOpenMemHandle of the memory of PE %d, which may have to be 2 MiB at least", fn,
       pe);
  opened.push_back({pe, theirs.base, handle, static_cast<char *>(p), 1});
  return opened.back().at;
}

void close_memory(int pe, uintptr_t base) {
  for (size_t i = 0; i < opened.size(); i++) {
    Opened &o = opened[i];
    if (o.pe != pe || o.base != base || !o.buffers) continue;
    if (--o.buffers || !runtime::closes_handles) return;
    // In exit() the runtime may have taken itself down already, as for close().
    if (!self.exiting) {
      const OnDevice on;
      MUST(hipIpcCloseMemHandle(o.at), "hipIpcCloseMemHandle");
    }
    opened.erase(opened.begin() + ptrdiff_t(i));
    return;
  }
}

} // namespace shmem::gpu
