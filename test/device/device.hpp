// SPDX-License-Identifier: MIT
// Shared by the tests of kernels. They run unchanged on every platform.
#ifndef TEST_DEVICE_HPP
#define TEST_DEVICE_HPP

#include "objects.hpp"
#include <shmem/device/shmem.hpp>

#include "../stream.hpp" // the last: CMocka has a macro fail

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define NAME(x) CAT(x, ID)

// Device memory of the heap, the same on all PEs, filled with a byte; see object_alloc.
void *device_alloc(size_t bytes, int fill, bool atomics = false);

// Ticks of the clock of kernels.
uint64_t wall_clock_ticks(double seconds);

// Waits for all launches, and for all PEs.
void finish_all(void);

#endif
