// SPDX-License-Identifier: MIT
// rocSHMEM's names. Those that are one of ours by another name are in <shmem/rocshmem_names.hpp>,
// which include/compat.def makes; here are the types, the constants and the differences.
#pragma once
#include "../shmem_compat.hpp"
#include <array>
#include <cstdlib>
// As rocSHMEM's own header does where it is built with MPI.
#if __has_include(<mpi.h>)
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#endif

// Macros of ours come out of a name with rocshmem:: before it as rocshmem::shmem_kernel::NAME.
#if SHMEM_KERNELS_
namespace rocshmem {
namespace shmem_kernel = ::shmem_kernel;
}
#endif

namespace rocshmem {

typedef shmem_ctx_t rocshmem_ctx_t;
typedef shmem_team_t rocshmem_team_t;
typedef shmem_team_config_t rocshmem_team_config_t;

enum ROCSHMEM_STATUS { ROCSHMEM_SUCCESS, ROCSHMEM_ERROR };
enum ROCSHMEM_OP {
  ROCSHMEM_SUM,
  ROCSHMEM_MAX,
  ROCSHMEM_MIN,
  ROCSHMEM_PROD,
  ROCSHMEM_AND,
  ROCSHMEM_OR,
  ROCSHMEM_XOR,
  ROCSHMEM_REPLACE
};
enum ROCSHMEM_SIGNAL_OPS {
  ROCSHMEM_SIGNAL_SET = SHMEM_SIGNAL_SET,
  ROCSHMEM_SIGNAL_ADD = SHMEM_SIGNAL_ADD
};
// The numbers are ours, and not in rocSHMEM's order.
enum rocshmem_cmps {
  ROCSHMEM_CMP_EQ = SHMEM_CMP_EQ,
  ROCSHMEM_CMP_NE = SHMEM_CMP_NE,
  ROCSHMEM_CMP_GT = SHMEM_CMP_GT,
  ROCSHMEM_CMP_GE = SHMEM_CMP_GE,
  ROCSHMEM_CMP_LT = SHMEM_CMP_LT,
  ROCSHMEM_CMP_LE = SHMEM_CMP_LE
};
enum rocshmem_thread_ops {
  ROCSHMEM_THREAD_SINGLE = SHMEM_THREAD_SINGLE,
  ROCSHMEM_THREAD_FUNNELED = SHMEM_THREAD_FUNNELED,
  ROCSHMEM_THREAD_WG_FUNNELED = SHMEM_THREAD_FUNNELED,
  ROCSHMEM_THREAD_SERIALIZED = SHMEM_THREAD_SERIALIZED,
  ROCSHMEM_THREAD_MULTIPLE = SHMEM_THREAD_MULTIPLE
};
enum rocshmem_team_configs {
  ROCSHMEM_TEAM_DEFAULT_CONFIGS = 0,
  ROCSHMEM_TEAM_NUM_CONTEXTS = SHMEM_TEAM_NUM_CONTEXTS
};
enum {
  ROCSHMEM_CTX_ZERO = 0,
  ROCSHMEM_CTX_NOSTORE = SHMEM_CTX_NOSTORE,
  ROCSHMEM_CTX_SERIALIZED = SHMEM_CTX_SERIALIZED,
  ROCSHMEM_CTX_WG_PRIVATE = SHMEM_CTX_PRIVATE,
  ROCSHMEM_CTX_SHARED = 0
};

// Handles are pointers, which no constant of kernels can be. So each is a call, which may have
// rocshmem:: before it as well.
SHMEM_HD_ inline rocshmem_ctx_t default_ctx_() {
  return SHMEM_CTX_DEFAULT;
}
SHMEM_HD_ inline rocshmem_ctx_t invalid_ctx_() {
  return SHMEM_CTX_INVALID;
}
SHMEM_HD_ inline rocshmem_team_t world_() {
  return SHMEM_TEAM_WORLD;
}
SHMEM_HD_ inline rocshmem_team_t shared_() {
  return SHMEM_TEAM_SHARED;
}
SHMEM_HD_ inline rocshmem_team_t invalid_team_() {
  return SHMEM_TEAM_INVALID;
}
#define ROCSHMEM_CTX_DEFAULT default_ctx_()
#define ROCSHMEM_CTX_INVALID invalid_ctx_()
#define ROCSHMEM_TEAM_WORLD world_()
#define ROCSHMEM_TEAM_SHARED shared_()
#define ROCSHMEM_TEAM_INVALID invalid_team_()

#define ROCSHMEM_UNIQUE_ID_BYTES 128
using rocshmem_uniqueid_t = std::array<uint8_t, ROCSHMEM_UNIQUE_ID_BYTES>;
struct rocshmem_init_attr_t {
  int32_t rank, nranks;
  rocshmem_uniqueid_t uid;
  void *mpi_comm;
};
#define ROCSHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define ROCSHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define ROCSHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define ROCSHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
// A program asks for the names of a version by these, and these are the names of 3.4.
#define ROCSHMEM_VENDOR_MAJOR_VERSION 3
#define ROCSHMEM_VENDOR_MINOR_VERSION 4
#define ROCSHMEM_VENDOR_PATCH_VERSION 0
constexpr unsigned ROCSHMEM_INIT_WITH_MPI_COMM = 0;
constexpr unsigned ROCSHMEM_INIT_WITH_UNIQUEID = 1;

#include <shmem/rocshmem_names.hpp>

// Programs ask before init, to choose a GPU by the answer; the launcher's variables have it then.
inline int launched_(const char *const *variables, int up) {
  for (; !up && *variables; variables++)
    if (const char *value = getenv(*variables)) return atoi(value);
  return -1;
}
SHMEM_HD_ inline int rocshmem_my_pe() {
#ifndef __HIP_DEVICE_COMPILE__
  static const char *const ranks[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", nullptr};
  int up = 0;
  shmem_query_initialized(&up);
  const int rank = launched_(ranks, up);
  if (rank >= 0) return rank;
  if (!up && !getenv("PMIX_NAMESPACE")) return 0;
#endif
  return shmem_my_pe();
}
SHMEM_HD_ inline int rocshmem_n_pes() {
#ifndef __HIP_DEVICE_COMPILE__
  static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", nullptr};
  int up = 0;
  shmem_query_initialized(&up);
  const int size = launched_(sizes, up);
  if (size > 0) return size;
  if (!up && !getenv("PMIX_NAMESPACE")) return 1;
#endif
  return shmem_n_pes();
}

inline void rocshmem_init() {
  shmem_init();
}
inline int rocshmem_init_thread(int requested, int *provided) {
  return shmem_init_thread(requested, provided);
}
// With a communicator, of whatever type MPI's header gives it.
template <class Communicator> void rocshmem_init(Communicator comm) {
  if (shmem_compat::init_with_mpi(&comm)) exit(1); // after the line that tells why
}
template <class Communicator>
int rocshmem_init_thread(int requested, int *provided, Communicator comm) {
  const int error = shmem_compat::init_with_mpi(&comm, requested);
  if (!error) shmem_query_thread(provided);
  return error;
}
inline int rocshmem_get_uniqueid(rocshmem_uniqueid_t *id) {
  return shmem_compat::make_id(id->data()) ? ROCSHMEM_ERROR : ROCSHMEM_SUCCESS;
}
inline int rocshmem_set_attr_uniqueid_args(int rank, int n, rocshmem_uniqueid_t *id,
                                           rocshmem_init_attr_t *attr) {
  *attr = {rank, n, *id, nullptr};
  return ROCSHMEM_SUCCESS;
}
inline int rocshmem_init_attr(unsigned flags, rocshmem_init_attr_t *attr) {
  if (flags == ROCSHMEM_INIT_WITH_UNIQUEID)
    return shmem_compat::init_as(attr->rank, attr->nranks, attr->uid.data()) ? ROCSHMEM_ERROR
                                                                             : ROCSHMEM_SUCCESS;
  if (attr && attr->mpi_comm)
    return shmem_compat::init_with_mpi(attr->mpi_comm) ? ROCSHMEM_ERROR : ROCSHMEM_SUCCESS;
  shmem_init();
  return ROCSHMEM_SUCCESS;
}
SHMEM_HD_ inline void rocshmem_query_thread(int *provided) {
#ifdef __HIP_DEVICE_COMPILE__
  *provided = ROCSHMEM_THREAD_MULTIPLE;
#else
  shmem_query_thread(provided);
#endif
}
inline void rocshmem_dump_stats() {}
inline void rocshmem_reset_stats() {}
inline void *rocshmem_malloc(size_t size) {
  return shmem_compat::device_malloc(size);
}
inline void *rocshmem_align(size_t alignment, size_t size) {
  return shmem_compat::device_align(alignment, size);
}
inline void rocshmem_free(void *p) {
  shmem_compat::device_free(p);
}
#if SHMEM_KERNELS_
inline void *rocshmem_calloc(size_t count, size_t size) {
  return count && size ? shmem_compat::device_calloc(count, size) : nullptr;
}
#else
SHMEM_REFUSED_(rocshmem_calloc, "only in sources that a compiler of kernels compiles")
#endif
// Any memory is good for the private side.
inline int rocshmem_buffer_register(void *, size_t) {
  return ROCSHMEM_SUCCESS;
}
inline int rocshmem_buffer_unregister(void *) {
  return ROCSHMEM_SUCCESS;
}
inline void rocshmem_buffer_unregister_all() {}
inline void *rocshmem_buffer_register_symmetric(void *p, size_t bytes) {
  shmem_compat::register_symmetric(p, bytes);
  return p;
}
inline int rocshmem_buffer_unregister_symmetric(void *p) {
  return shmem_compat::unregister_symmetric(p) ? ROCSHMEM_ERROR : ROCSHMEM_SUCCESS;
}
inline int rocshmem_sym_buffer_register(void *p, size_t bytes, int, int, ptrdiff_t) {
  shmem_compat::register_symmetric(p, bytes);
  return ROCSHMEM_SUCCESS;
}
inline int rocshmem_sym_buffer_unregister(void *p) {
  return rocshmem_buffer_unregister_symmetric(p);
}
template <class Module, class Stream = shmemx_stream_t>
int rocshmem_hipmodule_init(Module module, Stream = nullptr) {
  shmemx_module_init(module);
  return 0;
}
inline void rocshmem_vendor_get_version_info(int *major, int *minor, int *patch) {
  *major = SHMEM_VENDOR_MAJOR_VERSION;
  *minor = SHMEM_VENDOR_MINOR_VERSION;
  *patch = SHMEM_VENDOR_PATCH_VERSION;
}

SHMEM_HD_ inline void rocshmem_fence() {
  shmem_fence();
}
SHMEM_HD_ inline void rocshmem_fence(int) {
  shmem_fence();
}
SHMEM_HD_ inline void rocshmem_ctx_fence(rocshmem_ctx_t ctx) {
  shmem_ctx_fence(ctx);
}
SHMEM_HD_ inline void rocshmem_ctx_fence(rocshmem_ctx_t ctx, int) {
  shmem_ctx_fence(ctx);
}
SHMEM_HD_ inline void rocshmem_quiet() {
  shmem_quiet();
}
SHMEM_HD_ inline void rocshmem_quiet(const int *pes, size_t n) {
  shmem_pe_quiet(pes, n);
}
SHMEM_HD_ inline void rocshmem_ctx_quiet(rocshmem_ctx_t ctx) {
  shmem_ctx_quiet(ctx);
}

#if SHMEM_KERNELS_

SHMEM_D_ void rocshmem_wg_init() {}
SHMEM_D_ void rocshmem_wg_init_thread(int, int *provided) {
  *provided = ROCSHMEM_THREAD_MULTIPLE;
}
SHMEM_D_ void rocshmem_wg_finalize() {}
SHMEM_D_ int rocshmem_wg_ctx_create(int64_t, rocshmem_ctx_t *ctx) {
  *ctx = SHMEM_CTX_DEFAULT;
  return ROCSHMEM_SUCCESS;
}
// In kernels a context is whose members are counted, which both handles have in the same bits.
SHMEM_D_ int rocshmem_wg_team_create_ctx(rocshmem_team_t team, long, rocshmem_ctx_t *ctx) {
  *ctx = reinterpret_cast<rocshmem_ctx_t>(team);
  return team == SHMEM_TEAM_INVALID ? ROCSHMEM_ERROR : ROCSHMEM_SUCCESS;
}
SHMEM_D_ void rocshmem_wg_ctx_destroy(rocshmem_ctx_t *) {}
SHMEM_D_ int rocshmem_ctx_my_pe(rocshmem_ctx_t ctx) {
  return shmem::device::team_of(shmem::device::team_id(ctx)).me;
}
SHMEM_D_ int rocshmem_ctx_n_pes(rocshmem_ctx_t ctx) {
  return shmem::device::team_of(shmem::device::team_id(ctx)).n;
}
// A barrier is a quiet before the meeting.
template <int = 0> SHMEM_D_ void rocshmem_ctx_barrier(rocshmem_ctx_t, rocshmem_team_t team) {
  shmem_quiet();
  shmem_team_sync(team);
}
template <int = 0> SHMEM_D_ void rocshmem_ctx_barrier_wave(rocshmem_ctx_t, rocshmem_team_t team) {
  shmem_quiet();
  shmemx_team_sync_wave(team);
}
template <int = 0> SHMEM_D_ void rocshmem_ctx_barrier_wg(rocshmem_ctx_t, rocshmem_team_t team) {
  shmem_quiet();
  shmemx_team_sync_wg(team);
}
SHMEM_D_ uint64_t rocshmem_signal_fetch_wave(const uint64_t *sig) {
  return shmem_signal_fetch(sig);
}
SHMEM_D_ uint64_t rocshmem_signal_fetch_wg(const uint64_t *sig) {
  return shmem_signal_fetch(sig);
}

#endif
} // namespace rocshmem
