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
  shmemx_moe_combine_on_stream(j.moe, j.rows, j.out, on(stream));
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
      run(make(SHMEM_TEAM_WORLD, layout, kind, SHMEMX_BF16, 32, 0, 8, 2, 2, 37), 3);
}
// Of k, tokens, odd multiples of 16 bytes; and of more bytes than a workgroup has at a time.
void sizes(void) {
  for (auto layout : layouts) {
    for (int k : {1, 2, 3, 8, 9, 16, 32})
      run(make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 16, 4, 4, 16, k, 9), 1);
    for (int tokens : {1, 2, 32, 33, 200})
      run(make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_BF16, 16, 4, 8, 2, 2, tokens), 1);
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
  for (auto layout : layouts) {
    Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_BF16, 48, 4, 24, 2, 3, 33);
    for (int call = 0; call < 8; call++) {
      if (me == call % npes) usleep(10000);
      run_call(j, call);
    }
    destroy(j);
  }
}

// The host is ahead of the device: all calls are queued, each into an out of its own.
void queued(void) {
  for (auto layout : layouts) {
    Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 16, 0, 4, 2, 3, 33);
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
      shmemx_moe_combine_on_stream(
          j.moe, j.rows, out + size_t(call * j.shape.max_tokens) * j.row_bytes(), on(stream));
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
  for (auto layout : layouts) {
    Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 32, 8, 8, 2, 3, 35);
    for (int call = 0; call < 2; call++) {
      run_call(j, call);
      const Model m = model(j, call);
      for (int again = 10; again < 12; again++) {
        fill_tokens(j, m.of[size_t(j.me)].n, again);
        shmemx_moe_replay_on_stream(j.moe, j.tokens, j.scales, on(stream));
        HIP(hipStreamSynchronize(stream));
        check_rows(j, m, call, again);
        fill_rows(j, again);
        shmemx_moe_sum_on_stream(j.moe, j.rows, j.out, on(stream));
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
  const char *text = getenv("SHMEM_TEST_ROUNDS");
  const int launches = text ? atoi(text) : 40;
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
    hipGraph_t captured;
    hipGraphExec_t exec;
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    dispatch(j, j.shape.max_tokens);
    shmemx_moe_combine_on_stream(j.moe, j.rows, j.out, on(stream));
    HIP(hipStreamEndCapture(stream, &captured));
    HIP(hipGraphInstantiate(&exec, captured, nullptr, nullptr, 0));
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
    HIP(hipGraphDestroy(captured));
    destroy(j);
  }
}

// A member that takes no part, and calls nothing; then all again.
void members(void) {
  if (npes < 2) return;
  for (auto layout : layouts) {
    Job j = make(SHMEM_TEAM_WORLD, layout, usual, SHMEMX_F32, 16, 0, 4, 2, 3, 21);
    run_call(j, 0);
    const int out = npes / 2;
    j.members &= ~(uint64_t(1) << out);
    shmemx_moe_members_on_stream(j.moe, j.members, on(stream));
    for (int call = 1; call < 4 && me != out; call++) run_call(j, call);
    shmem_barrier_all();
    destroy(j);
  }
}

// Two teams of the world, with shapes of their own, at once; and PEs that have none.
void teams(void) {
  constexpr size_t bytes = 64 << 10;
  const bool odd = me % 2;
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
      Job j = make(team[odd], SHMEMX_MOE_PACKED, usual, SHMEMX_BF16, 16, 4, 8, odd ? 3 : 1, 2, 9, 0,
                   bytes);
      for (int call = 0; call < 3; call++) run_call(j, call);
      destroy(j);
    }
    shmem_team_destroy(team[odd]);
  }
}

// Weights that are not there are 1.
void no_weights(void) {
  Job j = make(SHMEM_TEAM_WORLD, SHMEMX_MOE_BY_EXPERT, usual, SHMEMX_F32, 16, 0, 4, 2, 2, 7);
  const Model m = model(j, 0);
  fill_tokens(j, m.of[size_t(j.me)].n, 0);
  fill_routing(j, m.of[size_t(j.me)]);
  fill_rows(j, 0);
  shmemx_moe_dispatch_on_stream(j.moe, j.tokens, nullptr, j.id, nullptr, m.of[size_t(j.me)].n,
                                on(stream));
  shmemx_moe_combine_on_stream(j.moe, j.rows, j.out, on(stream));
  HIP(hipStreamSynchronize(stream));
  check_out(j, m, 0, false);
  destroy(j);
}

} // namespace

int main() {
  const pe_test tests[] = {{"types", types},       {"routings", routings},    {"sizes", sizes},
                           {"overflow", overflow}, {"repeated", repeated},    {"queued", queued},
                           {"replay", replay},     {"graph", graph},          {"members", members},
                           {"teams", teams},       {"no weights", no_weights}};
  const pe_list list = PE_LIST("", tests);
  return pe_run("moe", &list, 1);
}
