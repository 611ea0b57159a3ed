// SPDX-License-Identifier: MIT
// From a symmetric address here to the same object of a peer, by one load and one add; and what a
// kernel does that finds a wrong argument.
#pragma once
#include "arch.hpp"
#include "state.hpp"
#include <shmem.h>
#include <shmem/device_built.hpp>

namespace shmem::device {

// This module's copy of what the library told it, in constant memory. Empty before shmem_init.
#ifdef SHMEM_BITCODE_STATE_
SHMEM_BITCODE_STATE_
#else
SHMEM_STATE_ State state;
#endif

// The calls that take no context use the world's default one.
struct World {};

SHMEM_D_ unsigned team_id(shmem_team_t team) {
  if constexpr (ring_built) // that of the node is not the world then
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

SHMEM_D_ int world_pe(World, int pe) {
  return pe;
}
SHMEM_D_ int world_pe(shmem_ctx_t ctx, int pe) {
  const unsigned id = team_id(ctx);
  if (!id) return pe;
  const Team t = arch::load_global(&state.teams[id]);
  return unsigned(pe) < unsigned(t.n) ? t.start + pe * t.stride : max_pes - 1; // which is no PE
}

// The end of a kernel thread: tells the host why, and does nothing from then on, see arch::stop.
// Where nobody listens, the kernel is ended.
SHMEM_D_ void copy_text(char *to, size_t room, const char *from) {
  size_t i = 0;
  // The text is a constant of the code object; clang 17 forgets that where its address was on a
  // stack (2026-11, reduce.hip).
  for (char c; i + 1 < room && (c = arch::load_global(from + i)); i++) to[i] = c;
  to[i] = 0;
}
SHMEM_STOPS_ SHMEM_D_ void fail(Report::Kind kind, const char *fn, const char *arg, const void *p,
                                size_t bytes, size_t align, int pe, int cmp = 0,
                                uint64_t wanted = 0, uint64_t seen = 0) {
  Report *r = state.report;
  if (!r) arch::trap();
  if (arch::exchange(state.claimed, uint32_t(1)) == 0) {
    r->block[0] = blockIdx.x, r->block[1] = blockIdx.y, r->block[2] = blockIdx.z;
    r->thread[0] = threadIdx.x, r->thread[1] = threadIdx.y, r->thread[2] = threadIdx.z;
    r->pe = pe, r->cmp = cmp, r->wanted = wanted, r->seen = seen;
    r->address = uint64_t(reinterpret_cast<uintptr_t>(p)), r->bytes = bytes, r->align = align;
    copy_text(r->routine, sizeof r->routine, fn);
    copy_text(r->argument, sizeof r->argument, arg);
    arch::store<Order::release>(&r->kind, uint32_t(kind));
  }
  arch::stop();
}

// The row of the buffer that p lies in, and how many bytes of it are from there on; 0 on the heap,
// and where there is nothing symmetric.
SHMEM_D_ unsigned row_of(const void *p, size_t *room) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  const Buffers *const all = state.buffers;
  if (!all || at - state.base < state.size) return 0;
  const Buffer *b = all->at;
  for (size_t step = arch::load_constant(&all->places) / 2; step; step /= 2)
    if (arch::load_constant(&b[step].base) <= at) b += step;
  const uintptr_t base = arch::load_constant(&b->base), end = arch::load_constant(&b->end);
  if (at - base >= end - base) return 0;
  *room = end - at;
  return unsigned(arch::load_constant(&b->row));
}

// The delta of pe, tagged by the library as one to look at closer.
SHMEM_D_ uintptr_t inspect(const char *fn, const char *arg, const void *p, size_t bytes,
                           size_t align, int pe, uintptr_t delta) {
  const uintptr_t from = reinterpret_cast<uintptr_t>(p) - state.base;
  size_t room = from < state.size ? state.size - from : 0;
  const unsigned row = row_of(p, &room);
  Report::Kind kind = unsigned(pe) >= unsigned(state.n)        ? Report::bad_pe
                      : bytes == 0                             ? Report::none
                      : room == 0                              ? Report::not_symmetric
                      : bytes > room                           ? Report::past_end
                      : reinterpret_cast<uintptr_t>(p) % align ? Report::misaligned
                                                               : Report::none;
  if (kind) fail(kind, fn, arg, p, bytes, align, pe);
  return row ? arch::load_constant(state.rows + row + pe) : delta - closer;
}

// Whether PE pe of the world, which there is, is not mapped.
SHMEM_D_ bool is_away(int pe) {
  return ring_built && state.delta[pe] & away;
}

// Does here(the object of PE pe, of the world, that is at p here), n elements long; or away(), where
// that PE is not mapped.
template <class T, class Here, class Away>
SHMEM_D_ auto reach(const char *fn, const char *arg, T *p, size_t n, int pe, Here here,
                    [[maybe_unused]] Away not_here) {
  uintptr_t delta = state.delta[unsigned(pe) % unsigned(max_pes)];
  if (__builtin_expect(delta & closer, 0)) {
    delta = inspect(fn, arg, p, n * sizeof(T), alignof(T), pe, delta);
    if constexpr (ring_built)
      if (delta & away) return not_here();
  }
  return here(reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) + delta));
}
// The same for what is only to be checked, or known to be mapped.
template <class T> SHMEM_D_ T *at(const char *fn, const char *arg, T *p, size_t n, int pe) {
  return reach(
      fn, arg, p, n, pe, [](T *there) { return there; }, [p] { return p; });
}

} // namespace shmem::device
