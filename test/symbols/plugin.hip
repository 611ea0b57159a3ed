// SPDX-License-Identifier: MIT
// A module of device code in a library of its own.
#include <shmem/device/shmem.hpp>

__global__ void plugin(int *out) {
  *out = shmem_my_pe();
}
