/* SPDX-License-Identifier: MIT
 * Deprecated place of <shmemx.h>, since 1.1. */
#ifndef MPP_SHMEMX_H
#define MPP_SHMEMX_H
#include <shmemx.h>
#endif
