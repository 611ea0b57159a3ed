/* SPDX-License-Identifier: MIT
 * The profiling interface: pshmem_x is the definition of each routine x, and shmem_x a weak alias
 * of it, so that a tool defines shmem_x and calls pshmem_x. The library calls neither of the two
 * itself. */
#ifndef PSHMEM_H
#define PSHMEM_H

#include <shmem.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif
#include <shmem/pshmem_prototypes.h>
#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
