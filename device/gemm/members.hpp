// SPDX-License-Identifier: MIT
// How kernels of the PEs that share a product wait for each other.
#pragma once
#include <hip/hip_runtime.h>

#include "../scope.hpp"
#include "matmul.hpp"

namespace shmem::gemm {

// Of the call that runs.
SHMEM_D_ uint64_t epoch_of(const Members &members) {
  return arch::load_global(&members.own->epoch) + 1;
}
template <class T> SHMEM_D_ T *at(const Members &members, T *here, int i) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(here) +
                               uintptr_t(arch::load_global(&members.own->delta[i])));
}
// By the first n threads of a workgroup, after all stores that the flag stands for are complete
// and known to these threads.
SHMEM_D_ void tell(const Members &members, Flags Signals::*flags, uint64_t epoch, unsigned rank) {
  if (rank >= unsigned(members.n)) return;
  arch::fence_release(); // orders the data before the flag
  arch::store(at(members, &(members.own->*flags).of[members.me].epoch, int(rank)), epoch);
}
template <class T> SHMEM_D_ void wait_until(const T &flag, T value) {
  while (arch::poll(&flag) < value) arch::pause();
  arch::polled();
}
// Until all members have told at least epoch.
template <class Scope>
SHMEM_D_ void wait_all(const Members &members, const Flags &flags, uint64_t epoch, Scope scope) {
  for (unsigned i = scope.rank(); i < unsigned(members.n); i += scope.size())
    wait_until(flags.of[i].epoch, epoch);
  scope.sync();
}

} // namespace shmem::gemm
