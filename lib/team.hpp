// SPDX-License-Identifier: MIT
// Teams: what their members share, the barrier, and the API.
#pragma once
#include "../device/pattern.hpp"
#include "../device/state.hpp"
#include "state.hpp"
#include "sync.hpp"
#include <cstring>
#include <vector>

namespace shmem {

// A team's share of the segment: arrival counters (the root's first), two stages and an outbox for
// each member. Sized for a team of all the node's PEs; what a smaller team does not touch takes no
// memory.
inline size_t arrivals_bytes(int n) {
  const size_t arrivals = n <= 8 ? 1 : 1 + (size_t(n) + 7) / 8;
  return round_up(arrivals * sizeof(Arrival), page);
}
inline size_t share_bytes(int n) {
  return arrivals_bytes(n) + size_t(n) * (2 * sizeof(Stage) + sizeof(Outbox));
}
inline Arrival *arrival(const Team &t) {
  return reinterpret_cast<Arrival *>(t.share);
}
inline Stage &stage(const Team &t, int member, uint64_t round) {
  auto *first = reinterpret_cast<Stage *>(t.share + arrivals_bytes(self.n_local));
  return first[2 * size_t(member) + (round & 1)];
}
inline Outbox &outbox(const Team &t, int member) {
  return reinterpret_cast<Outbox *>(&stage(t, self.n_local, 0))[member];
}

// Each member fills its stage, waits until all others have filled theirs, and takes their data, in
// the order of the members. An exchange is a barrier too, one transfer deep. No member fills the
// stage of round r again, for round r + 2, before all have filled one for round r + 1, after their
// last look at round r.
template <class Fill, class Take> inline void exchange(Team &t, Fill fill, Take take) {
  const uint64_t round = ++t.rounds;
  Stage &mine = stage(t, t.me, round);
  fill(mine);
  mine.round.store(round,
                   std::memory_order_seq_cst); // wake_at's load of sleepers must not pass it
  wake_at({&mine, true});
  for (int k = 1; k < t.n; k++) {
    Stage &s = stage(t, pattern::peer(t.me, k, t.n), round);
    auto missing = [&] { return s.round.load(std::memory_order_acquire) < round; };
    if (missing()) wait_while({&s, true}, missing);
  }
  for (int i = 0; i < t.n; i++) take(i, stage(t, i, round));
}

// All members arrive before any returns; what they stored before is visible after.
//
// Up to 16 members with a core each make an exchange of nothing. More members, or members that
// share cores, arrive in groups of 8 at a counter. The last of each group arrives at the root, and
// the last one there releases all. Every member waits for the release only, so a PE has to run but
// once a barrier.
inline void sync_here(Team &t) { // of one node
  if (t.n == 1) return full_fence();
  if (t.n <= 16 && !self.oversubscribed)
    return exchange(
        t, [](Stage &) {}, [](int, Stage &) {});
  const uint64_t epoch = ++t.barriers;
  Arrival *root = arrival(t);
  auto last = [&](Arrival &a, uint64_t size) {
    return a.count.fetch_add(1, std::memory_order_acq_rel) + 1 == epoch * size;
  };
  bool done;
  if (t.n <= 8) {
    done = last(*root, t.n);
  } else {
    int group = t.me / 8, members = t.n - group * 8;
    done = last(root[1 + group], members < 8 ? members : 8) && last(*root, (t.n + 7) / 8);
  }
  if (done) {
    root->released.store(epoch, std::memory_order_seq_cst); // as above
    wake_at({root, true});
  } else {
    wait_while({root, true},
               [=] { return root->released.load(std::memory_order_acquire) < epoch; });
  }
}

void sync_nodes(Team &t); // of several
inline void sync(Team &t) {
  if (t.on_nodes()) [[unlikely]]
    return sync_nodes(t);
  sync_here(t);
}

void exchange_nodes(Team &t, const void *mine, size_t bytes, void *all); // at most stage_bytes
// A value from each member to all: calls take(i, member i's value).
template <class T, class Take> inline void exchange_value(Team &t, const T &mine, Take take) {
  static_assert(sizeof(T) <= stage_bytes);
  if (t.on_nodes()) {
    T *const all = new T[size_t(t.n)]; // <memory> would take 0.12 s in each of 40 files (gcc 12)
    exchange_nodes(t, &mine, sizeof mine, all);
    for (int i = 0; i < t.n; i++) take(i, all[i]);
    delete[] all;
    return;
  }
  auto data = [](Stage &s) { return sizeof(T) <= sizeof s.few ? s.few : s.data; };
  exchange(
      t, [&](Stage &s) { memcpy(data(s), &mine, sizeof mine); },
      [&](int i, Stage &s) {
        T theirs;
        memcpy(&theirs, data(s), sizeof theirs);
        take(i, theirs);
      });
}

// A handle is an address with the team's id above it, where kernels look for it (device/state.hpp).
inline constexpr int id_shift = device::id_shift;
// In place of the address, where a source knows a team by a number alone: NVSHMEM's teams are
// int32_t (include/compat/nvshmem.h).
inline constexpr uintptr_t without_address = 3;
inline uintptr_t with_id(const void *p, int id) {
  return uintptr_t(p) | uintptr_t(id) << id_shift;
}
inline shmem_team_t handle_of(const Team &t) {
  return reinterpret_cast<shmem_team_t>(with_id(&t, t.id));
}
template <class H> inline uintptr_t without_id(H handle) {
  return uintptr_t(handle) << (64 - id_shift) >> (64 - id_shift);
}
inline Context *context_of(shmem_ctx_t ctx) { // not of a predefined one
  return reinterpret_cast<Context *>(without_id(ctx));
}

struct World {}; // the default context, and the team of all
// The context, or null if it was not created.
inline Context *created(World) {
  return nullptr;
}
inline Context *created(shmem_ctx_t ctx) {
  return ctx == SHMEM_CTX_INVALID || ctx == SHMEM_CTX_DEFAULT ? nullptr : context_of(ctx);
}

// Null for an invalid handle. Below, fn is the routine that was called, for messages.
Team *find_team(shmem_team_t team);
Team &need_team(const char *fn, const char *arg,
                shmem_team_t team); // ends the program when there is none
// Null where this PE is outside of the set: such a PE has nothing to do and returns at once.
Team *active_set(const char *fn, int start, int log_stride, int size, const long *psync);
void check_context(const char *fn, shmem_ctx_t ctx); // under SHMEM_CHECK
int checked_rank(const char *fn, shmem_ctx_t ctx, int pe);

// The world PE of PE pe in the context's team.
inline int plain_rank(World, int pe) {
  return pe;
}
inline int plain_rank(shmem_ctx_t ctx, int pe) {
  if (ctx == SHMEM_CTX_DEFAULT) return pe;
  return context_of(ctx)->members.pe(pe);
}
inline int rank(const char *, World, int pe) {
  return pe;
}
inline int rank(const char *fn, shmem_ctx_t ctx, int pe) {
  return self.check || !self.ready ? checked_rank(fn, ctx, pe) : plain_rank(ctx, pe);
}

// By a distance if all are equal, else with a list, which the caller frees by delete[].
PeOrder members_of(const std::vector<int> &pes);

void make_teams();    // the predefined ones, at init
void destroy_teams(); // all, at finalize
void forget_shares(); // of all but the predefined teams; one PE, while none uses any

namespace api {
int team_my_pe(const char *fn, shmem_team_t team);
int team_n_pes(const char *fn, shmem_team_t team);
int team_get_config(const char *fn, shmem_team_t team, long mask, shmem_team_config_t *config);
int team_translate_pe(const char *fn, shmem_team_t src_team, int src_pe, shmem_team_t dest_team);
int team_split_strided(const char *fn, shmem_team_t parent, int start, int stride, int size,
                       const shmem_team_config_t *config, long mask, shmem_team_t *new_team);
int team_create(const char *fn, shmem_team_t parent, const int *pes, int n,
                const shmem_team_config_t *config, long mask, shmem_team_t *team);
int team_join(const char *fn, uint64_t uniqueid, int n, int me, const shmem_team_config_t *config,
              long mask, shmem_team_t *team);
int team_split_2d(const char *fn, shmem_team_t parent, int xrange,
                  const shmem_team_config_t *xconfig, long xmask, shmem_team_t *xteam,
                  const shmem_team_config_t *yconfig, long ymask, shmem_team_t *yteam);
void team_destroy(const char *fn, shmem_team_t team);
int ctx_create(const char *fn, long options, shmem_ctx_t *ctx);
int team_create_ctx(const char *fn, shmem_team_t team, long options, shmem_ctx_t *ctx);
void ctx_destroy(const char *fn, shmem_ctx_t ctx);
int ctx_get_team(const char *fn, shmem_ctx_t ctx, shmem_team_t *team);
void ctx_session_start(const char *fn, shmem_ctx_t ctx, long options,
                       const shmem_ctx_session_config_t *config, long mask);
void ctx_session_stop(const char *fn, shmem_ctx_t ctx);
} // namespace api

} // namespace shmem
