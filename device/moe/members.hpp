// SPDX-License-Identifier: MIT
// How the kernels of the members wait for each other, and how many workgroups they have.
#pragma once
#include "moe.hpp"
#include <hip/hip_runtime.h>

#include "../launch.hpp"
#include "../module.hpp"
#include "../poll.hpp"
#include "../scope.hpp"

namespace shmem::moe {

inline constexpr unsigned most_tokens = 8; // of a batch

template <class T> SHMEM_D_ T *at(const Moe &moe, T *here, int member) {
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(here) +
                               arch::load_global(&moe.signals->delta[member]));
}

// The members that take part, or none if this one does not.
SHMEM_D_ uint64_t members_of(const Moe &moe) {
  const uint64_t members = arch::load_global(&moe.signals->members);
  return members >> moe.me & 1 ? members : 0;
}
SHMEM_D_ bool is_in(uint64_t members, int i) {
  return members >> i & 1;
}
SHMEM_D_ uint64_t epoch_of(const Moe &moe) {
  return arch::load_global(&moe.signals->epoch) + 1;
}

using EpochLines = EpochLine (MoeSignals::*)[max_members];
// Called by a workgroup of at least a wave, after a fence that orders what the flag stands for.
SHMEM_D_ void tell(const Moe &moe, EpochLines lines, uint64_t epoch, uint64_t members) {
  for (int i = int(Workgroup{}.rank()); i < moe.n; i += int(Workgroup{}.size()))
    if (i != moe.me && is_in(members, i))
      arch::store(&(at(moe, moe.signals, i)->*lines)[moe.me].epoch, epoch);
}
SHMEM_D_ void wait_all(const char *fn, const Moe &moe, EpochLines lines, uint64_t epoch,
                       uint64_t members) {
  for (int i = int(Workgroup{}.rank()); i < moe.n; i += int(Workgroup{}.size())) {
    if (i == moe.me || !is_in(members, i)) continue;
    const uint64_t *from = &(moe.signals->*lines)[i].epoch;
    device::poll_until([&] { return arch::poll(from) >= epoch; },
                       [&] {
                         device::fail(device::Report::wait_limit, fn, "moe", from, sizeof *from,
                                      alignof(uint64_t), arch::load_global(&moe.signals->pe[i]),
                                      SHMEM_CMP_GE, epoch, arch::load(from));
                       });
  }
  arch::polled(); // what the others stored before
  Workgroup{}.sync();
}

// Whether this workgroup is the last of its kernel. Then it sees what the others have stored.
SHMEM_D_ bool is_last(const Moe &moe, unsigned &seen) {
  const Workgroup scope;
  device::settle(scope);
  if (arch::blocks().x == 1) return true;
  if (scope.rank() == 0) {
    arch::fence_release(); // orders what this workgroup loaded and stored before the count
    seen = arch::fetch_add<Order::acq_rel, Range::device>(&moe.signals->count, 1u);
  }
  scope.sync();
  if (seen != arch::blocks().x - 1) return false;
  arch::fence_acquire();
  if (scope.rank() == 0) arch::store_global(&moe.signals->count, 0u);
  return true;
}
// One workgroup ends the call, after a fence as for tell.
SHMEM_D_ void meet(const char *fn, const Moe &moe, uint64_t epoch, uint64_t members) {
  tell(moe, &MoeSignals::ended, epoch, members);
  wait_all(fn, moe, &MoeSignals::ended, epoch, members);
  if (Workgroup{}.rank() == 0) arch::store_global(&moe.signals->epoch, epoch);
}

// A call of few tokens is one kernel, whose workgroups wait for the other PEs and are all resident
// at once. Of more tokens, kernels of one workgroup wait, and the kernel between them that moves
// data waits for no PE and fills the GPU: 64 workgroups of 512 threads do not fill a link (dispatch
// of 4096 tokens took 1.6 times as long as plain stores by 128 workgroups), and a kernel more costs
// 0.9 us (H100, 2026-11-27).
inline constexpr unsigned most_words = 2048; // of the routing of few tokens, see Moe::has
inline bool is_few(const Moe &moe, unsigned n) {
  return n <= 4 * chunk && n * unsigned(moe.top_k) <= chunk * max_top_k &&
         (n + chunk - 1) / chunk * moe.columns <= most_words;
}
// Tokens of a batch: no more than keep all workgroups at work, and a power of two, so that a batch
// lies in one chunk. Where workgroups do not wait, batches are small: one workgroup looks up its
// next rows while another one moves data.
inline unsigned batch_of(unsigned n, bool few, unsigned blocks) {
  unsigned batch = 1;
  while (batch < (few ? most_tokens : most_tokens / 2) && batch * blocks < n) batch *= 2;
  return batch;
}
inline unsigned blocks_for(unsigned n, unsigned batch, unsigned blocks) {
  const unsigned needed = (n + batch - 1) / batch;
  return needed < 1 ? 1 : needed < blocks ? needed : blocks;
}

} // namespace shmem::moe
