// SPDX-License-Identifier: MIT
// How the kernels of several PEs wait for each other. A flag is an epoch that a member stores at
// another one, and only grows. The loop by which every wait of the device polls is here, too.
#pragma once
#include "address.hpp"
#include "scope.hpp"

namespace shmem::device {

// Counts polls against SHMEM_WAIT_LIMIT. The clock is read every 256th time.
struct Patience {
  uint64_t end = 0;
  uint32_t polls = 0;
  SHMEM_D_ bool over() {
    if (!state.wait_limit || ++polls % 256) return false;
    const uint64_t now = arch::clock();
    if (!end) end = now + state.wait_limit;
    return now >= end;
  }
};
// Polls until done() is true. late() reports that it took too long, and does not return.
template <class Done, class Late> SHMEM_D_ void poll_until(Done done, Late late) {
  Patience patience;
  while (!done()) {
    if (patience.over()) late();
    arch::pause();
  }
}

// The two functions below take the members of a team, or those of a product (gemm/members.hpp):
// each has n, me, pe_of, and flag_at, which gives the address here of a flag at a member.
SHMEM_D_ int pe_of(const Team &t, int member) {
  return t.start + member * t.stride;
}
template <class T> SHMEM_D_ T *flag_at(const Team &t, T *p, int member) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) + state.flag_delta[pe_of(t, member)]);
}

// The threads of a scope store this member's flag, which is at `mine` here, at each of the others.
// The caller has released what the flag stands for.
template <class Members, class Scope>
SHMEM_D_ void set_flags(const Members &members, uint64_t *mine, uint64_t epoch, Scope scope) {
  for (int i = int(scope.rank()); i < members.n; i += int(scope.size()))
    if (i != members.me) arch::store(flag_at(members, mine, i), epoch);
}
// Waits until flag(i) of each of the others is at least epoch. The caller then calls arch::polled
// before it loads what they stored.
template <class Members, class Scope, class Flag>
SHMEM_D_ void wait_flags(const char *fn, const Members &members, uint64_t epoch, Scope scope,
                         Flag flag) {
  for (int i = int(scope.rank()); i < members.n; i += int(scope.size())) {
    if (i == members.me) continue;
    const uint64_t *from = flag(i);
    poll_until([&] { return arch::poll(from) >= epoch; },
               [&] {
                 fail(Report::wait_limit, fn, "team", from, sizeof *from, alignof(uint64_t),
                      pe_of(members, i), SHMEM_CMP_GE, epoch, arch::load(from));
               });
  }
}

} // namespace shmem::device
