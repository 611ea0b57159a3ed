// SPDX-License-Identifier: MIT
// From a symmetric address here to the same object of a peer, by one load and one add; and the end
// of a kernel that finds a wrong argument.
#pragma once
#include "arch.hpp"
#include "state.hpp"
#include <shmem.h>
#include <shmem/device_built.hpp>

namespace shmem::device {

// This module's copy of the State, in constant memory. Empty before shmem_init.
#ifdef SHMEM_BITCODE_STATE_
SHMEM_BITCODE_STATE_
#else
SHMEM_STATE_ State state;
#endif

// The calls that take no context use the world's default one.
struct World {};

SHMEM_D_ unsigned team_id(shmem_team_t team) {
  if constexpr (ring_built) // SHMEM_TEAM_SHARED is not the world then
    if (team == SHMEM_TEAM_SHARED && state.ring.requests) return shared_id;
  return unsigned(reinterpret_cast<uintptr_t>(team) >> id_shift);
}
SHMEM_D_ unsigned team_id(shmem_ctx_t ctx) {
  return unsigned(reinterpret_cast<uintptr_t>(ctx) >> id_shift);
}
SHMEM_D_ Team team_of(unsigned id) {
  return id ? arch::load_global(&state.teams[id])
            : Team{state.me, state.n, 0, 1, 0, state.ring.requests != nullptr};
}

SHMEM_D_ int pe_of(const Team &t, int member) {
  if (t.stride) return t.start + member * t.stride;
  // A load of the scalar unit's: stores to the PE do not wait for it.
  return arch::load_constant(
      reinterpret_cast<const int *>(arch::load_anew(state.teams) + max_teams) + t.start + member);
}

SHMEM_D_ int world_pe(World, int pe) {
  return pe;
}
SHMEM_D_ int world_pe(shmem_ctx_t ctx, int pe) {
  const unsigned id = team_id(ctx);
  if (!id) return pe;
  const Team t = arch::load_global(&state.teams[id]);
  return unsigned(pe) < unsigned(t.n) ? pe_of(t, pe) : max_pes - 1; // which is no PE
}

// The end of a kernel thread: tells the host why, and does nothing from then on, see arch::stop.
// Ends the kernel if no host listens.
SHMEM_D_ void copy_text(char *to, size_t room, const char *from) {
  size_t i = 0;
  // The text is a constant of the code object; clang 17 forgets that where its address was on a
  // stack (2026-11, reduce.hip).
  for (char c; i + 1 < room && (c = arch::load_global(from + i)); i++) to[i] = c;
  to[i] = 0;
}
SHMEM_STOPS_ SHMEM_D_ void fail(Report::Cause kind, const char *fn, const char *arg, const void *p,
                                size_t bytes, size_t align, int pe, int cmp = 0,
                                uint64_t wanted = 0, uint64_t seen = 0) {
  Report *r = arch::load_anew(state.report);
  if (!r) arch::trap();
  if (arch::exchange(arch::load_anew(state.claimed), uint32_t(1)) == 0) {
    const arch::Index block = arch::block(), thread = arch::thread();
    r->block[0] = block.x, r->block[1] = block.y, r->block[2] = block.z;
    r->thread[0] = thread.x, r->thread[1] = thread.y, r->thread[2] = thread.z;
    r->pe = pe, r->cmp = cmp, r->wanted = wanted, r->seen = seen;
    r->address = uint64_t(reinterpret_cast<uintptr_t>(p)), r->bytes = bytes, r->align = align;
    copy_text(r->routine, sizeof r->routine, fn);
    copy_text(r->argument, sizeof r->argument, arg);
    arch::store<Order::release>(&r->kind, uint32_t(kind));
  }
  arch::stop();
}

// From an address to a delta, the less often used the more it costs:
//   heap_delta  the device heap's, one load; its tags say whether an address needs a closer look
//   near_row    the row of one of the first buffers, by compares of what the State has
//   row_of      the row of any buffer, or the heap's: for calls that want the deltas of many PEs,
//               which delta_in then loads
//   find        a binary search in the table of buffers
//   inspect     the delta for one call: near_row, or else table_delta or search
//   table_delta find, where it is called
//   search      find, and why an argument is wrong; ends the kernel then

// The row of the buffer that `at` lies in, if the State has that buffer, else the heap's. Without
// branches, so that compilers do it before a loop.
SHMEM_D_ unsigned near_row(uintptr_t at) {
  const Near near = arch::load_anew(state.near);
  unsigned i = near_buffers;
  SHMEM_UNROLL_
  for (unsigned k = 0; k < near_buffers; k++) i = near.of[k].has(uint32_t(at >> near_unit)) ? k : i;
  return i * near_pes;
}
SHMEM_D_ bool on_heap(const void *p) {
  return reinterpret_cast<uintptr_t>(p) - arch::load_anew(state.base) < arch::load_anew(state.size);
}
// A buffer, if at is in it; its row, and the delta of pe. All loads go out at once: an H100 waits
// 40 cycles for each load that depends on another (2026-11-23).
struct Found {
  size_t room; // from at to its end
  unsigned row;
  uintptr_t there;
};
SHMEM_D_ Found find(uintptr_t at, int pe) {
  const uintptr_t buffers = arch::load_anew(state.buffers);
  const char *entry = reinterpret_cast<const char *>(buffers & ~uintptr_t(15));
  const size_t bytes = sizeof(Buffer) + unsigned(arch::load_anew(state.n)) * sizeof(uintptr_t);
  for (unsigned step = 1u << (buffers & 15) >> 1; step; step /= 2) {
    const char *const middle = entry + step * bytes;
    if (arch::load_constant(&reinterpret_cast<const Buffer *>(middle)->base) <= at) entry = middle;
  }
  const Buffer *const b = reinterpret_cast<const Buffer *>(entry);
  const uintptr_t offset = at - arch::load_constant(&b->base), size = arch::load_constant(&b->size),
                  row = arch::load_constant(&b->row),
                  there = arch::load_constant(reinterpret_cast<const uintptr_t *>(b + 1) + pe);
  return {offset < size ? size - offset : 0, unsigned(row), there};
}
// The row of the buffer that p lies in, or else the heap's.
SHMEM_D_ unsigned row_of(const void *p) {
  if (!arch::load_anew(state.buffers) || on_heap(p)) return heap_row;
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  if (const unsigned row = near_row(at); row != heap_row) return row;
  const Found found = find(at, 0);
  return found.room ? found.row : heap_row;
}
SHMEM_D_ uintptr_t delta_in(unsigned row, unsigned pe) {
  return arch::load_one_of(state.delta, state.rows, row < table_row, row, pe);
}

// PE pe exists. The result is tagged if the call needs a closer look.
SHMEM_RARE_ uintptr_t table_delta(uintptr_t at, int pe) {
  const Found found = find(at, pe);
  return found.room ? found.there : outside;
}
// The delta of pe for a call that needs a closer look, or the end of the kernel. `coarse` in delta,
// the heap's, says that the call is an atomic: where `there` has `coarse`, too, no atomic can be
// done.
SHMEM_RARE_ uintptr_t search(const char *fn, const char *arg, const void *p, size_t bytes,
                             size_t align, int pe, uintptr_t delta) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p), from = at - arch::load_anew(state.base),
                  size = arch::load_anew(state.size);
  uintptr_t there = delta & ~(closer | many | (arch::keeps_peers ? coarse : 0));
  size_t room = 0;
  if (from < size) {
    room = size - from;
  } else if (arch::load_anew(state.buffers)) {
    const Found found = find(at, unsigned(pe) < unsigned(state.n) ? pe : 0);
    room = found.room, there = found.there;
    if (!SHMEM_CALLS_ && room && !((delta | there) & closer) &&
        !(arch::keeps_peers && delta & there & coarse))
      return there;
  }
  const Report::Cause kind = unsigned(pe) >= unsigned(state.n)             ? Report::bad_pe
                             : bytes == 0                                  ? Report::none
                             : room == 0                                   ? Report::not_symmetric
                             : bytes > room                                ? Report::past_end
                             : at % align                                  ? Report::misaligned
                             : there & closer                              ? Report::outside_team
                             : arch::keeps_peers && delta & there & coarse ? Report::no_atomic
                                                                           : Report::none;
  if (kind) fail(kind, fn, arg, p, bytes, align, pe);
  return there;
}

// The delta of pe, where the heap's delta is tagged for a closer look, or p may be in a buffer.
SHMEM_D_ uintptr_t inspect(const char *fn, const char *arg, const void *p, size_t bytes,
                           size_t align, int pe, uintptr_t delta) {
  const unsigned row = near_row(reinterpret_cast<uintptr_t>(p));
  // Without a PE pe the word is another row's, and delta has the tag.
  uintptr_t there = state.delta[row + unsigned(pe) % unsigned(max_pes)];
  if ((row != heap_row || on_heap(p)) && !(unsigned(delta | there) & closer) &&
      !(arch::keeps_peers && delta & there & coarse))
    return there & ~many;
  if (SHMEM_CALLS_ && !(unsigned(delta) & closer)) {
    there = table_delta(reinterpret_cast<uintptr_t>(p), pe);
    if (!(unsigned(there) & closer)) return there;
  }
  return search(fn, arg, p, bytes, align, pe, delta);
}

// Whether PE pe of the world, which must exist, is not mapped.
SHMEM_D_ bool is_remote(int pe) {
  return ring_built && state.heap_delta(pe) & remote;
}

// A call's use of a peer's object. Use::later are stores that a later call completes.
enum class Use { later, loads, stores, atomic };

// Calls here(the object of PE pe of the world), which is at p here, n elements long; or remotely(),
// where PE pe is not mapped.
//
// Where arch::keeps_peers is true, this GPU's L2 keeps lines of another GPU's coarse-grained
// memory. A load may find an old line. A store leaves the L2 at the next release, so a program that
// polls for the answer to that store needs the release first.
template <class T, class Here, class Remotely>
SHMEM_D_ auto reach(const char *fn, const char *arg, T *p, size_t n, int pe,
                    [[maybe_unused]] Use use, Here here, [[maybe_unused]] Remotely remotely) {
  uintptr_t delta = state.heap_delta(pe);
  [[maybe_unused]] bool kept = false;
  if (__builtin_expect(unsigned(delta) & (closer | many), 0)) {
    const uintptr_t asks =
        arch::keeps_peers ? (delta & ~coarse) | (use == Use::atomic ? coarse : 0) : delta;
    delta = inspect(fn, arg, p, n * sizeof(T), alignof(T), pe, asks);
    if constexpr (ring_built)
      if (delta & remote) return remotely();
    if constexpr (arch::keeps_peers) {
      kept = delta & coarse;
      delta &= ~coarse;
      if (kept && use == Use::loads) arch::fence_acquire(); // before the loads of here
    }
  }
  T *const there = reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) + delta);
  if constexpr (arch::keeps_peers && std::is_void_v<decltype(here(there))>) {
    here(there);
    if (kept && use == Use::stores) arch::fence_release(); // what here stored, before all else
  } else {
    return here(there);
  }
}
// The same for an object that is only checked, or known to be mapped.
template <class T> SHMEM_D_ T *at(const char *fn, const char *arg, T *p, size_t n, int pe) {
  return reach(
      fn, arg, p, n, pe, Use::later, [](T *there) { return there; }, [p] { return p; });
}

} // namespace shmem::device
