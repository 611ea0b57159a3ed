// SPDX-License-Identifier: MIT
// The PEs that share a product, and the flags by which their kernels know of each other. A flag is
// an epoch, the number of the call; it only grows. Epochs are counted here, on the device, so that
// the same launches can be replayed from a graph.
#pragma once
#include "../scope.hpp"
#include <cstddef>

namespace shmem::gemm {

inline constexpr int max_members = 8;

// Each in lines of its own: a peer stores it, this PE polls it.
struct alignas(128) Flag {
  uint64_t epoch;
};
// On each PE, at the same place. Member i writes the i-th of each at all others.
struct Signals {
  Flag entered[max_members]; // its stream has come to the call: what the call writes may be written
  Flag arrived[max_members]; // all that it sends to this PE is here
  Flag gathered[max_members];  // so is all that follows the reduction
  Flag consumed[max_members];  // it has no more use for what this PE sent
  alignas(128) uint64_t epoch; // of the last call that is over here
  uint32_t left;               // workgroups that have left a kernel
};

struct Members {
  int me, n;
  Signals *own;
  ptrdiff_t delta[max_members]; // from an object here to that of member i

  SHMEM_D_ uint64_t epoch() const { return own->epoch + 1; }
  template <class T> SHMEM_D_ T *at(T *here, int i) const {
    return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(here) + uintptr_t(delta[i]));
  }
  // By the first n threads of a workgroup, after all stores that the flag stands for are complete
  // and known to these threads.
  SHMEM_D_ void tell(Flag (Signals::*flags)[max_members], uint64_t epoch, unsigned rank) const {
    if (rank >= unsigned(n)) return;
    arch::fence_release(); // orders the data before the flag
    arch::store(at(&(own->*flags)[me].epoch, int(rank)), epoch);
  }
  // Until all members have told at least epoch.
  template <class Scope>
  SHMEM_D_ void wait(const Flag (&flags)[max_members], uint64_t epoch, Scope scope) const {
    for (unsigned i = scope.rank(); i < unsigned(n); i += scope.size()) wait_one(flags[i], epoch);
    scope.sync();
  }
  static SHMEM_D_ void wait_one(const Flag &flag, uint64_t epoch) {
    while (arch::poll(&flag.epoch) < epoch) arch::pause();
    arch::polled();
  }
  // True for the threads of the workgroup that leaves last, when the stores of all are complete.
  SHMEM_D_ bool last() const {
    __shared__ uint32_t before;
    arch::wait_stores();
    arch::wg_sync();
    if (threadIdx.x == 0) {
      before = arch::fetch_add<Order::acq_rel>(&own->left, 1u);
      if (before + 1 == gridDim.x) arch::store(&own->left, 0u);
    }
    arch::wg_sync();
    return before + 1 == gridDim.x;
  }
};

} // namespace shmem::gemm
