/* SPDX-License-Identifier: MIT
 * Extensions of this library. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

/* Hints for shmem_malloc_with_hints: which of the symmetric heaps. Without one, SHMEM_HEAP decides.
 * The host's routines take objects on either, in any mixture; kernels those in device memory. NULL
 * where there is no GPU. */
#define SHMEMX_MALLOC_DEVICE (1L << 16)
#define SHMEMX_MALLOC_HOST (1L << 17)

#endif
