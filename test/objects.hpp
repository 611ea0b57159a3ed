// SPDX-License-Identifier: MIT
// Symmetric objects in device memory for tests: on the heap, or with TEST_OBJECTS=buffer in memory
// of hipMalloc's that is registered, at another place on each PE. An object with
// atomics of other PEs is in such memory as has them.
#ifndef SHMEM_TEST_OBJECTS_HPP
#define SHMEM_TEST_OBJECTS_HPP

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <hip/hip_runtime_api.h>
#include <shmem.h>
#include <shmemx.h>
#include <vector>

// Whether a PE's atomics can be done on what other PEs have of hipMalloc's: on a gfx90a only where
// they share the GPU. Called by all.
inline bool atomics_on_coarse() {
  hipDeviceProp_t prop;
  int device;
  if (hipGetDevice(&device) != hipSuccess || hipGetDeviceProperties(&prop, device) != hipSuccess)
    return false;
  static int bus, buses[64];
  bus = prop.pciBusID;
  shmem_int_fcollect(SHMEM_TEAM_WORLD, buses, &bus, 1);
  const auto other = [](int b) { return b != bus; };
  return strncmp(prop.gcnArchName, "gfx90a", 6) ||
         std::none_of(buses, buses + shmem_n_pes(), other);
}
// All PEs, the last one first. Only a list makes such a team: there is no one distance.
inline shmem_team_t turned_world() {
  const int n = shmem_n_pes();
  std::vector<int> pes(size_t(n), n - 1);
  for (int i = 1; i < n; i++) pes[size_t(i)] = i - 1;
  shmem_team_t team = SHMEM_TEAM_INVALID;
  shmemx_team_create(SHMEM_TEAM_WORLD, pes.data(), n, nullptr, 0, &team);
  return team;
}
// As large as ROCm shares them.
inline void *device_memory(size_t bytes, bool fine) {
  void *p;
  bytes = std::max(bytes, size_t(2) << 20);
  return (fine ? hipExtMallocWithFlags(&p, bytes, hipDeviceMallocFinegrained)
               : hipMalloc(&p, bytes)) == hipSuccess
             ? p
             : nullptr;
}

struct Registered {
  void *object, *allocation;
  shmemx_buffer_t buffer;
};
inline std::vector<Registered> registered;

// Null where there is no room.
inline void *object_alloc(size_t bytes, bool atomics = false) {
  const char *how = getenv("TEST_OBJECTS");
  if (!how) return shmem_malloc_with_hints(bytes, SHMEMX_MALLOC_DEVICE);
  Registered r;
  static const bool all = atomics_on_coarse();
  const size_t before = 256 * size_t(shmem_my_pe()), room = std::max(bytes, size_t(1));
  r.allocation = device_memory(before + room, atomics && !all);
  if (!r.allocation) return nullptr;
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
