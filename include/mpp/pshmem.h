/* SPDX-License-Identifier: MIT
 * Deprecated place of <pshmem.h>, since 1.1. */
#ifndef MPP_PSHMEM_H
#define MPP_PSHMEM_H
#include <pshmem.h>
#endif
