// SPDX-License-Identifier: MIT
// NVSHMEM's names. Those that are one of ours by another name are in <shmem/nvshmem_names.hpp>,
// which include/compat.def makes; here are the types, the constants and the differences.
#pragma once
#include "shmem_compat.hpp"

// NVSHMEM's own headers bring these: sources count on it.
#include <algorithm>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>
#include <unistd.h>
// CUDA's names need CUDA's folder, or HIP's and the folder cuda/ of this library.
#if __has_include(<cuda_runtime.h>)
#include <cuda.h>
#include <cuda_runtime.h>
#endif
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if __has_include(<cooperative_groups.h>)
#include <cooperative_groups.h>
#endif

// A team is a number, which sources keep in an int. Those of created teams are the ids that kernels
// know teams by, behind the predefined ones.
typedef int32_t nvshmem_team_t;
typedef nvshmem_team_t nvshmemx_team_t;
typedef enum {
  NVSHMEM_TEAM_INVALID = -1,
  NVSHMEM_TEAM_WORLD = 0,
  NVSHMEM_TEAM_WORLD_INDEX = 0,
  NVSHMEM_TEAM_SHARED = 1,
  NVSHMEM_TEAM_SHARED_INDEX = 1,
  NVSHMEMX_TEAM_NODE = 2,
  NVSHMEM_TEAM_NODE_INDEX = 2,
  NVSHMEM_TEAMS_MIN = 16,
  NVSHMEM_TEAM_INDEX_MAX = INT_MAX
} nvshmem_team_id_t;

namespace shmem_compat {
// A handle has the id above an address, for which 3 stands where there is only a number
// (lib/team.hpp).
inline constexpr int team_shift = 48;
SHMEM_HD_ inline shmem_team_t team_of(nvshmem_team_t number) {
  if (number >= NVSHMEM_TEAMS_MIN)
    return reinterpret_cast<shmem_team_t>(uintptr_t(number - NVSHMEM_TEAMS_MIN) << team_shift | 3);
  return number == NVSHMEM_TEAM_WORLD                                    ? SHMEM_TEAM_WORLD
         : number == NVSHMEM_TEAM_SHARED || number == NVSHMEMX_TEAM_NODE ? SHMEM_TEAM_SHARED
                                                                         : SHMEM_TEAM_INVALID;
}
inline nvshmem_team_t number_of(shmem_team_t team) {
  return team == SHMEM_TEAM_INVALID ? NVSHMEM_TEAM_INVALID
         : team == SHMEM_TEAM_WORLD ? NVSHMEM_TEAM_WORLD
         : team == SHMEM_TEAM_SHARED
             ? NVSHMEM_TEAM_SHARED
             : nvshmem_team_t(uintptr_t(team) >> team_shift) + NVSHMEM_TEAMS_MIN;
}
} // namespace shmem_compat

typedef uint64_t nvshmemx_team_uniqueid_t;
typedef struct {
  int version, num_contexts;
  nvshmemx_team_uniqueid_t uniqueid; // of nvshmemx_team_init
  char padding[48];
} nvshmem_team_config_t;
typedef int nvshmemx_cmp_type_t;
typedef int nvshmemx_signal_op_t;
typedef int nvshmemx_thread_support_t;
typedef enum {
  NVSHMEM_PE_INVALID = -1,
  NVSHMEMX_PE_ANY = 1 << 15,
  NVSHMEMX_PE_ALL = 1 << 15
} nvshmem_pe_index_t;

// By name, because the numbers are others.
#define NVSHMEM_CMP_EQ SHMEM_CMP_EQ
#define NVSHMEM_CMP_NE SHMEM_CMP_NE
#define NVSHMEM_CMP_GT SHMEM_CMP_GT
#define NVSHMEM_CMP_LE SHMEM_CMP_LE
#define NVSHMEM_CMP_LT SHMEM_CMP_LT
#define NVSHMEM_CMP_GE SHMEM_CMP_GE
#define NVSHMEM_SIGNAL_SET SHMEM_SIGNAL_SET
#define NVSHMEM_SIGNAL_ADD SHMEM_SIGNAL_ADD
#define NVSHMEM_THREAD_SINGLE SHMEM_THREAD_SINGLE
#define NVSHMEM_THREAD_FUNNELED SHMEM_THREAD_FUNNELED
#define NVSHMEM_THREAD_SERIALIZED SHMEM_THREAD_SERIALIZED
#define NVSHMEM_THREAD_MULTIPLE SHMEM_THREAD_MULTIPLE

#define NVSHMEMX_TEAM_SAME_MYPE_NODE NVSHMEMX_TEAM_SAME_MYPE_NODE_()
#define NVSHMEM_TEAM_CONFIG_INITIALIZER                                                            \
  {                                                                                                \
    2, 0, 0, {                                                                                     \
      0                                                                                            \
    }                                                                                              \
  }
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS SHMEM_TEAM_NUM_CONTEXTS
SHMEM_REFUSED_(NVSHMEMX_TEAM_SAME_MYPE_NODE_, "split the world by the stride of the node's PEs")

#define NVSHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define NVSHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define NVSHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define NVSHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
// A program asks for the names of a version by these, and these are the names of 3.8.
#define NVSHMEM_VENDOR_MAJOR_VERSION 3
#define NVSHMEM_VENDOR_MINOR_VERSION 8
#define NVSHMEM_VENDOR_PATCH_VERSION 0
#define NVSHMEM_VENDOR_VERSION 30800
#define NVSHMEM_VENDOR_LIBSHMEM 1

#include <shmem/nvshmem_names.hpp>

inline void *nvshmem_malloc(size_t size) {
  return shmem_compat::device_malloc(size);
}

inline void *nvshmem_align(size_t alignment, size_t size) {
  return shmem_compat::device_align(alignment, size);
}
inline void nvshmem_free(void *p) {
  shmem_compat::device_free(p);
}

namespace shmem_compat {
// The configuration that ours take.
struct Config {
  shmem_team_config_t config;
  bool given;
  Config(const nvshmem_team_config_t *from)
      : config{from ? from->num_contexts : 0}, given(from != nullptr) {}
  const shmem_team_config_t *get() const { return given ? &config : nullptr; }
};
} // namespace shmem_compat

inline void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t *config) {
  shmem_team_config_t ours = {};
  shmem_team_get_config(shmem_compat::team_of(team), SHMEM_TEAM_NUM_CONTEXTS, &ours);
  config->num_contexts = ours.num_contexts;
}
inline int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                                      const nvshmem_team_config_t *config, long mask,
                                      nvshmem_team_t *team) {
  shmem_team_t made;
  const int error = shmem_team_split_strided(shmem_compat::team_of(parent), start, stride, size,
                                             shmem_compat::Config(config).get(), mask, &made);
  *team = shmem_compat::number_of(made);
  return error;
}
inline int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange,
                                 const nvshmem_team_config_t *xconfig, long xmask,
                                 nvshmem_team_t *xteam, const nvshmem_team_config_t *yconfig,
                                 long ymask, nvshmem_team_t *yteam) {
  shmem_team_t x, y;
  const int error = shmem_team_split_2d(shmem_compat::team_of(parent), xrange,
                                        shmem_compat::Config(xconfig).get(), xmask, &x,
                                        shmem_compat::Config(yconfig).get(), ymask, &y);
  *xteam = shmem_compat::number_of(x);
  *yteam = shmem_compat::number_of(y);
  return error;
}

// A barrier is a quiet before the meeting.
template <int = 0> SHMEM_HD_ inline int nvshmem_barrier(nvshmem_team_t team) {
  shmem_quiet();
  return shmem_team_sync(shmem_compat::team_of(team));
}

#if SHMEM_KERNELS_
inline void *nvshmem_calloc(size_t count, size_t size) {
  return shmem_compat::device_calloc(count, size);
}
#else
SHMEM_REFUSED_(nvshmem_calloc, "only in sources that a compiler of kernels compiles")
#endif

#include "nvshmemx.h"
