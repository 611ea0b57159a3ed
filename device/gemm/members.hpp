// SPDX-License-Identifier: MIT
// How the kernels of PEs that share a product wait for each other.
#pragma once
#include <hip/hip_runtime.h>

#include "../flags.hpp"
#include "matmul.hpp"

namespace shmem::gemm {

// The number of the running call.
SHMEM_D_ uint64_t epoch_of(const Members &members) {
  return arch::load_global(&members.own->epoch) + 1;
}
template <class T> SHMEM_D_ T *at(const uintptr_t (&delta)[max_members], T *here, int i) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(here) + arch::load_global(&delta[i]));
}
// The address at member i of an object of the workspace, which is on the heap; and of one in the
// running call's C.
template <class T> SHMEM_D_ T *at(const Members &members, T *here, int i) {
  return at(members.own->delta, here, i);
}
template <class T> SHMEM_D_ T *at_c(const Members &members, T *here, int i) {
  return at(members.own->c_delta, here, i);
}
// See flags.hpp.
SHMEM_D_ int pe_of(const Members &members, int i) {
  return arch::load_global(&members.own->pe[i]);
}
template <class T> SHMEM_D_ T *flag_at(const Members &members, T *here, int i) {
  return at(members, here, i);
}
// Called by a scope of at least n threads, after all stores that the flag stands for are complete
// and known to these threads.
template <class Scope>
SHMEM_D_ void tell(const Members &members, Flags Signals::*flags, uint64_t epoch, Scope scope) {
  if (scope.rank() >= unsigned(members.n)) return;
  arch::fence_release(); // orders the data before the flag
  device::set_flags("a product of several PEs", members,
                    &(members.own->*flags).of[members.me].epoch, epoch, scope);
}
// Waits until all members have told at least epoch.
template <class Scope>
SHMEM_D_ void wait_all(const Members &members, const Flags &flags, uint64_t epoch, Scope scope) {
  if (scope.rank() < unsigned(members.n)) {
    device::wait_flags("a product of several PEs", members, epoch, scope,
                       [&](int i) { return &flags.of[i].epoch; });
    arch::polled();
  }
  scope.sync();
}
// Waits for a workgroup of this kernel, which itself waits for no other, so there is no limit.
SHMEM_D_ void wait_until(const unsigned &count, unsigned value) {
  while (arch::poll(&count) < value) arch::pause();
  arch::polled();
}

} // namespace shmem::gemm
