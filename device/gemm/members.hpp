// SPDX-License-Identifier: MIT
// How kernels of the PEs that share a product wait for each other.
#pragma once
#include <hip/hip_runtime.h>

#include "../scope.hpp"
#include "matmul.hpp"

namespace shmem::gemm {

// Of the call that runs.
SHMEM_D_ uint64_t epoch_of(const Members &members) {
  return members.own->epoch + 1;
}
template <class T> SHMEM_D_ T *at(const Members &members, T *here, int i) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(here) +
                               uintptr_t(members.own->delta[i]));
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

// Where members wait for each other: one workgroup, so that it keeps nobody from a compute unit.
// The kernels that fill the GPU never wait: those of two calls on two streams could stop each other
// for good. What came before in the stream is complete. `back`: for the flags of so many calls
// before.
struct Meeting {
  Flags Signals::*tell, Signals::*wait;
  uint64_t back;
};
SHMEM_D_ void meet_members(const Members &members, const Meeting &first, const Meeting &second,
                           bool over) {
  const uint64_t epoch = epoch_of(members);
  for (const Meeting &m : {first, second}) {
    if (m.tell) tell(members, m.tell, epoch, threadIdx.x);
    if (m.wait && epoch > m.back)
      wait_all(members, members.own->*m.wait, epoch - m.back, Workgroup{});
  }
  arch::wg_sync();
  if (!over) return;
  if (threadIdx.x == 0)
    members.own->epoch = epoch,
    members.own->call.begun = members.own->call.ticket = members.own->call.ended = 0;
  for (unsigned i = threadIdx.x; i < max_workers; i += blockDim.x)
    members.own->call.progress[i] = 0;
}
template <int = 0> __global__ void meet(Members members, Meeting first, Meeting second, bool over) {
  meet_members(members, first, second, over);
}
inline constexpr Meeting no_meeting{}, all_entered{&Signals::entered, &Signals::entered, 0},
    all_arrived{&Signals::arrived, &Signals::arrived, 0},
    all_gathered{&Signals::gathered, &Signals::gathered, 0},
    all_consumed{&Signals::consumed, nullptr, 0};
// What this PE sent has been used up: in the last call; at the end of a call, so that the one after
// the next or that the next may send to where this one did.
inline constexpr Meeting one_box{nullptr, &Signals::consumed, 1},
    two_boxes{&Signals::consumed, &Signals::consumed, 1},
    same_box{&Signals::consumed, &Signals::consumed, 0};

inline void launch_meet(const Members &members, hipStream_t stream, const Meeting &first,
                        const Meeting &second = no_meeting, bool over = false) {
  hipLaunchKernelGGL(meet<>, dim3(1), dim3(64), 0, stream, members, first, second, over);
}

} // namespace shmem::gemm
