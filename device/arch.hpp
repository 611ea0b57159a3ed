// SPDX-License-Identifier: MIT
// What differs between the compilers of host and device code; with device/platform/ the only place that asks.
#pragma once

// For functions that both run.
#if defined __HIPCC__ || defined __CUDACC__
#define SHMEM_HD_ __host__ __device__
#else
#define SHMEM_HD_
#endif
