/* SPDX-License-Identifier: MIT
 * Extensions of this library. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

/* Hints for shmem_malloc_with_hints: which of the symmetric heaps. Without one, SHMEM_HEAP decides.
 */
#define SHMEMX_MALLOC_DEVICE (1L << 16)
#define SHMEMX_MALLOC_HOST (1L << 17)

#endif
