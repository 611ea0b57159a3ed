// SPDX-License-Identifier: MIT
// Tokens to experts and back, against the model.
#include "model.hpp"

namespace {

// Dispatch, then combine of rows that have nothing to do with it.
void run_call(const Job &j, int call) {
  const Model m = model(j, call);
  const Routing r = routing(j, j.me, call);
  fill_tokens(j, r.n, call);
  fill_routing(j, r);
  dispatch(j, r.n);
  HIP(hipStreamSynchronize(stream));
  check_rows(j, m, call, call);
  fill_rows(j, call);
  combine(j, j.out);
  HIP(hipStreamSynchronize(stream));
  check_out(j, m, call, true);
}
void run(Job j, int calls) {
  for (int call = 0; call < calls; call++) run_call(j, call);
  destroy(j);
}

constexpr shmemx_moe_layout_t layouts[] = {SHMEMX_MOE_BY_PE, SHMEMX_MOE_BY_EXPERT,
                                           SHMEMX_MOE_PACKED};

void types(void) {
  for (auto layout : layouts)
    for (auto type : {SHMEMX_F32, SHMEMX_F16, SHMEMX_BF16})
      run(make(SHMEM_TEAM_WORLD, layout, usual, type, 48, 12, 24, 3, 4, 40), 2);
}
void routings(void) {
  for (auto layout : layouts)
    for (auto kind : {one_expert, one_without})
      for (int tokens : {37, 180}) // in one kernel, and in several; a member without has one
        run(make(SHMEM_TEAM_WORLD, layout, kind, SHMEMX_BF16, 32, 0, 8, 2, 2, tokens), 3);
}
// Of k, tokens, odd multiples of 16 bytes; and of more bytes than a workgroup has at a time.
void sizes(void) {
  for (auto layout : layouts) {
    for (int k : {1, 2, 3, 8, 9, 16, 32})
      run(make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 16, 4, 4, 16, k, 9), 1);
    for (int tokens : {1, 2, 32, 33, 129, 200}) // 129: some members have more than 128, some not
      run(make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_BF16, 16, 4, 8, 2, 2, tokens), 1);
    // More than send finds the routing of; the last ones have several parts of a column.
    for (int k : {8, 1})
      run(make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_BF16, 16, 4, 8, k, k, k == 8 ? 150 : 1100),
          2);
    for (size_t packs : {3, 7, 129, 600})
      run(make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F16, packs * 16, 0, packs * 8, 1, 2, 5), 1);
  }
}
// The most rows that come in any of some calls fit; one less does not.
void overflow(void) {
  for (auto layout : layouts) {
    Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 16, 4, 4, 2, 2, 20);
    size_t most = 0;
    for (int call = 0; call < 2; call++)
      for (const Member &x : model(j, call).member)
        if (layout == SHMEMX_MOE_PACKED)
          most = std::max(most, size_t(x.expert_first.back() + x.expert_count.back()));
        else
          for (int count : j.by_pe() ? x.pe_count : x.expert_count)
            most = std::max(most, size_t(count));
    destroy(j);
    for (size_t capacity : {most, most - 1, size_t(1)}) {
      j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 16, 4, 4, 2, 2, 20, capacity);
      uint64_t dropped = 0, here = 0;
      for (int call = 0; call < 2; call++) {
        run_call(j, call);
        const Model m = model(j, call);
        for (int i = 0; i < j.n; i++) dropped += m.member[size_t(i)].dropped;
        here += m.member[size_t(j.me)].dropped;
      }
      CHECK((dropped > 0) == (capacity < most), "%zu rows dropped with room for %zu of %zu",
            size_t(dropped), capacity, most);
      CHECK(shmemx_moe_dropped(j.moe) == here, "%zu rows dropped in all, not %zu",
            size_t(shmemx_moe_dropped(j.moe)), size_t(here));
      destroy(j);
    }
  }
}

// Calls one after the other with no barrier between, one PE late.
void repeated(void) {
  for (auto layout : layouts)
    for (int tokens : {33, 140}) {
      Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_BF16, 48, 4, 24, 2, 3, tokens);
      for (int call = 0; call < 8; call++) {
        if (me == call % npes) usleep(10000);
        run_call(j, call);
      }
      destroy(j);
    }
}

// The host is ahead of the device: all calls are queued, each into an out of its own.
void queued(void) {
  for (int i = 0; i < 6; i++) {
    Job j =
        make(SHMEM_TEAM_WORLD, layouts[i / 2], usual, SHMEMX_F32, 16, 0, 4, 2, 3, i % 2 ? 140 : 33);
    constexpr int calls = 6;
    const Routing r = routing(j, j.me, 0);
    char *out;
    HIP(hipMalloc(&out, calls * size_t(j.shape.max_tokens) * j.row_bytes()));
    fill_tokens(j, r.n, 0);
    fill_routing(j, r);
    fill_rows(j, 0);
    char *const own = j.out;
    for (int call = 0; call < calls; call++) {
      dispatch(j, r.n);
      combine(j, out + size_t(call * j.shape.max_tokens) * j.row_bytes());
    }
    HIP(hipStreamSynchronize(stream));
    const Model m = model(j, 0);
    check_rows(j, m, 0, 0);
    for (int call = 0; call < calls; call++) {
      j.out = out + size_t(call * j.shape.max_tokens) * j.row_bytes();
      check_out(j, m, 0, true);
    }
    j.out = own;
    HIP(hipFree(out));
    destroy(j);
  }
}

// Other tokens by the same routing, and sums without weights.
void replay(void) {
  for (auto layout : layouts)
    for (int tokens : {35, 350}) { // the routing by send, and by a kernel before
      Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 32, 8, 8, 2, 3, tokens);
      for (int call = 0; call < 2; call++) {
        run_call(j, call);
        const Model m = model(j, call);
        for (int again = 10; again < 12; again++) {
          fill_tokens(j, m.of[size_t(j.me)].n, again);
          replay(j);
          HIP(hipStreamSynchronize(stream));
          check_rows(j, m, call, again);
          fill_rows(j, again);
          combine(j, j.out, false);
          HIP(hipStreamSynchronize(stream));
          check_out(j, m, again, false);
        }
      }
      destroy(j);
    }
}

// A graph of both calls with a new routing for each launch. All tokens are always there; skipped
// ones have no experts.
void graph(void) {
  const int launches = pe_rounds(40);
  for (auto layout : layouts) {
    Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_BF16, 16, 4, 8, 2, 2, 12);
    const auto padded = [&](int call) {
      Routing r = routing(j, j.me, call);
      r.n = j.shape.max_tokens;
      r.id.resize(size_t(r.n * j.shape.top_k), -1);
      r.weight.resize(r.id.size(), 0);
      return r;
    };
    fill_rows(j, 0);
    const hipGraphExec_t exec = captured([&] {
      dispatch(j, j.shape.max_tokens);
      combine(j, j.out);
    });
    for (int call = 0; call < launches; call++) {
      fill_tokens(j, j.shape.max_tokens, call);
      fill_routing(j, padded(call));
      HIP(hipGraphLaunch(exec, stream));
      HIP(hipStreamSynchronize(stream));
      const Model m = model(j, call);
      check_rows(j, m, call, call);
      check_out(j, m, 0, true);
    }
    HIP(hipGraphExecDestroy(exec));
    destroy(j);
  }
}

// A member that takes no part, and calls nothing; or that calls, and then is in again.
void members(void) {
  if (npes < 2) return;
  for (int i = 0; i < 12; i++) {
    const bool calls = i % 2;
    Job j = make(SHMEM_TEAM_WORLD, layouts[i / 4], usual, SHMEMX_F32, 16, 0, 4, 2, 3,
                 i / 2 % 2 ? 140 : 21);
    run_call(j, 0);
    const uint64_t all = j.members;
    const int out = npes / 2;
    j.members &= ~(uint64_t(1) << out);
    shmemx_moe_members_on_stream(j.moe, j.members, on_stream());
    for (int call = 1; call < 4 && (calls || me != out); call++) run_call(j, call);
    shmem_barrier_all();
    j.members = all;
    shmemx_moe_members_on_stream(j.moe, j.members, on_stream());
    for (int call = 4; call < 6 && calls; call++) run_call(j, call);
    destroy(j);
  }
}

// Two teams of the world, with shapes of their own, at once; PEs that have none; a team of a list.
void teams(void) {
  constexpr size_t bytes = 64 << 10;
  const bool odd = me % 2;
  const auto calls = [](Job j) {
    for (int call = 0; call < 3; call++) run_call(j, call);
    destroy(j);
  };
  for (int step = 1; step <= 2 && npes > 2; step++) {
    shmem_team_t team[2];
    for (int i = 0; i < 2; i++)
      shmem_team_split_strided(SHMEM_TEAM_WORLD, i, 2, (npes + 1 - i) / 2, nullptr, 0, &team[i]);
    if (step == 2 && odd) {
      shmemx_moe_t none;
      shmem_free(shmem_malloc_with_hints(1 << 20, SHMEMX_MALLOC_DEVICE));
      CHECK(shmemx_moe_create(SHMEM_TEAM_INVALID, nullptr, &none) == 0, "not made");
      object_free(object_alloc(bytes));
      shmemx_moe_destroy(none);
    } else {
      calls(make(team[odd], SHMEMX_MOE_PACKED, usual, SHMEMX_BF16, 16, 4, 8, odd ? 3 : 1, 2, 9, 0,
                 bytes));
    }
    shmem_team_destroy(team[odd]);
  }
  const shmem_team_t turned = turned_world();
  calls(make(turned, SHMEMX_MOE_PACKED, usual, SHMEMX_BF16, 16, 4, 8, 1, 2, 9));
  shmem_team_destroy(turned);
}

// Weights that are not there are 1.
void no_weights(void) {
  Job j = make(SHMEM_TEAM_WORLD, SHMEMX_MOE_BY_EXPERT, usual, SHMEMX_F32, 16, 0, 4, 2, 2, 7);
  const Model m = model(j, 0);
  fill_tokens(j, m.of[size_t(j.me)].n, 0);
  fill_routing(j, m.of[size_t(j.me)]);
  fill_rows(j, 0);
  dispatch(j, m.of[size_t(j.me)].n, false);
  combine(j, j.out);
  HIP(hipStreamSynchronize(stream));
  check_out(j, m, 0, false);
  destroy(j);
}

// A call that is wrong, of the names in mistakes.py.
int mistake(const char *what) {
  shmem_init();
  me = shmem_my_pe(), npes = shmem_n_pes();
  stream = make_stream();
  const auto is = [what](const char *name) { return strcmp(what, name) == 0; };
  shmemx_moe_shape_t s = SHMEMX_MOE_SHAPE_INITIALIZER;
  s.token_bytes = 16, s.hidden = 4, s.type = SHMEMX_F32;
  s.experts = 2 * npes, s.top_k = 1, s.max_tokens = 4;
  s.layout = SHMEMX_MOE_PACKED;
  if (is("size")) s.size--;
  if (is("bytes")) s.token_bytes = 24;
  if (is("no bytes")) s.token_bytes = 0;
  if (is("scales")) s.scale_bytes = 6;
  if (is("hidden")) s.hidden = 6;
  if (is("type")) s.type = SHMEMX_F8;
  if (is("experts")) s.experts = 3;
  if (is("top_k")) s.top_k = 33;
  if (is("tokens")) s.max_tokens = 0;
  if (is("layout")) s.layout = shmemx_moe_layout_t(3);
  if (is("alignment")) s.alignment = 0;
  if (is("rows")) s.max_tokens = 1 << 24, s.experts = 1024, s.layout = SHMEMX_MOE_BY_EXPERT;
  if (is("differs")) s.max_tokens += me;
  if (is("room")) s.token_bytes = size_t(1) << 40;
  shmemx_moe_t moe = nullptr;
  if (!is("null")) shmemx_moe_create(SHMEM_TEAM_WORLD, &s, &moe);
  char *device;
  HIP(hipMalloc(&device, 4096));
  HIP(hipMemset(device, 0, 4096));
  HIP(hipDeviceSynchronize());
  int *const ids = reinterpret_cast<int *>(device);
  shmemx_moe_view_t view{};
  view.size = sizeof view - (is("view") ? 8 : 0);
  if (is("view")) shmemx_moe_view(moe, &view);
  if (is("members")) shmemx_moe_members_on_stream(moe, 8, on_stream());
  if (is("heap")) shmemx_moe_combine_on_stream(moe, device, device, on_stream());
  if (is("version")) shmemx_moe_kernel_object(moe, 1, device);
  if (is("threads") || is("tokens of a kernel"))
    dispatch_by_workgroups(moe, device + 1024, nullptr, ids, nullptr, is("threads") ? 4 : 5, stream,
                           is("threads") ? 192 : 256);
  if (is("expert")) {
    const int bad[] = {0, 0, 5, 0};
    to_device(ids, bad, sizeof bad);
  }
  if (!is("late") || me == 0)
    shmemx_moe_dispatch_on_stream(moe, is("aligned") ? device + 1032 : device + 1024, nullptr,
                                  is("ids") ? nullptr : ids, nullptr, is("n") ? 5 : 4, on_stream());
  if (me == 0) HIP(hipStreamSynchronize(stream));
  sleep(60);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2) return mistake(argv[1]);
  const pe_test tests[] = {{"types", types},       {"routings", routings},    {"sizes", sizes},
                           {"overflow", overflow}, {"repeated", repeated},    {"queued", queued},
                           {"replay", replay},     {"graph", graph},          {"members", members},
                           {"teams", teams},       {"no weights", no_weights}};
  const pe_list list = PE_LIST("", tests);
  return pe_run("moe", &list, 1);
}
