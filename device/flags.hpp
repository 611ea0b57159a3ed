// SPDX-License-Identifier: MIT
// How the kernels of several PEs wait for each other. A flag is an epoch that a member stores at
// another one, and only grows.
#pragma once
#include "ring.hpp"

namespace shmem::device {

// The two functions below take the members of a team, or those of a product (gemm/members.hpp):
// each has n, me, pe_of, and flag_at, which gives the address here of a flag at a member.
template <class T> SHMEM_D_ T *flag_at(const Team &t, T *p, int member) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) + state.flag_delta[pe_of(t, member)]);
}

// Whether some members may not be mapped. Without the ring, compilers know that all are.
SHMEM_D_ bool may_be_remote(const Team &t) {
  return ring_built && t.has_remote;
}
template <class Members> SHMEM_D_ bool may_be_remote(const Members &) {
  return ring_built;
}
// A team whose members are all mapped, which the host has checked: compilers leave out the code for
// others. Without the ring this is the team itself, since a copy costs scalar registers (clang 19).
SHMEM_D_ decltype(auto) mapped(const Team &t) {
  if constexpr (ring_built) {
    [[maybe_unused]] Team all = t;
    all.has_remote = false;
    return all;
  } else {
    return (t);
  }
}

// The threads of a scope store this member's flag, which is at `mine` here, at each of the others.
// The caller has released what the flag stands for.
template <class Members, class Scope>
SHMEM_D_ void set_flags([[maybe_unused]] const char *fn, const Members &members, uint64_t *mine,
                        uint64_t epoch, Scope scope) {
  const int size = int(anew(scope, scope.size()));
  for (int i = int(scope.rank()); i < members.n; i += size) {
    if (i == members.me) continue;
    if (may_be_remote(members) && is_remote(pe_of(members, i))) {
      if constexpr (std::is_same_v<Members, Team>) {
        ring::set_flags(fn, mine, {epoch}, pe_of(members, i));
      } else { // a product's are on the heap, and no fence comes before them
        ring::quiet(fn);
        ring::update(fn, Amo::set, mine, pe_of(members, i), epoch);
      }
      continue;
    }
    arch::store(flag_at(members, mine, i), epoch);
  }
}
// Waits until flag(i) of each of the others is at least epoch. The caller then calls arch::polled
// before it loads what they stored.
template <class Members, class Scope, class Flag>
SHMEM_D_ void wait_flags(const char *fn, const Members &members, uint64_t epoch, Scope scope,
                         Flag flag) {
  const int size = int(anew(scope, scope.size()));
  for (int i = int(scope.rank()); i < members.n; i += size) {
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
