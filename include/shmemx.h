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

/* What a stream of the GPU does, in its order: shmemx_..._on_stream, with the arguments of the routine
 * that they are named after and a stream, HIP's hipStream_t by another name. A call returns at once, and a
 * graph may hold it. Symmetric objects are on the device heap; other memory is any that the GPU reaches.
 *
 * shmemx_tune replaces the table that chooses the algorithms of collectives on streams by rows as in a
 * SHMEM_TUNE_FILE, and what they do not cover by the built-in one; NULL: by that alone. All PEs call it,
 * with the same text, while none has a collective on a stream. Nonzero when the text is wrong. */
#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif
#include <shmem/stream.h>
int shmemx_tune(const char *text);
#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
