/* SPDX-License-Identifier: MIT
 * What reads a source: a compiler of kernels (SHMEM_KERNELS_ is 1) or one of the host alone.
 * SHMEM_HD_ is before functions that both host and kernels run, SHMEM_D_ before those of kernels. */
#pragma once
#ifdef __HIPCC__
#define SHMEM_KERNELS_ 1
#define SHMEM_HD_ __host__ __device__
#define SHMEM_D_ __device__ inline __attribute__((always_inline))
#else
#define SHMEM_KERNELS_ 0
#define SHMEM_HD_
#define SHMEM_D_ inline
#endif
