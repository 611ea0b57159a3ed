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

// The workgroups that make a call: all of a kernel of the library, or as many as a program says.
// anew(moe) is for a loop that should not keep all numbers of moe in registers; a program's moe may
// be anywhere, not only among a kernel's arguments.
struct AllBlocks {
  SHMEM_D_ unsigned index() const { return arch::block().x; }
  SHMEM_D_ unsigned count() const { return arch::blocks().x; }
  SHMEM_D_ const Moe &anew(const Moe &moe) const { return arch::load_anew(moe); }
};
struct SomeBlocks {
  unsigned i, n;
  SHMEM_D_ unsigned index() const { return i; }
  SHMEM_D_ unsigned count() const { return n; }
  SHMEM_D_ const Moe &anew(const Moe &moe) const { return moe; }
};

// A call, as a workgroup of at least max_members threads sees it: thread i tells member i, and
// waits for member i.
using EpochLines = EpochLine (MoeSignals::*)[max_members];
struct MoeCall {
  const char *fn;
  const Moe &moe;
  uint64_t members, epoch; // members: that take part, or none if this one does not
  int rank;                // of the thread
  uintptr_t delta;         // from an object here to that of the thread's member

  SHMEM_D_ bool is_in(int i) const { return members >> i & 1; }
  SHMEM_D_ bool has_peer() const { return rank < moe.n && rank != moe.me && is_in(rank); }
  SHMEM_D_ void set_flag(EpochLines lines, uintptr_t to) const {
    MoeSignals *const there =
        reinterpret_cast<MoeSignals *>(reinterpret_cast<uintptr_t>(moe.signals) + to);
    arch::store(&(there->*lines)[moe.me].epoch, epoch);
  }
  // fence: orders what the flag stands for.
  template <class Fence> SHMEM_D_ void tell(EpochLines lines, Fence fence) const {
    if (rank < moe.n) fence();
    if (has_peer()) set_flag(lines, delta);
  }
  SHMEM_D_ void wait(EpochLines lines) const {
    if (has_peer()) {
      const uint64_t *from = &(moe.signals->*lines)[rank].epoch;
      device::poll_until([&] { return arch::poll(from) >= epoch; },
                         [&] {
                           device::fail(device::Report::wait_limit, fn, "moe", from, sizeof *from,
                                        alignof(uint64_t),
                                        arch::load_global(&moe.signals->pe[rank]), SHMEM_CMP_GE,
                                        epoch, arch::load(from));
                         });
    }
    arch::polled(); // what the others stored before
    Workgroup{}.sync();
  }
  // Whether this workgroup is the last of those that make the call: it ends the call.
  template <class Blocks> SHMEM_D_ bool is_last(unsigned &seen, Blocks grid) const {
    device::settle(Workgroup{});
    if (grid.count() == 1) return true;
    if (rank == 0) {
      arch::fence_release(); // orders what this workgroup loaded and stored before the count
      seen = arch::fetch_add<Order::relaxed, Range::device>(&moe.signals->count, 1u);
    }
    Workgroup{}.sync();
    if (seen != grid.count() - 1) return false;
    if (rank == 0) arch::store_global(&moe.signals->count, 0u);
    return true;
  }
  // The last workgroup tells all members, at the deltas of `to`, by the thread that has seen the
  // counts of the other workgroups: its fence orders what this one and they have stored.
  SHMEM_D_ void tell_last(const uintptr_t *to) const {
    if (rank != 0) return;
    arch::fence_release();
    SHMEM_NO_UNROLL_
    for (int i = 0; i < moe.n; i++)
      if (i != moe.me && is_in(i)) set_flag(&MoeSignals::ended, to[i]);
  }
  // One workgroup ends the call, when it has told the other members.
  template <class F> SHMEM_D_ void end(F meanwhile) const {
    meanwhile();
    wait(&MoeSignals::ended);
    if (rank == 0) arch::store_global(&moe.signals->epoch, epoch);
  }
};
static_assert(max_members <= device::max_wave);
// Its loads, and those that a kernel begins with, are in flight at once: a load after another one
// costs 0.6 to 0.8 us (H100, 2026-11-27).
SHMEM_D_ MoeCall open(const char *fn, const Moe &moe) {
  const int rank = int(Workgroup{}.rank());
  const uint64_t members = arch::load_global(&moe.signals->members),
                 epoch = arch::load_global(&moe.signals->epoch);
  const uintptr_t delta = arch::load_global(&moe.signals->delta[rank < moe.n ? rank : 0]);
  return {fn, moe, members >> moe.me & 1 ? members : 0, epoch + 1, rank, delta};
}

// Which of the k numbers of each token have a row.
inline constexpr unsigned most_rows = most_tokens * max_top_k; // a thread each
static_assert(most_rows <= device::max_threads);
struct RowLists {
  bool has[most_rows];
  unsigned count[most_tokens]; // rows of a token
};
// The index in [token][max_top_k] of this thread's row. The rows of a token lie without gaps.
SHMEM_D_ unsigned place_of(RowLists &lists, unsigned k, bool mine, bool has) {
  const unsigned rank = Workgroup{}.rank(), t = rank / k;
  if (mine) lists.has[rank] = has;
  Workgroup{}.sync();
  unsigned before = 0;
  for (unsigned j = t * k; mine && j < rank; j++) before += lists.has[j];
  if (mine && rank % k == k - 1) lists.count[t] = before + has;
  return t * max_top_k + before;
}

// A call of few tokens is one kernel, whose workgroups wait for the other PEs and are all resident
// at once. Of more tokens, kernels of one workgroup wait, and the kernel between them that moves
// data waits for no PE and fills the GPU. While the at most 64 workgroups that wait moved data,
// dispatch of 4096 tokens took 148 us, combine 180, and plain stores of the same bytes by 128
// workgroups 93; a kernel more costs 0.9 us (2 H100s, 2026-11-27).
inline constexpr unsigned most_words = 2048; // of the routing of few tokens, see Moe::has
inline constexpr unsigned few_chunks = 4;
SHMEM_HD_ inline bool is_few(const Moe &moe, unsigned n) {
  return n <= few_chunks * chunk && n * unsigned(moe.top_k) <= chunk * max_top_k &&
         (n + chunk - 1) / chunk * moe.columns <= most_words;
}
// Tokens of a batch: no more than keep all workgroups at work, and a power of two, so that a batch
// lies in one chunk. Where workgroups do not wait, batches are small: one workgroup looks up its
// next rows while another one moves data.
SHMEM_HD_ inline unsigned batch_of(unsigned n, bool few, unsigned blocks) {
  unsigned batch = 1;
  while (batch < (few ? most_tokens : most_tokens / 2) && batch * blocks < n) batch *= 2;
  return batch;
}
SHMEM_HD_ inline unsigned blocks_for(unsigned n, unsigned batch, unsigned blocks) {
  const unsigned needed = (n + batch - 1) / batch;
  return needed < 1 ? 1 : needed < blocks ? needed : blocks;
}

} // namespace shmem::moe
