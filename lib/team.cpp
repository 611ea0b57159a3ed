// SPDX-License-Identifier: MIT
#include "team.hpp"
#include "address.hpp"
#include "coll/nodes.hpp"
#include "gpu/teams.hpp"
#include "log.hpp"
#include "order.hpp"
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <list>
#include <mutex>
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
std::atomic<Team *> numbers[max_teams];

Arrival *share(int id) {
  return reinterpret_cast<Arrival *>(self.shares + id * share_bytes(self.n_local));
}

// A share that no team uses, zeroed; -1 when all are taken. Any PE may ask at any time.
int take_share() {
  for (int w = 0; w < max_teams / 64; w++) {
    auto &word = self.job->team_used[w];
    for (uint64_t used = word; ~used;) {
      int bit = std::countr_one(used);
      if (!word.compare_exchange_weak(used, used | uint64_t(1) << bit)) continue;
      int id = w * 64 + bit;
      // All but stages and outboxes, which are large: their counts go on from where the last team's
      // ended.
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
Team &make_team(int me, int n, int start, int stride, int id, int num_contexts, uint64_t tag,
                uint64_t set = 0) {
  std::lock_guard guard(lists);
  Team &t = teams.emplace_front();
  t.me = me, t.n = n, t.start = start, t.stride = stride, t.id = id;
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

// Leaves the counts from which the next team of this share goes on, the same from every member. To
// be called before this member has left, because the share may be another team's as soon as the
// last one has.
void leave_counts(const Team &team) {
  const Team &t = here(team);
  arrival(t)->rounds = t.rounds;
  arrival(t)->casts = t.casts;
}

void drop(const Team &t) {
  std::lock_guard guard(lists);
  if (numbers[t.id] == &t) numbers[t.id] = nullptr;
  free_nodes(t.nodes);
  teams.remove_if([&](const Team &other) { return &other == &t; });
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
  // the last one. Nobody passes the first barrier before this PE has been here.
  auto predefined = [](int me, int n, int start, int stride, int id) {
    self.job->team_used[0].fetch_or(uint64_t(1) << id);
    Team &t = make_team(me, n, start, stride, id, 0, uint64_t(id));
    here(t).barriers = arrival(t)->released;
    return &t;
  };
  self.world = predefined(self.me, self.n, 0, 1, 0);
  const int stride = self.n_local > 1 ? self.pe_of(1) - self.pe_of(0) : 1; // see net::check
  self.shared = predefined(self.local, self.n_local, self.pe_of(0), stride, int(device::shared_id));
}

void destroy_teams() {
  for (const Team &t : teams) {
    leave_counts(t);
    free_nodes(t.nodes);
    numbers[t.id] = nullptr;
  }
  teams.clear();
  self.world = self.shared = nullptr;
}

void forget_shares() {
  for (auto &word : self.job->team_used) word = 0;
  self.job->team_used[0] = 3;
  for (auto &set : self.job->active_set) set = 0;
}

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
  const int me = member(self.me, start, stride, size);
  if (me < 0) {
    if (self.check)
      fatal("%s: PE_start = %d, logPE_stride = %d, PE_size = %d: this PE is not in the active set",
            fn, start, log_stride, size);
    return nullptr;
  }
  auto &lock = self.job->teams_lock;
  wait_while({&lock, true}, [&] { return lock.exchange(1, std::memory_order_acquire) != 0; });
  int id = 0;
  while (id < max_teams && self.job->active_set[id] != set) id++;
  if (id == max_teams) {
    id = take_share();
    if (id >= 0) self.job->active_set[id] = set;
  }
  lock.store(0, std::memory_order_seq_cst); // ring's load of the sleepers must not pass it
  ring({&lock, true});
  if (id < 0) fatal("%s: more than %d active sets and teams on this node", fn, max_teams);
  return &make_team(me, size, start, stride, id, 0, set_tag(start, log_stride, size), set);
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
  return member(from->pe(src_pe), to->start, to->stride, to->n);
}

namespace {

// A child of a split, in the parent's numbering.
struct Child {
  int start, stride, size;
  // The first member on this PE's node: it takes the share there.
  int leader(const Team &parent) const {
    for (int i = 0; i < size; i++)
      if (local_of(parent.pe(start + i * stride)) >= 0) return start + i * stride;
    return -1;
  }
};

// Makes this PE's team among the children of one split; all members of the parent call it with the
// same children. The leader of each child takes a share and shows it to all, so that all agree
// whether it worked.
bool make_children(Team &parent, const std::vector<Child> &children,
                   const shmem_team_config_t *config, long mask, shmem_team_t *team) {
  int mine = -1, me = -1;
  for (int i = 0; i < int(children.size()); i++) {
    const Child &c = children[i];
    const int at = member(parent.me, c.start, c.stride, c.size);
    if (at >= 0) mine = i, me = at;
  }
  const int leader = mine < 0 ? -1 : children[mine].leader(parent);
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
  if (self.device.size && parent.on_nodes()) numbers.resize(size_t(net::nodes()));
  exchange_value(parent, shown, [&](int i, const ShownChild &theirs) {
    if (!theirs.leads) return;
    ok &= theirs.id >= 0;
    if (i == leader) id = theirs.id;
    if (mine < 0) return;
    const Child &c = children[mine];
    if (i == c.start) first_id = theirs.id;
    if (member(i, c.start, c.stride, c.size) < 0) return;
    generation = std::max(generation, theirs.generation);
    if (!numbers.empty()) numbers[size_t(net::node_of(parent.pe(i)))] = uint16_t(theirs.id);
  });
  *team = SHMEM_TEAM_INVALID;
  if (mine < 0) return ok;
  const Child &c = children[mine];
  if (!ok) {
    if (shown.leads && id >= 0) give_share(id);
    return false;
  }
  full_fence(); // as in take_share: a neighbour may have taken it
  // The same on all nodes, and so is where the epochs of the team's collectives begin.
  share(id)->generation = generation;
  const int contexts = mask & SHMEM_TEAM_NUM_CONTEXTS && config ? config->num_contexts : 0;
  const int start = parent.pe(c.start);
  const Team &made = make_team(me, c.size, start, c.stride * parent.stride, id, contexts,
                               team_tag(start, first_id));
  gpu::show_team(made, std::move(numbers));
  *team = handle_of(made);
  return true;
}

} // namespace

int team_split_strided(const char *fn, shmem_team_t parent_team, int start, int stride, int size,
                       const shmem_team_config_t *config, long mask, shmem_team_t *new_team) {
  *new_team = SHMEM_TEAM_INVALID;
  if (parent_team == SHMEM_TEAM_INVALID) return 1;
  Team &parent = need_team(fn, "parent_team", parent_team);
  int64_t last = start + int64_t(stride) * (int64_t(size) - 1);
  if (size < 1 || start < 0 || start >= parent.n || last < 0 || last >= parent.n ||
      (stride == 0 && size != 1))
    return 1;
  return !make_children(parent, {{start, size == 1 ? 1 : stride, size}}, config, mask, new_team);
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
  std::vector<Child> children;
  children.reserve(size_t(std::max(rows, xrange)));
  for (int y = 0; y < rows; y++)
    children.push_back({y * xrange, 1, y < rows - 1 ? xrange : n - y * xrange});
  if (!make_children(parent, children, xconfig, xmask, xteam)) return 1;
  children.clear();
  for (int x = 0; x < xrange; x++) children.push_back({x, xrange, (n - x + xrange - 1) / xrange});
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
  // Members leave at their own time; the last one gives the share back.
  gpu::forget_team(t);
  leave_counts(t);
  const bool last =
      arrival(t)->left.fetch_add(1, std::memory_order_acq_rel) + 1 == uint64_t(here(t).n);
  // Orders this count and take_share's zeros for ThreadSanitizer, which sees nothing of the last
  // member, a process of its own, that comes between them.
  full_fence();
  if (last) give_share(t.id);
  drop(t);
}

int team_create_ctx(const char *fn, shmem_team_t team, long options, shmem_ctx_t *ctx) {
  *ctx = SHMEM_CTX_INVALID;
  if (team == SHMEM_TEAM_INVALID) return 1;
  Team &t = need_team(fn, "team", team);
  constexpr long all = SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE;
  if (self.check && options & ~all) fatal("%s: options = %ld: unknown option", fn, options);
  std::lock_guard guard(lists);
  t.contexts.push_front({&t, t.start, t.stride, options, 0});
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
