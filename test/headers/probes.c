// SPDX-License-Identifier: MIT
// Macros by which a program recognizes a library and finds which names it lacks. The test is
// that this file compiles.
#include <shmem.h>

// Ours, and the version that the build has.
#if !defined SHMEM_VENDOR_LIBSHMEM || !defined SHMEM_VENDOR_STRING
#error no vendor
#endif
#if SHMEM_VENDOR_MAJOR_VERSION != MAJOR || SHMEM_VENDOR_MINOR_VERSION != MINOR ||                  \
    SHMEM_VENDOR_PATCH_VERSION != PATCH
#error the version is not that of meson.build
#endif

// Open MPI's examples.
#if !defined OSHMEM_SPEC_VERSION || OSHMEM_SPEC_VERSION < 10200
#error older than 1.2
#elif OSHMEM_SPEC_VERSION != 10600
#error not 1.6
#endif

// The Parallel Research Kernels, HClib, SHCOLL.
#if !defined SHMEM_MAJOR_VERSION || !defined SHMEM_MINOR_VERSION || !defined SHMEM_BCAST_SYNC_SIZE
#error older than 1.3
#elif SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION < 4
#define shmem_sync_all shmem_barrier_all
#endif

// shmem4py: a header that it does not know, or knows for one of 1.4, lacks what follows.
#if defined OSHMEM_MAJOR_VERSION || defined OSHMPI_NUMVERSION || defined CRAY_SHMEM_NUMVERSION
#error taken for another library
#elif defined _SHMEM_API_H && defined _SHMEM_DEPR_H
#error taken for OSSS-UCX
#elif defined SHMEM_DEF_H && defined SHMEM_FUNCTION_ATTRIBUTES
#define HAS_1_5
#endif
#ifndef HAS_1_5
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
typedef void *shmem_team_t;
static int shmem_team_my_pe(shmem_team_t team) {
  return team == SHMEM_TEAM_WORLD ? shmem_my_pe() : -1;
}
static void *shmem_malloc_with_hints(size_t size, long hints) {
  return hints ? NULL : shmem_malloc(size);
}
#endif

SHMEM_FUNCTION_ATTRIBUTES int probe(size_t size);
int probe(size_t size) {
  shmem_sync_all();
  void *p = shmem_malloc_with_hints(size, SHMEM_MALLOC_ATOMICS_REMOTE);
  shmem_free(p);
  return shmem_team_my_pe(SHMEM_TEAM_WORLD);
}
