// SPDX-License-Identifier: MIT
#include "team.hpp"
#include "address.hpp"
#include "coll/nodes.hpp"
#include "gpu/engines.hpp"
#include "gpu/teams.hpp"
#include "log.hpp"
#include "order.hpp"
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <list>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace shmem {

namespace {

// Guards the list of teams and every team's list of contexts: threads may create and destroy at
// once.
std::mutex lists;
// Never destroyed: other threads may be in a barrier while this process runs its exit handlers.
std::list<Team> &teams = *new std::list<Team>;
// By their ids, for handles that are numbers.
std::atomic<Team *> numbers[n_shares];

Arrival *share(int id) {
  return reinterpret_cast<Arrival *>(self.shares + id * share_bytes(self.n_local));
}

// A share that no team uses, zeroed; -1 when all are taken. Any PE may ask at any time. Spare
// shares come behind those of teams.
int take_share(bool spare = false) {
  for (int w = spare ? max_teams / 64 : 0; w < (spare ? n_shares : max_teams) / 64; w++) {
    auto &word = self.job->team_used[w];
    for (uint64_t used = word; ~used;) {
      int bit = std::countr_one(used);
      if (!word.compare_exchange_weak(used, used | uint64_t(1) << bit)) continue;
      int id = w * 64 + bit;
      // All but stages and outboxes, which are large: their counts go on from the last team's.
      Arrival *root = share(id);
      full_fence(); // see team_destroy
      uint64_t rounds = root->rounds, casts = root->casts;
      uint32_t generation = root->generation;
      std::memset(static_cast<void *>(root), 0, arrivals_bytes(self.n));
      root->rounds = rounds;
      root->casts = casts;
      root->generation = generation + 1;
      return id;
    }
  }
  return -1;
}

void give_share(int id) {
  self.job->team_used[id / 64].fetch_and(~(uint64_t(1) << id % 64));
}

// tag: the same on all members of the team, and of no other team that lives.
Team &make_team(const PeOrder &members, int me, int id, int num_contexts, uint64_t tag,
                uint64_t set = 0) {
  std::lock_guard guard(lists);
  Team &t = teams.emplace_front();
  static_cast<PeOrder &>(t) = members;
  t.me = me, t.id = id;
  t.share = reinterpret_cast<std::byte *>(share(id));
  t.num_contexts = num_contexts;
  t.rounds = arrival(t)->rounds;
  t.casts = t.done = arrival(t)->casts;
  t.generation = arrival(t)->generation;
  t.active_set = set;
  if (!self.one_node()) t.nodes = make_nodes(t, tag);
  numbers[id].store(&t, std::memory_order_release);
  return t;
}

// Leaves the counts from which the next team of this share goes on, the same from every member.
// Called before this member leaves: after the last member has left, the share may be another
// team's.
void leave_counts(const Team &team) {
  const Team &t = here(team);
  arrival(t)->rounds = t.rounds;
  arrival(t)->casts = t.casts;
}

void drop(const Team &t) {
  std::lock_guard guard(lists);
  if (numbers[t.id] == &t) numbers[t.id] = nullptr;
  free_nodes(t.nodes);
  delete[] t.list;
  teams.remove_if([&](const Team &other) { return &other == &t; });
}

// Members leave at their own time; the last one gives the share back.
void leave(const Team &t) {
  leave_counts(t);
  const bool last =
      arrival(t)->left.fetch_add(1, std::memory_order_acq_rel) + 1 == uint64_t(here(t).n);
  // Orders this count and take_share's zeros for ThreadSanitizer, which sees nothing of the last
  // member, a process of its own, that comes between them.
  full_fence();
  if (last) give_share(t.id);
  drop(t);
}

bool known(const Team *t) {
  std::lock_guard guard(lists);
  return std::any_of(teams.begin(), teams.end(), [=](const Team &team) { return &team == t; });
}

bool known(const Context *c) {
  std::lock_guard guard(lists);
  for (const Team &t : teams)
    for (const Context &other : t.contexts)
      if (&other == c) return true;
  return false;
}

} // namespace

Team *find_team(shmem_team_t team) {
  if (team == SHMEM_TEAM_WORLD) return self.world;
  if (team == SHMEM_TEAM_SHARED) return self.shared;
  const uintptr_t at = without_id(team);
  if (at != without_address) return reinterpret_cast<Team *>(at);
  const uintptr_t id = uintptr_t(team) >> id_shift;
  return id < max_teams ? numbers[id].load(std::memory_order_acquire) : nullptr;
}

Team &need_team(const char *fn, const char *arg, shmem_team_t team) {
  check_ready(fn);
  if (team == SHMEM_TEAM_INVALID)
    fatal("%s: %s = SHMEM_TEAM_INVALID: this PE is not a member of such a team", fn, arg);
  Team *t = find_team(team);
  if (!t || (self.check && !known(t)))
    fatal("%s: %s = %p: not a team, or destroyed", fn, arg, static_cast<void *>(team));
  return *t;
}

void check_context(const char *fn, shmem_ctx_t ctx) {
  check_ready(fn);
  if (ctx == SHMEM_CTX_DEFAULT) return;
  if (ctx == SHMEM_CTX_INVALID) fatal("%s: ctx = SHMEM_CTX_INVALID: not a context", fn);
  if (!known(context_of(ctx)))
    fatal("%s: ctx = %p: not a context, or destroyed", fn, static_cast<void *>(ctx));
}

int checked_rank(const char *fn, shmem_ctx_t ctx, int pe) {
  check_context(fn, ctx);
  const Team &t = ctx == SHMEM_CTX_DEFAULT ? *self.world : *context_of(ctx)->team;
  if (unsigned(pe) >= unsigned(t.n))
    fatal("%s: pe = %d: the context's team has PEs 0 to %d", fn, pe, t.n - 1);
  return t.pe(pe);
}

void make_teams() {
  // Their shares are never given back, so when the library is brought up again, barriers go on from
  // the last one. No PE passes the first barrier before this PE has been here.
  auto predefined = [](const PeOrder &members, int me, int id) {
    self.job->team_used[0].fetch_or(uint64_t(1) << id);
    Team &t = make_team(members, me, id, 0, uint64_t(id));
    here(t).barriers = arrival(t)->released;
    return &t;
  };
  self.world = predefined({self.n, 0, 1}, self.me, 0);
  self.shared = predefined(members_of({self.pes, self.pes + self.n_local}), self.local,
                           int(device::shared_id));
}

void destroy_teams() {
  for (const Team &t : teams) {
    leave_counts(t);
    free_nodes(t.nodes);
    delete[] t.list;
    numbers[t.id] = nullptr;
  }
  teams.clear();
  self.world = self.shared = nullptr;
}

void forget_shares() {
  for (auto &word : self.job->team_used) word = 0;
  self.job->team_used[0] = 3;
  for (auto &key : self.job->key) key = 0;
}

namespace {

// The share that has this key on this node. The first PE that asks takes one. When `members` PEs
// have asked, the share loses the key; 0: the share keeps it.
int share_by_key(const char *fn, uint64_t key, int members) {
  auto &lock = self.job->teams_lock;
  wait_while({&lock, true}, [&] { return lock.exchange(1, std::memory_order_acquire) != 0; });
  uint64_t *const keys = self.job->key;
  int id = int(std::find(keys, keys + n_shares, key) - keys);
  if (id == n_shares) {
    id = take_share();
    if (id < 0 && members) id = take_share(true);
    if (id >= 0) keys[id] = key, self.job->came[id] = 0;
  }
  if (id >= 0 && members && ++self.job->came[id] == uint32_t(members)) keys[id] = 0;
  lock.store(0, std::memory_order_seq_cst); // wake_at's load of sleepers must not pass it
  wake_at({&lock, true});
  if (id < 0) fatal("%s: more than %d active sets and teams on this node", fn, max_teams);
  return id;
}

} // namespace

// Active sets have no creation call. The first PE that uses one takes a share for it, the others
// find it there; it is kept until finalize, and each process keeps its Team.
Team *active_set(const char *fn, int start, int log_stride, int size, const long *psync) {
  check_ready(fn);
  int stride = log_stride >= 0 && log_stride < 31 ? 1 << log_stride : 0;
  if (start < 0 || stride == 0 || size <= 0 || start + int64_t(size - 1) * stride >= self.n)
    fatal(
        "%s: PE_start = %d, logPE_stride = %d, PE_size = %d: not within the %d PEs of the program",
        fn, start, log_stride, size, self.n);
  if (self.check) check_symmetric(fn, "pSync", psync, sizeof *psync, alignof(long));
  if (start == 0 && stride == 1 && size == self.n) return self.world;
  const uint64_t set =
      uint64_t(1) << 63 | uint64_t(start) << 37 | uint64_t(log_stride) << 32 | uint32_t(size);
  {
    std::lock_guard guard(lists);
    for (Team &t : teams)
      if (t.active_set == set) return &t;
  }
  const PeOrder members{size, start, stride};
  const int me = members.find(self.me);
  if (me < 0) {
    if (self.check)
      fatal("%s: PE_start = %d, logPE_stride = %d, PE_size = %d: this PE is not in the active set",
            fn, start, log_stride, size);
    return nullptr;
  }
  const int id = share_by_key(fn, set, 0);
  return &make_team(members, me, id, 0, set_tag(start, log_stride, size), set);
}

namespace api {

int team_my_pe(const char *, shmem_team_t team) {
  const Team *t = find_team(team);
  return t ? t->me : -1;
}

int team_n_pes(const char *, shmem_team_t team) {
  const Team *t = find_team(team);
  return t ? t->n : -1;
}

int team_get_config(const char *fn, shmem_team_t team, long mask, shmem_team_config_t *config) {
  const Team *t = find_team(team);
  if (!t || mask & ~SHMEM_TEAM_NUM_CONTEXTS) return 1;
  if (mask && !config) fatal("%s: config = NULL with config_mask = %ld", fn, mask);
  if (mask) config->num_contexts = t->num_contexts;
  return 0;
}

int team_translate_pe(const char *, shmem_team_t src_team, int src_pe, shmem_team_t dest_team) {
  const Team *from = find_team(src_team), *to = find_team(dest_team);
  if (!from || !to || unsigned(src_pe) >= unsigned(from->n)) return -1;
  return to->find(from->pe(src_pe));
}

namespace {

// The first member of a child on this PE's node: it takes the share there. A child of a split has
// the parent's numbers.
int leader_of(const PeOrder &child, const Team &parent) {
  for (int i = 0; i < child.n; i++)
    if (local_of(parent.pe(child.pe(i))) >= 0) return child.pe(i);
  return -1;
}
// The same PEs by their numbers in the world.
PeOrder in_world(const PeOrder &child, const Team &parent) {
  if (!parent.list) return {child.n, parent.pe(child.start), child.stride * parent.stride};
  auto pes = std::vector<int>(size_t(child.n));
  for (int i = 0; i < child.n; i++) pes[size_t(i)] = parent.pe(child.pe(i));
  return members_of(pes);
}

int contexts_of(const shmem_team_config_t *config, long mask) {
  return mask & SHMEM_TEAM_NUM_CONTEXTS && config ? config->num_contexts : 0;
}

// Makes this PE's team among the children of one split; all members of the parent call it with the
// same children. The leader of each child takes a share and shows it to all, so that all agree
// whether it worked.
bool make_children(Team &parent, const std::vector<PeOrder> &children,
                   const shmem_team_config_t *config, long mask, shmem_team_t *team) {
  int mine = -1, me = -1;
  for (int i = 0; i < int(children.size()); i++) {
    const int at = children[i].find(parent.me);
    if (at >= 0) mine = i, me = at;
  }
  const int leader = mine < 0 ? -1 : leader_of(children[mine], parent);
  int id = -1, first_id = -1;
  uint32_t generation = 0;
  bool ok = true;
  // A leader shows its share's number and generation; a PE that leads no child, no number.
  struct ShownChild {
    bool leads;
    int id;
    uint32_t generation;
  } shown{leader == parent.me, -1, 0};
  if (shown.leads && (shown.id = take_share()) >= 0) shown.generation = share(shown.id)->generation;
  std::vector<uint16_t> numbers; // of the shares of mine, by node, for kernels
  if (parent.on_nodes()) numbers.resize(size_t(net::nodes()));
  exchange_value(parent, shown, [&](int i, const ShownChild &theirs) {
    if (!theirs.leads) return;
    ok &= theirs.id >= 0;
    if (i == leader) id = theirs.id;
    if (mine < 0) return;
    const PeOrder &c = children[mine];
    if (i == c.start) first_id = theirs.id;
    if (c.find(i) < 0) return;
    generation = std::max(generation, theirs.generation);
    if (!numbers.empty()) numbers[size_t(net::node_of(parent.pe(i)))] = uint16_t(theirs.id);
  });
  *team = SHMEM_TEAM_INVALID;
  if (mine < 0) return ok;
  if (!ok) {
    if (shown.leads && id >= 0) give_share(id);
    return false;
  }
  full_fence(); // as in take_share: a neighbour may have taken it
  // The generation is the same on all nodes, and so are the first epochs of the team's collectives.
  share(id)->generation = generation;
  const PeOrder &c = children[mine];
  Team &made = make_team(in_world(c, parent), me, id, contexts_of(config, mask),
                         team_tag(parent.pe(c.start), first_id));
  gpu::show_team(made, std::move(numbers));
  *team = handle_of(made);
  return true;
}

uint64_t hash(const std::vector<int> &numbers, uint64_t seed) {
  for (const int number : numbers) {
    seed = (seed ^ uint32_t(number)) * 0x9e3779b97f4a7c15;
    seed ^= seed >> 29;
  }
  return seed;
}

// Makes a team whose members call alone, so the parent cannot help them to agree.
//
// On a node a member finds the share by a key. All members know the key, and no other team has it.
// The look-up waits for no other member. Then the members exchange their numbers and shares on the
// new share, in an order that all members know. Teams whose creations overlap in time have only the
// lock of the look-up in common. A PE in no team does nothing, and collectives of the parent may
// run. A creation waits for its own members only, as a collective of the new team does: creations
// end in any order of calls in which such collectives end.
//
// The exchange ends after all members of this node have found the share, and the last member takes
// the key away. So the next creation with the same key finds another share. Where no share is free,
// a spare one serves for the exchange, so that all members learn of the lack.
//
// meeting: the members in the order of the exchange, this one the me-th; n_here of them are on this
// node. order: the members in the team's order; empty: the order of the exchange, in which their
// numbers in the world are found.
bool create(const char *fn, uint64_t key, const std::vector<int> &meeting, int me, int n_here,
            std::vector<int> order, const shmem_team_config_t *config, long mask,
            shmem_team_t *team) {
  const int id = share_by_key(fn, key, n_here);
  Team &t = make_team(members_of(meeting), me, id, contexts_of(config, mask), meeting_tag(key));
  const uint64_t mine = hash(order, 0);
  struct Shown {
    int pe, id;
    uint32_t generation;
    uint64_t order;
  } shown{self.me, id, t.generation, mine};
  std::vector<int> pes;          // in the order of the exchange
  std::vector<uint16_t> numbers; // of the team's shares, by node, for kernels
  if (t.on_nodes()) numbers.resize(size_t(net::nodes()));
  std::vector<int> ids;
  int other = -1;
  exchange_value(t, shown, [&](int, const Shown &theirs) {
    pes.push_back(theirs.pe), ids.push_back(theirs.id);
    t.generation = std::max(t.generation, theirs.generation);
    if (theirs.order != mine && other < 0) other = theirs.pe;
    if (!numbers.empty()) numbers[size_t(net::node_of(theirs.pe))] = uint16_t(theirs.id);
  });
  if (other >= 0)
    fatal("%s: n = %d: PE %d of the world lists the same PEs in another order", fn, t.n, other);
  if (std::any_of(ids.begin(), ids.end(), [](int theirs) { return theirs >= max_teams; })) {
    leave(t);
    return false;
  }
  if (order.empty()) order = pes;
  const auto first = size_t(std::find(pes.begin(), pes.end(), order[0]) - pes.begin());
  full_fence(); // as in take_share: a neighbour may have taken it
  arrival(t)->generation = t.generation;
  t.rounds = here(t).rounds;
  free_nodes(std::exchange(t.nodes, nullptr));
  delete[] t.list;
  static_cast<PeOrder &>(t) = members_of(order);
  t.me = t.find(self.me);
  if (!self.one_node()) t.nodes = make_nodes(t, team_tag(order[0], ids[first]));
  gpu::show_team(t, std::move(numbers));
  *team = handle_of(t);
  return true;
}

} // namespace

int team_create(const char *fn, shmem_team_t parent_team, const int *list, int n,
                const shmem_team_config_t *config, long mask, shmem_team_t *team) {
  *team = SHMEM_TEAM_INVALID;
  const Team &parent = need_team(fn, "parent", parent_team);
  if (n < 1 || n > parent.n)
    fatal("%s: n = %d: a team has 1 to %d PEs, those of its parent", fn, n, parent.n);
  if (!list) fatal("%s: pes = NULL: no list of %d PEs", fn, n);
  std::vector<int> order, at(size_t(parent.n), -1);
  for (int i = 0; i < n; i++) {
    const int pe = list[i];
    if (unsigned(pe) >= unsigned(parent.n))
      fatal("%s: pes[%d] = %d: the parent has PEs 0 to %d", fn, i, pe, parent.n - 1);
    if (int &before = at[size_t(pe)]; before < 0)
      before = i;
    else
      fatal("%s: pes[%d] = %d: the same PE as pes[%d]", fn, i, pe, before);
    order.push_back(parent.pe(pe));
  }
  if (at[size_t(parent.me)] < 0)
    fatal("%s: n = %d: PE %d of the parent, the caller, is not in the list", fn, n, parent.me);
  std::vector<int> meeting = order;
  std::sort(meeting.begin(), meeting.end());
  const auto me = std::find(meeting.begin(), meeting.end(), self.me) - meeting.begin();
  const auto n_here =
      std::count_if(meeting.begin(), meeting.end(), [](int pe) { return local_of(pe) >= 0; });
  return !create(fn, hash(meeting, 1) >> 1 | 1, meeting, int(me), int(n_here), std::move(order),
                 config, mask, team);
}

int team_join(const char *fn, uint64_t uniqueid, int n, int me, const shmem_team_config_t *config,
              long mask, shmem_team_t *team) {
  *team = SHMEM_TEAM_INVALID;
  check_ready(fn);
  if (n < 1 || n > self.n) fatal("%s: n = %d: the program has %d PEs", fn, n, self.n);
  if (unsigned(me) >= unsigned(n)) fatal("%s: me = %d: the team has %d PEs", fn, me, n);
  if (!self.one_node())
    fatal("%s: the job is on several nodes, and the members find each other on one node only: call "
          "shmemx_team_create",
          fn);
  auto meeting = std::vector<int>(size_t(n));
  std::iota(meeting.begin(), meeting.end(), 0);
  const uint64_t key = hash({int(uniqueid >> 32), int(uniqueid)}, 2) >> 1 | 1;
  return !create(fn, key, meeting, me, n, {}, config, mask, team);
}

int team_split_strided(const char *fn, shmem_team_t parent_team, int start, int stride, int size,
                       const shmem_team_config_t *config, long mask, shmem_team_t *new_team) {
  *new_team = SHMEM_TEAM_INVALID;
  if (parent_team == SHMEM_TEAM_INVALID) return 1;
  Team &parent = need_team(fn, "parent_team", parent_team);
  int64_t last = start + int64_t(stride) * (int64_t(size) - 1);
  if (size < 1 || start < 0 || start >= parent.n || last < 0 || last >= parent.n ||
      (stride == 0 && size != 1))
    return 1;
  return !make_children(parent, {{size, start, size == 1 ? 1 : stride}}, config, mask, new_team);
}

int team_split_2d(const char *fn, shmem_team_t parent_team, int xrange,
                  const shmem_team_config_t *xconfig, long xmask, shmem_team_t *xteam,
                  const shmem_team_config_t *yconfig, long ymask, shmem_team_t *yteam) {
  *xteam = *yteam = SHMEM_TEAM_INVALID;
  if (parent_team == SHMEM_TEAM_INVALID) return 1;
  Team &parent = need_team(fn, "parent_team", parent_team);
  if (xrange < 1) return 1;
  const int n = parent.n;
  if (xrange > n) xrange = n;
  const int rows = (n + xrange - 1) / xrange;
  std::vector<PeOrder> children;
  children.reserve(size_t(std::max(rows, xrange)));
  for (int y = 0; y < rows; y++)
    children.push_back({y < rows - 1 ? xrange : n - y * xrange, y * xrange, 1});
  if (!make_children(parent, children, xconfig, xmask, xteam)) return 1;
  children.clear();
  for (int x = 0; x < xrange; x++) children.push_back({(n - x + xrange - 1) / xrange, x, xrange});
  if (make_children(parent, children, yconfig, ymask, yteam)) return 0;
  team_destroy(fn, std::exchange(*xteam, SHMEM_TEAM_INVALID));
  return 1;
}

void team_destroy(const char *fn, shmem_team_t team) {
  if (team == SHMEM_TEAM_INVALID) return;
  Team &t = need_team(fn, "team", team);
  if (&t == self.world || &t == self.shared)
    fatal("%s: team: a predefined team cannot be destroyed", fn);
  if (t.buffers)
    fatal("%s: team: %d buffers are registered with it: unregister them first", fn, t.buffers);
  gpu::drop_engines(t);
  gpu::forget_team(t);
  leave(t);
}

int team_create_ctx(const char *fn, shmem_team_t team, long options, shmem_ctx_t *ctx) {
  *ctx = SHMEM_CTX_INVALID;
  if (team == SHMEM_TEAM_INVALID) return 1;
  Team &t = need_team(fn, "team", team);
  constexpr long all = SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE;
  if (self.check && options & ~all) fatal("%s: options = %ld: unknown option", fn, options);
  std::lock_guard guard(lists);
  t.contexts.push_front({&t, t, options, 0});
  *ctx = reinterpret_cast<shmem_ctx_t>(with_id(&t.contexts.front(), t.id));
  return 0;
}

int ctx_create(const char *fn, long options, shmem_ctx_t *ctx) {
  return team_create_ctx(fn, SHMEM_TEAM_WORLD, options, ctx);
}

void ctx_destroy(const char *fn, shmem_ctx_t ctx) {
  if (ctx == SHMEM_CTX_INVALID) return;
  if (ctx == SHMEM_CTX_DEFAULT) fatal("%s: ctx = SHMEM_CTX_DEFAULT: cannot be destroyed", fn);
  if (self.check) check_context(fn, ctx);
  Context *const c = context_of(ctx);
  full_fence(); // the quiet
  if (self.careful) finish(c);
  std::lock_guard guard(lists);
  c->team->contexts.remove_if([=](const Context &other) { return &other == c; });
}

int ctx_get_team(const char *fn, shmem_ctx_t ctx, shmem_team_t *team) {
  *team = SHMEM_TEAM_INVALID;
  if (ctx == SHMEM_CTX_INVALID) return 1;
  if (self.check) check_context(fn, ctx);
  Team *t = ctx == SHMEM_CTX_DEFAULT ? self.world : context_of(ctx)->team;
  *team = t == self.world ? SHMEM_TEAM_WORLD : t == self.shared ? SHMEM_TEAM_SHARED : handle_of(*t);
  return 0;
}

// Sessions are hints about many operations to come. A mapped PE takes each by a store, so there is
// nothing to prepare.
void ctx_session_start(const char *fn, shmem_ctx_t ctx, long,
                       const shmem_ctx_session_config_t *config, long mask) {
  if (ctx == SHMEM_CTX_INVALID || !self.check) return;
  check_context(fn, ctx);
  if (mask && !config) fatal("%s: config = NULL with config_mask = %ld", fn, mask);
}
void ctx_session_stop(const char *fn, shmem_ctx_t ctx) {
  if (ctx != SHMEM_CTX_INVALID && self.check) check_context(fn, ctx);
}

} // namespace api
} // namespace shmem

extern "C" [[gnu::visibility("default")]] int shmemx_team_create(shmem_team_t parent,
                                                                 const int *pes, int n,
                                                                 const shmem_team_config_t *config,
                                                                 long mask, shmem_team_t *team) {
  return shmem::api::team_create(__func__, parent, pes, n, config, mask, team);
}
// For the names of NVSHMEM.
extern "C" [[gnu::visibility("default")]] int shmemx_team_join(uint64_t uniqueid, int n, int me,
                                                               const shmem_team_config_t *config,
                                                               long mask, shmem_team_t *team) {
  return shmem::api::team_join(__func__, uniqueid, n, me, config, mask, team);
}
