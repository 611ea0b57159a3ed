/* SPDX-License-Identifier: MIT
 * OpenSHMEM 1.6. The routines themselves are generated from shmem.def into <shmem/prototypes.h>. */
#ifndef SHMEM_H
#define SHMEM_H

#include <stddef.h>
#include <stdint.h>

/* Version: of the specification, and the string that shmem_info_get_name gives. */
#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 6
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_VENDOR_STRING "libshmem"

/* The vendor of this header, and the version of the library. */
#define SHMEM_VENDOR_LIBSHMEM 1
#define SHMEM_VENDOR_MAJOR_VERSION 0
#define SHMEM_VENDOR_MINOR_VERSION 2
#define SHMEM_VENDOR_PATCH_VERSION 0

/* Macros that programs of today ask a header for. Open MPI's examples stop without the first.
 * shmem4py knows Sandia's header by the other two, and that it has all of 1.5; a header that it
 * does not know gets static functions of its own in place of those after 1.3, and does not
 * compile. */
#define OSHMEM_SPEC_VERSION (SHMEM_MAJOR_VERSION * 10000 + SHMEM_MINOR_VERSION * 100)
#define SHMEM_DEF_H
#define SHMEM_FUNCTION_ATTRIBUTES __attribute__((visibility("default")))

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

/* Handles. The predefined ones are small numbers, so that they initialize static objects in C and
 * C++ and mean the same in a kernel; all others are addresses with the team's number in the upper
 * bits. */
typedef struct shmem_ctx_handle_ *shmem_ctx_t;
typedef struct shmem_team_handle_ *shmem_team_t;
#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2)

typedef struct {
  int num_contexts;
} shmem_team_config_t;
#define SHMEM_TEAM_NUM_CONTEXTS 1L

#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L

typedef struct {
  size_t total_ops;
} shmem_ctx_session_config_t;
#define SHMEM_CTX_SESSION_TOTAL_OPS 1L
#define SHMEM_CTX_SESSION_BATCH 1L

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

#define SHMEM_SIGNAL_SET 0
#define SHMEM_SIGNAL_ADD 1

#define SHMEM_CMP_EQ 0
#define SHMEM_CMP_NE 1
#define SHMEM_CMP_LT 2
#define SHMEM_CMP_LE 3
#define SHMEM_CMP_GT 4
#define SHMEM_CMP_GE 5

/* Deprecated: work arrays of the active-set routines. This library needs none of them; the lengths
 * are small but not zero, because programs declare arrays with them. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 8
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Deprecated: the names of before 1.2. */
#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE

#if defined __cplusplus
#define SHMEM_NORETURN_ [[noreturn]]
#elif defined __STDC_VERSION__ && __STDC_VERSION__ >= 201112L
#define SHMEM_NORETURN_ _Noreturn
#else
#define SHMEM_NORETURN_ __attribute__((noreturn))
#endif
__extension__ typedef double _Complex shmem_complexd_;
__extension__ typedef float _Complex shmem_complexf_;

/* Visible whatever -fvisibility the program is compiled with. */
#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif
#include <shmem/prototypes.h>
#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

/* The type-generic names: C11 _Generic, C++ overloads. A program in C99 has the typed names only.
 * SHMEM_NO_GENERICS leaves them out. */
#ifndef SHMEM_NO_GENERICS
#if defined __cplusplus
extern "C++" { // also where the program includes this header inside extern "C"
#include <shmem/overloads.h>
}
#elif defined __STDC_VERSION__ && __STDC_VERSION__ >= 201112L
#include <shmem/generics.h>
#endif
#endif

#endif
