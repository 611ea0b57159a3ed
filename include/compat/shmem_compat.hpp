// SPDX-License-Identifier: MIT
// Shared by nvshmem.h and rocshmem/rocshmem.hpp of this folder. A source that a compiler of kernels
// compiles gets the names of kernels, too; on the cpu platform that is any.
#pragma once
#ifndef __cplusplus
#error "the headers of NVSHMEM and rocSHMEM are for C++ here; C has shmem.h"
#endif
#include <shmem/compiler.h>

#if SHMEM_KERNELS_
#include <shmem/device/shmem.hpp>
#else
#include <shmemx.h>
#endif
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

// A name that is not kept. A template, so that the compiler stops at a call and not before.
#define SHMEM_REFUSED_(name, reason)                                                               \
  template <class... Arguments> SHMEM_HD_ inline int name(Arguments...) {                          \
    static_assert(shmem_compat::refused<Arguments...>, #name ": not kept: " reason);               \
    return 0;                                                                                      \
  }

namespace shmem_compat {

template <class...> inline constexpr bool refused = false;

// A type of 16 bits is moved as its bits are.
template <class T> SHMEM_HD_ inline uint16_t bits(T value) {
  static_assert(sizeof(T) == sizeof(uint16_t), "a type of 16 bits");
  uint16_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}
template <class T> SHMEM_HD_ inline T value(uint16_t word) {
  static_assert(sizeof(T) == sizeof word, "a type of 16 bits");
  T of;
  memcpy(static_cast<void *>(&of), &word, sizeof word);
  return of;
}

// By a unique id. A failure is returned, after its line.
inline int make_id(void *id) {
  const int error = shmemx_get_uniqueid(static_cast<shmemx_uniqueid_t *>(id));
  if (error) fprintf(stderr, "shmem: %s\n", shmemx_error_string());
  return error;
}
inline int init_as(int rank, int n, const void *id, int device = -1,
                   int level = SHMEM_THREAD_SINGLE) {
  shmemx_init_attr_t attr = SHMEMX_INIT_ATTR_INITIALIZER;
  attr.rank = rank, attr.n = n, attr.uniqueid = static_cast<const shmemx_uniqueid_t *>(id);
  attr.device = device, attr.thread_level = level;
  const int error = shmemx_init_attr(0, &attr);
  if (error) fprintf(stderr, "shmem: %s\n", shmemx_error_string());
  return error;
}

// The processes of an MPI communicator, of which comm is the address, in its order. This header is
// also for programs without MPI, so the program's MPI is found when it runs: Open MPI, whose
// handles are addresses, or MPICH and its relatives, whose handles are numbers. Where the launcher
// offers PMIx, which MPICH's does not, all its processes are its own PEs.
template <class Handle>
int init_with_mpi(Handle comm, Handle world, Handle null, Handle byte, int level) {
  const auto size_of =
      reinterpret_cast<int (*)(Handle, int *)>(dlsym(RTLD_DEFAULT, "MPI_Comm_size"));
  const auto rank_of =
      reinterpret_cast<int (*)(Handle, int *)>(dlsym(RTLD_DEFAULT, "MPI_Comm_rank"));
  const auto compare =
      reinterpret_cast<int (*)(Handle, Handle, int *)>(dlsym(RTLD_DEFAULT, "MPI_Comm_compare"));
  const auto broadcast =
      reinterpret_cast<int (*)(void *, int, Handle, int, Handle)>(dlsym(RTLD_DEFAULT, "MPI_Bcast"));
  int rank = 0, n = 1, order = 0;
  if (comm == null) comm = world;
  if (!size_of || !rank_of || !compare || !broadcast || compare(comm, world, &order) != 0 ||
      rank_of(comm, &rank) != 0 || size_of(comm, &n) != 0) {
    fprintf(stderr, "shmem: the size of the MPI communicator: MPI does not tell\n");
    return SHMEMX_ERROR_START;
  }
  constexpr int same_processes_and_order = 1; // MPI_CONGRUENT; MPI_IDENT is 0
  int provided, initialized = 0;
  shmem_query_initialized(&initialized);
  if (order <= same_processes_and_order && (initialized || getenv("PMIX_NAMESPACE")))
    return shmem_init_thread(level, &provided);
  struct {
    int failed;
    shmemx_uniqueid_t id;
  } from_first = {};
  if (rank == 0) from_first.failed = make_id(&from_first.id);
  if (broadcast(&from_first, int(sizeof from_first), byte, 0, comm) != 0) return SHMEMX_ERROR_START;
  return from_first.failed ? from_first.failed : init_as(rank, n, &from_first.id, -1, level);
}
inline int init_with_mpi(const void *its_comm, int level = SHMEM_THREAD_SINGLE) {
  // A compiler that sees MPICH's handle would warn of the load of a pointer, which is for Open MPI.
  const void *volatile hidden = its_comm;
  const void *const comm = hidden;
  if (void *const world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world"))
    return init_with_mpi<void *>(*static_cast<void *const *>(comm), world,
                                 dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null"),
                                 dlsym(RTLD_DEFAULT, "ompi_mpi_byte"), level);
  if (dlsym(RTLD_DEFAULT, "MPI_Comm_compare"))
    return init_with_mpi<int>(*static_cast<const int *>(comm), 0x44000000, 0x04000000, 0x4c00010d,
                              level);
  fprintf(stderr, "shmem: an MPI communicator was given, but this program has no libmpi\n");
  return SHMEMX_ERROR_START;
}

// Buffers that are registered have their own addresses here, and a handle each.
struct Registered {
  void *at;
  uint64_t handle;
  Registered *next;
};
inline Registered *registered;

inline void register_symmetric(void *p, size_t bytes) {
  uint64_t handle = 0;
  shmemx_buffer_register(p, bytes, &handle);
  registered = new Registered{p, handle, registered};
}
inline int unregister_symmetric(void *p) {
  for (Registered **at = &registered; *at; at = &(*at)->next) {
    if ((*at)->at != p) continue;
    Registered *const found = *at;
    *at = found->next;
    shmemx_buffer_unregister(found->handle);
    delete found;
    return 0;
  }
  return 1;
}

inline void *device_malloc(size_t size) {
  return shmem_malloc_with_hints(size, SHMEMX_MALLOC_DEVICE);
}

// A result of device_align, and the block that it lies in. A heap's first byte is at a page.
struct Aligned {
  void *given, *block;
  Aligned *next;
};
inline Aligned *aligned_blocks;

inline void *device_align(size_t alignment, size_t size) {
  constexpr size_t page = 4096;
  if (!alignment || alignment & (alignment - 1) || alignment > page || size > SIZE_MAX - alignment)
    return nullptr;
  char *block = static_cast<char *>(device_malloc(size ? size + alignment : 0));
  if (!block) return nullptr;
  char *given = block + (alignment - uintptr_t(block) % alignment) % alignment;
  if (given != block) aligned_blocks = new Aligned{given, block, aligned_blocks};
  return given;
}
inline void device_free(void *p) {
  for (Aligned **at = &aligned_blocks; *at; at = &(*at)->next)
    if ((*at)->given == p) {
      Aligned *found = *at;
      *at = found->next, p = found->block;
      delete found;
      break;
    }
  shmem_free(p);
}

#if SHMEM_KERNELS_

// The program has HIP's names in these sources, by the platform's header or its own.
inline void *device_calloc(size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) return nullptr;
  void *p = device_malloc(count * size);
  // A peer may store there once all have it, so all wait for the zeros of all.
  if (p) (void)hipMemset(p, 0, count * size), (void)hipDeviceSynchronize();
  shmem_barrier_all();
  return p;
}

// Strided transfers by a wave or a workgroup, of elements of so many bytes: each thread moves
// every n-th.
#define SHMEM_STRIDED_(name)                                                                       \
  template <class Scope, size_t bytes>                                                             \
  SHMEM_D_ void name(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,  \
                     int pe) {                                                                     \
    const Scope scope;                                                                             \
    const size_t first = scope.rank(), n = scope.size();                                           \
    if (first < nelems) {                                                                          \
      const ptrdiff_t i = ptrdiff_t(first), step = ptrdiff_t(n);                                   \
      void *to = static_cast<char *>(dest) + i * dst * ptrdiff_t(bytes);                           \
      const void *from = static_cast<const char *>(source) + i * sst * ptrdiff_t(bytes);           \
      const size_t mine = (nelems - first + n - 1) / n;                                            \
      if constexpr (bytes == 1) shmem_##name##8(to, from, dst * step, sst * step, mine, pe);       \
      if constexpr (bytes == 2) shmem_##name##16(to, from, dst * step, sst * step, mine, pe);      \
      if constexpr (bytes == 4) shmem_##name##32(to, from, dst * step, sst * step, mine, pe);      \
      if constexpr (bytes == 8) shmem_##name##64(to, from, dst * step, sst * step, mine, pe);      \
      if constexpr (bytes == 16) shmem_##name##128(to, from, dst * step, sst * step, mine, pe);    \
    }                                                                                              \
    shmem::device::settle(scope);                                                                  \
  }
SHMEM_STRIDED_(iput)
SHMEM_STRIDED_(iget)
#undef SHMEM_STRIDED_

// A receiver of rocSHMEM gives the place and the size of each block.
template <class Scope, size_t bytes, class T>
SHMEM_D_ void alltoallv(shmem_team_t team, T *dest, const size_t *dest_nelems,
                        const size_t *dest_displs, const T *source, const size_t *source_nelems,
                        const size_t *source_displs) {
  static_assert(bytes == sizeof(T), "an array of another type");
  shmem::device::alltoallv_to("rocshmem_alltoallv_wg", team, dest, dest_nelems, dest_displs, source,
                              source_nelems, source_displs, Scope{});
}

#endif
} // namespace shmem_compat
