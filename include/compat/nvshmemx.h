// SPDX-License-Identifier: MIT
// NVSHMEM's extensions, see nvshmem.h.
#pragma once
#include "non_abi/nvshmemx_error.h"
#include "nvshmem.h"
#include <sys/random.h>

// How a program starts that has MPI or a channel of its own.
#define NVSHMEMX_INIT_THREAD_PES 1
#define NVSHMEMX_INIT_WITH_MPI_COMM (1 << 1)
#define NVSHMEMX_INIT_WITH_SHMEM (1 << 2)
#define NVSHMEMX_INIT_WITH_UNIQUEID (1 << 3)
#define NVSHMEMX_INIT_MAX INT_MAX
// The last three say how GPUs are shared there, and are never told here.
typedef enum {
  NVSHMEM_STATUS_NOT_INITIALIZED = 0,
  NVSHMEM_STATUS_IS_BOOTSTRAPPED = 1,
  NVSHMEM_STATUS_IS_INITIALIZED = 2,
  NVSHMEM_STATUS_LIMITED_MPG = 3,
  NVSHMEM_STATUS_FULL_MPG = 4,
  NVSHMEM_STATUS_INVALID = INT_MAX
} nvshmemx_init_status_t;
// Routines that take a queue pair are refused; its type is a member of some sources' structures.
typedef int32_t nvshmemx_qp_handle_t;
typedef enum {
  NVSHMEMX_QP_HOST = 0,
  NVSHMEMX_QP_DEFAULT = 1,
  NVSHMEMX_QP_ANY = INT_MAX,
  NVSHMEMX_QP_ALL = INT_MAX
} nvshmemx_qp_handle_index_t;

typedef struct {
  char internal[128];
} nvshmemx_uniqueid_t;
typedef nvshmemx_uniqueid_t nvshmemx_uniqueid_v1;
typedef struct {
  nvshmemx_uniqueid_t *id;
  int myrank, nranks;
} nvshmemx_uniqueid_args_t;
typedef nvshmemx_uniqueid_args_t nvshmemx_uniqueid_args_v1;
typedef struct {
  nvshmemx_uniqueid_args_t uid_args;
  int cuda_device_id; // -1: as SHMEM_DEVICE says
} nvshmemx_init_args_t;
typedef nvshmemx_init_args_t nvshmemx_init_args_v1;
typedef struct {
  int version;
  void *mpi_comm;
  nvshmemx_init_args_t args;
} nvshmemx_init_attr_t;
typedef nvshmemx_init_attr_t nvshmemx_init_attr_v1;
#define NVSHMEMX_UNIQUEID_INITIALIZER                                                              \
  {                                                                                                \
    { 0 }                                                                                          \
  }
#define NVSHMEMX_UNIQUEID_ARGS_INITIALIZER                                                         \
  { 0, 0, 0 }
#define NVSHMEMX_INIT_ATTR_INITIALIZER                                                             \
  {                                                                                                \
    0, 0, {                                                                                        \
      {0, 0, 0}, -1                                                                                \
    }                                                                                              \
  }

// A team whose members know its id and their numbers in it, and not the other members: its `npes`
// members call, on one node.
extern "C" int shmemx_team_join(uint64_t uniqueid, int n, int me, const shmem_team_config_t *config,
                                long mask, shmem_team_t *team);
inline int nvshmemx_team_get_uniqueid(nvshmemx_team_uniqueid_t *id) {
  return getrandom(id, sizeof *id, 0) == ssize_t(sizeof *id) ? 0 : -1;
}
inline int nvshmemx_team_init(nvshmem_team_t *team, nvshmem_team_config_t *config, long mask,
                              int npes, int me) {
  if (!config) return NVSHMEMX_ERROR_INVALID_VALUE; // it has the id
  shmem_team_t made;
  const int error = shmemx_team_join(config->uniqueid, npes, me, shmem_compat::Config(config).get(),
                                     mask & SHMEM_TEAM_NUM_CONTEXTS, &made);
  *team = shmem_compat::number_of(made);
  return error;
}
inline int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t *id) {
  return shmem_compat::make_id(id);
}
inline int nvshmemx_set_attr_uniqueid_args(int rank, int n, const nvshmemx_uniqueid_t *id,
                                           nvshmemx_init_attr_t *attr) {
  attr->args.uid_args = {const_cast<nvshmemx_uniqueid_t *>(id), rank, n};
  return 0;
}
inline int nvshmemx_set_attr_mpi_comm_args(void *comm, nvshmemx_init_attr_t *attr) {
  attr->mpi_comm = comm;
  return 0;
}
inline int nvshmemx_init_attr(unsigned flags, nvshmemx_init_attr_t *attr) {
  if (flags & NVSHMEMX_INIT_WITH_UNIQUEID && attr)
    return shmem_compat::init_as(attr->args.uid_args.myrank, attr->args.uid_args.nranks,
                                 attr->args.uid_args.id, attr->args.cuda_device_id);
  if (flags & NVSHMEMX_INIT_WITH_MPI_COMM && attr && attr->mpi_comm)
    return shmem_compat::init_with_mpi(attr->mpi_comm);
  shmem_init();
  return 0;
}
inline int nvshmemx_hostlib_init_attr(unsigned flags, nvshmemx_init_attr_t *attr) {
  return nvshmemx_init_attr(flags, attr);
}
inline void nvshmemx_hostlib_finalize() {
  shmem_finalize();
}
inline int nvshmemx_init_status() {
  int initialized = 0;
  shmem_query_initialized(&initialized);
  return initialized ? NVSHMEM_STATUS_IS_INITIALIZED : NVSHMEM_STATUS_NOT_INITIALIZED;
}

// A module of this program's objects tells the library of itself; one that is loaded at run time is
// linked with the bitcode, and does not.
template <class Module> int nvshmemx_cumodule_init(Module module) {
  shmemx_module_init(module);
  return 0;
}
template <class Module> int nvshmemx_cumodule_finalize(Module) {
  return 0;
}
// Any memory is good for the private side.
inline int nvshmemx_buffer_register(void *, size_t) {
  return 0;
}
inline int nvshmemx_buffer_unregister(void *) {
  return 0;
}
inline void nvshmemx_buffer_unregister_all() {}

inline void *nvshmemx_buffer_register_symmetric(void *p, size_t bytes, int) {
  shmem_compat::register_symmetric(p, bytes);
  return p;
}
inline void *nvshmemx_buffer_register_symmetric_at_preferred_address(void *p, size_t bytes, void *,
                                                                     int flags) {
  return nvshmemx_buffer_register_symmetric(p, bytes, flags);
}
inline int nvshmemx_buffer_unregister_symmetric(void *p, size_t) {
  return shmem_compat::unregister_symmetric(p);
}

// A region is a hint that several transfers belong together.
typedef uint64_t nvshmemx_region_handle_t;
enum { NVSHMEMX_REGION_HINT_NONE = 0, NVSHMEMX_REGION_HINT_BATCH_RMA = 1 };
typedef struct {
  uint32_t hints;
  char reserved[60];
} nvshmemx_region_attrs_t;
#define NVSHMEMX_REGION_ATTRS_INITIALIZER                                                          \
  {                                                                                                \
    NVSHMEMX_REGION_HINT_NONE, {                                                                   \
      0                                                                                            \
    }                                                                                              \
  }
inline int nvshmemx_region_start(nvshmemx_region_handle_t *handle,
                                 const nvshmemx_region_attrs_t *) {
  *handle = 0;
  return 0;
}
inline int nvshmemx_region_stop(nvshmemx_region_handle_t) {
  return 0;
}
SHMEM_HD_ inline int nvshmemx_region_is_active(uint32_t, int *active) {
  *active = 0;
  return 0;
}

// Transfers need none of a kernel's shared memory.
typedef enum {
  NVSHMEMX_SMEM_RECOMMENDED,
  NVSHMEMX_SMEM_MINIMUM,
  NVSHMEMX_SMEM_BARRIERS_ONLY
} nvshmemx_smem_amount_t;
SHMEM_HD_ inline int nvshmemx_ask_smem(nvshmemx_smem_amount_t) {
  return 0;
}

SHMEM_HD_ inline void nvshmemx_signal_counted_reset(uint64_t *sig) {
  *static_cast<volatile uint64_t *>(sig) = 0;
}

SHMEM_HD_ inline void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch) {
  *major = SHMEM_VENDOR_MAJOR_VERSION;
  *minor = SHMEM_VENDOR_MINOR_VERSION;
  *patch = SHMEM_VENDOR_PATCH_VERSION;
}

SHMEM_HD_ inline void nvshmemx_signal_op(uint64_t *sig, uint64_t signal, int op, int pe) {
  if (op == NVSHMEM_SIGNAL_ADD)
    shmem_signal_add(sig, signal, pe);
  else
    shmem_signal_set(sig, signal, pe);
}
inline void nvshmemx_signal_op_on_stream(uint64_t *sig, uint64_t signal, int op, int pe,
                                         shmemx_stream_t stream) {
  if (op == NVSHMEM_SIGNAL_ADD)
    shmemx_signal_add_on_stream(sig, signal, pe, stream);
  else
    shmemx_signal_set_on_stream(sig, signal, pe, stream);
}
inline int nvshmemx_barrier_on_stream(nvshmem_team_t team, shmemx_stream_t stream) {
  shmemx_quiet_on_stream(stream);
  return shmemx_team_sync_on_stream(shmem_compat::team_of(team), stream);
}

#if SHMEM_KERNELS_

SHMEM_D_ int nvshmemx_region_start_block(nvshmemx_region_handle_t *handle,
                                         const nvshmemx_region_attrs_t *) {
  *handle = 0;
  return 0;
}
SHMEM_D_ int nvshmemx_region_stop_block(nvshmemx_region_handle_t) {
  return 0;
}
SHMEM_D_ void nvshmemx_give_smem(void *, size_t) {}
SHMEM_D_ void nvshmemx_release_smem() {}
SHMEM_D_ void nvshmemx_flush_warp() {
  shmem_quiet();
}
SHMEM_D_ void nvshmemx_flush_block() {
  shmem_quiet();
}
template <int = 0> SHMEM_D_ int nvshmemx_barrier_warp(nvshmem_team_t team) {
  shmem_quiet();
  return shmemx_team_sync_wave(shmem_compat::team_of(team));
}
template <int = 0> SHMEM_D_ int nvshmemx_barrier_block(nvshmem_team_t team) {
  shmem_quiet();
  return shmemx_team_sync_wg(shmem_compat::team_of(team));
}

// The most blocks that the GPU holds at once.
template <class Kernel>
int nvshmemx_collective_launch_query_gridsize(Kernel *kernel, dim3 block, void **, size_t shared,
                                              int *blocks) {
  int device = 0, units = 0, each = 0;
  hipError_t error = hipGetDevice(&device);
  if (error == hipSuccess)
    error = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
  if (error == hipSuccess)
    error = hipOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel,
                                                         int(block.x * block.y * block.z), shared);
  *blocks = units * each;
  return error == hipSuccess ? 0 : 1;
}
// A grid of 0 blocks is as many as the GPU holds. Without cooperative launches, a grid that the GPU
// holds at once does the same.
template <class Kernel>
int nvshmemx_collective_launch(Kernel *kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, hipStream_t stream) {
  int most = 0, device = 0, cooperative = 0;
  if (nvshmemx_collective_launch_query_gridsize(kernel, block, arguments, shared, &most)) return 1;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) grid = dim3(unsigned(most));
  if (size_t(grid.x) * grid.y * grid.z > size_t(most) || hipGetDevice(&device) != hipSuccess ||
      hipDeviceGetAttribute(&cooperative, hipDeviceAttributeCooperativeLaunch, device) !=
          hipSuccess)
    return 1;
  return (cooperative
              ? hipLaunchCooperativeKernel(kernel, grid, block, arguments, unsigned(shared), stream)
              : hipLaunchKernel(shmem::arch::launchable(kernel), grid, block, arguments, shared,
                                stream)) != hipSuccess;
}

#endif
