/* SPDX-License-Identifier: MIT
 * Deprecated place of <shmem.h>, since 1.1. */
#ifndef MPP_SHMEM_H
#define MPP_SHMEM_H
#include <shmem.h>
#endif
