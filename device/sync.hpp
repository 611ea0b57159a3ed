// SPDX-License-Identifier: MIT
// Barriers of a team, by the threads of one scope of each member. Each member tells its epoch to
// all others, so a barrier takes as long as one store whatever the number of members, as long as a
// scope has a thread for each. A put is a store, so a sync, which has to make this PE's own stores
// visible, is a barrier too.
#pragma once
#include "order.hpp"
#include "wait.hpp"

namespace shmem::device {

// Epochs only grow. The next barrier of the team may run in another workgroup or kernel, which the
// caller has ordered after this one.
template <class Scope> SHMEM_D_ void meet(const char *fn, unsigned id, Scope scope) {
  const Team t = team_of(id);
  arch::wait_stores();
  // Orders all threads' stores so far, and the epoch of the last barrier, before what follows.
  scope.sync();
  // The epoch is read before the release, so that this load and the release's wait overlap.
  const uint64_t epoch = arch::load<Order::relaxed, Range::device>(state.epoch + id) + 1;
  const size_t row = size_t(id) * unsigned(state.n);
  // Only threads that have a peer go on: fences by all 1024 threads of a workgroup cost 0.6 us more
  // (H200, 2026-11).
  if (scope.rank() < unsigned(t.n)) {
    arch::fence_release(); // what this PE stored before, before its epoch at the others
    if constexpr (ring_built) ring::fence(fn);
    set_flags(fn, t, state.arrived + row + t.me, epoch, scope);
    wait_flags(fn, t, epoch, scope, [&](int i) { return state.arrived + row + i; });
    arch::polled(); // the epochs of the others, before what they stored before
  }
  scope.sync();
  if (scope.rank() == 0) arch::store<Order::relaxed, Range::device>(state.epoch + id, epoch);
}

template <class Scope> SHMEM_D_ void barrier_all(const char *fn, Scope scope) {
  meet(fn, 0, scope);
}
template <class Scope> SHMEM_D_ int team_sync(const char *fn, shmem_team_t team, Scope scope) {
  if (team == SHMEM_TEAM_INVALID) return -1;
  meet(fn, team_id(team), scope);
  return 0;
}

} // namespace shmem::device
