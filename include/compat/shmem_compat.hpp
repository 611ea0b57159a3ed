// SPDX-License-Identifier: MIT
// What nvshmem.h and rocshmem/rocshmem.hpp of this folder share. A source that a compiler of
// kernels compiles gets the names of kernels, too; on the cpu platform that is any.
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
#include <cstring>

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
inline int init_as(int rank, int n, const void *id) {
  shmemx_init_attr_t attr = SHMEMX_INIT_ATTR_INITIALIZER;
  attr.rank = rank, attr.n = n, attr.uniqueid = static_cast<const shmemx_uniqueid_t *>(id);
  const int error = shmemx_init_attr(0, &attr);
  if (error) fprintf(stderr, "shmem: %s\n", shmemx_error_string());
  return error;
}

inline void *device_malloc(size_t size) {
  return shmem_malloc_with_hints(size, SHMEMX_MALLOC_DEVICE);
}

#if SHMEM_KERNELS_

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

#endif
} // namespace shmem_compat
