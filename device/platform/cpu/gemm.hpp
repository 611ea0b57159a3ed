// SPDX-License-Identifier: MIT
// Plain loops: not every x86-64 has matrix instructions. A block is 16 fibers on one thread, of
// four rows each, which the compiler turns into vectors along the columns.
#pragma once
#include "../../gemm/gemm.hpp"
#include "../../gemm/simt.hpp"

#define SHMEM_GRID_CONSTANT_

namespace shmem::gemm {

template <class T, class Run> hipError_t choose(const Matrices<T> &x, Run run) {
  return run(Simt<T, 64, 64, 64, 4, 64>{}, x);
}

} // namespace shmem::gemm
