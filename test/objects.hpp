// SPDX-License-Identifier: MIT
// Symmetric objects in device memory for tests: on the heap, or with TEST_OBJECTS=buffer in memory
// of hipMalloc's that is registered, at another place on each PE.
#ifndef SHMEM_TEST_OBJECTS_HPP
#define SHMEM_TEST_OBJECTS_HPP

#include <algorithm>
#include <cstdlib>
#include <hip/hip_runtime_api.h>
#include <shmem.h>
#include <shmemx.h>
#include <vector>

struct Registered {
  void *object, *allocation;
  shmemx_buffer_t buffer;
};
inline std::vector<Registered> registered;

// Null where there is no room.
inline void *object_alloc(size_t bytes) {
  const char *how = getenv("TEST_OBJECTS");
  if (!how) return shmem_malloc_with_hints(bytes, SHMEMX_MALLOC_DEVICE);
  Registered r;
  // ROCm asks for allocations of 2 MiB.
  const size_t before = 256 * size_t(shmem_my_pe()), room = std::max(bytes, size_t(1));
  if (hipMalloc(&r.allocation, std::max(before + room, size_t(2) << 20)) != hipSuccess)
    return nullptr;
  r.object = static_cast<char *>(r.allocation) + before;
  shmemx_buffer_register(r.object, room, &r.buffer);
  registered.push_back(r);
  return r.object;
}
// As shmem_free, when no PE uses it any more.
inline void object_free(void *p) {
  const auto r = std::find_if(registered.begin(), registered.end(),
                              [p](const Registered &x) { return x.object == p; });
  if (r == registered.end()) return shmem_free(p);
  shmemx_buffer_unregister(r->buffer);
  (void)hipFree(r->allocation);
  registered.erase(r);
}

#endif
