/* SPDX-License-Identifier: MIT
 * Any compiler compiles kernels here. SHMEM_HD_ is before functions that both host and kernels run,
 * SHMEM_D_ before those of kernels. */
#pragma once
#define SHMEM_KERNELS_ 1
#define SHMEM_HD_
#define SHMEM_D_ inline
