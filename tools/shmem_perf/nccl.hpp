// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <shmem.h>

// NCCL or RCCL, if the library is found at run time: the part of its interface that is used. The
// numbers are those of nccl.h 2.x.
struct Nccl {
  struct Id {
    char bytes[128];
  };
  static constexpr int char_type = 0, float_type = 7, bf16_type = 9, sum = 0;
  const char *file = nullptr; // of the library
  void *comm = nullptr;
  int (*get_id)(Id *), (*init)(void **, int, Id, int), (*destroy)(void *);
  int (*all_reduce)(const void *, void *, size_t, int, int, void *, hipStream_t);
  int (*reduce_scatter)(const void *, void *, size_t, int, int, void *, hipStream_t);
  int (*all_gather)(const void *, void *, size_t, int, void *, hipStream_t);
  int (*broadcast)(const void *, void *, size_t, int, int, void *, hipStream_t);
  int (*send)(const void *, size_t, int, int, void *, hipStream_t);
  int (*receive)(void *, size_t, int, int, void *, hipStream_t);
  int (*begin)(), (*end)();

  const char *name() const { return strstr(file, "rccl") ? "RCCL" : "NCCL"; }

  template <class F> static bool find(void *library, const char *name, F *f) {
    *f = reinterpret_cast<F>(dlsym(library, name));
    return *f != nullptr;
  }
  // On all PEs, or on none.
  bool open(int me, int n) {
    void *library = nullptr;
    for (const char *name : {static_cast<const char *>(getenv("SHMEM_PERF_NCCL")), "librccl.so.1",
                             "librccl.so", "libnccl.so.2"})
      if (!library && name && *name) library = dlopen(file = name, RTLD_NOW);
    static long found, all;
    found =
        library && find(library, "ncclGetUniqueId", &get_id) &&
        find(library, "ncclCommInitRank", &init) && find(library, "ncclCommDestroy", &destroy) &&
        find(library, "ncclAllReduce", &all_reduce) &&
        find(library, "ncclReduceScatter", &reduce_scatter) &&
        find(library, "ncclAllGather", &all_gather) && find(library, "ncclBroadcast", &broadcast) &&
        find(library, "ncclSend", &send) && find(library, "ncclRecv", &receive) &&
        find(library, "ncclGroupStart", &begin) && find(library, "ncclGroupEnd", &end);
    shmem_long_min_reduce(SHMEM_TEAM_WORLD, &all, &found, 1);
    if (!all) return false;
    static Id mine, id;
    if (me == 0 && get_id(&mine)) memset(&mine, 0, sizeof mine);
    shmem_broadcastmem(SHMEM_TEAM_WORLD, &id, &mine, sizeof id, 0);
    found = init(&comm, n, id, me) == 0;
    shmem_long_min_reduce(SHMEM_TEAM_WORLD, &all, &found, 1);
    return all;
  }
};
