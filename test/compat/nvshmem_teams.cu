// SPDX-License-Identifier: MIT
// Teams are numbers: clients keep them in an int, compare and switch on them, and hand them to
// kernels and streams from there.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

struct Client {
  int team; // as clients have it
};
static_assert(sizeof(nvshmem_team_t) == 4, "an int32_t");
static_assert(NVSHMEM_TEAM_INVALID == -1 && NVSHMEM_TEAM_WORLD == 0 && NVSHMEM_TEAM_SHARED == 1,
              "their numbers");

static const char *name(int team) {
  switch (team) {
  case NVSHMEM_TEAM_INVALID:
    return "invalid";
  case NVSHMEM_TEAM_WORLD:
    return "world";
  case NVSHMEM_TEAM_SHARED:
  case NVSHMEMX_TEAM_NODE:
    return "shared";
  default:
    return "created";
  }
}

__global__ void add(Client client, long *to, long *from, int *seen) {
  const int team = client.team;
  nvshmemx_long_sum_reduce_block(team, to, from, 1);
  if (threadIdx.x == 0) {
    seen[0] = nvshmem_team_my_pe(team);
    seen[1] = nvshmem_team_n_pes(team);
    seen[2] = nvshmem_team_translate_pe(team, 0, NVSHMEM_TEAM_WORLD);
    seen[3] = nvshmem_team_n_pes(NVSHMEM_TEAM_INVALID);
  }
  nvshmemx_barrier_block(team);
  if (threadIdx.x < warpSize) nvshmemx_team_sync_warp(team);
}

static int errors;
static void expect(const char *what, long got, long want) {
  if (got == want) return;
  fprintf(stderr, "PE %d: %s: %ld, not %ld\n", nvshmem_my_pe(), what, got, want);
  errors++;
}

int main() {
  nvshmem_init();
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  expect("my_pe", nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE), nvshmem_team_my_pe(NVSHMEM_TEAM_SHARED));
  // By an id that PE 0 makes: all but PE 1, downwards, and PE 1 does not call.
  uint64_t *id = static_cast<uint64_t *>(shmem_malloc_with_hints(sizeof *id, 0));
  if (me == 0) {
    expect("id", nvshmemx_team_get_uniqueid(id), 0);
    for (int pe = 1; pe < n; pe++) shmem_uint64_put(id, id, 1, pe);
  }
  shmem_barrier_all();
  if (n < 2 || me != 1) {
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    config.uniqueid = *id, config.num_contexts = 2;
    const int members = n < 2 ? n : n - 1, mine = members - 1 - (me ? me - 1 : 0);
    nvshmem_team_t team;
    expect("init",
           nvshmemx_team_init(&team, &config, NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS, members, mine),
           0);
    expect("my_pe", nvshmem_team_my_pe(team), mine);
    expect("first", nvshmem_team_translate_pe(team, members - 1, NVSHMEM_TEAM_WORLD), 0);
    nvshmem_team_config_t got = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    nvshmem_team_get_config(team, &got);
    expect("contexts", got.num_contexts, 2);
    nvshmem_team_sync(team);
    nvshmem_team_destroy(team);
  }
  shmem_free(id);
  // By twos, the last one alone where they are odd; and again, so that ids are taken anew.
  for (int round = 0; round < 3; round++) {
    Client rows{-5}, columns{-5}, all{-5};
    nvshmem_team_t x, y;
    expect("2d", nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 2, nullptr, 0, &x, nullptr, 0, &y), 0);
    rows.team = x, columns.team = y;
    expect("strided",
           nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, n - 1, -1, n, nullptr, 0, &all.team), 0);
    nvshmem_team_t none = 3;
    expect("bad", nvshmem_team_split_strided(all.team, n, 1, n, nullptr, 0, &none) != 0, 1);
    expect("invalid", none, NVSHMEM_TEAM_INVALID);
    expect("name", strcmp(name(rows.team), "created") | strcmp(name(none), "invalid"), 0);
    const int first = me / 2 * 2, members = first + 1 < n ? 2 : 1;
    expect("n_pes", nvshmem_team_n_pes(rows.team), members);
    expect("my_pe", nvshmem_team_my_pe(all.team), n - 1 - me);
    expect("translate", nvshmem_team_translate_pe(all.team, 0, NVSHMEM_TEAM_WORLD), n - 1);

    long *from = static_cast<long *>(nvshmem_calloc(2, sizeof(long))), *to = from + 1, got;
    int *seen = static_cast<int *>(nvshmem_calloc(4, sizeof(int))), host[4];
    const long mine = 100 + me, want = members * 100 + first * members + members - 1;
    if (cudaMemcpy(from, &mine, sizeof mine, cudaMemcpyHostToDevice) != cudaSuccess) errors++;
    if (cudaDeviceSynchronize() != cudaSuccess) errors++;
    nvshmem_barrier_all();
    for (int way = 0; way < 3; way++) {
      if (way == 0) add<<<1, 64>>>(rows, to, from, seen);
      if (way == 1) nvshmemx_long_sum_reduce_on_stream(rows.team, to, from, 1, nullptr);
      if (way == 2) nvshmem_long_sum_reduce(rows.team, to, from, 1);
      if (cudaDeviceSynchronize() != cudaSuccess) errors++;
      if (cudaMemcpy(&got, to, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess) errors++;
      expect("sum", got, want);
      nvshmem_barrier(all.team);
    }
    if (cudaMemcpy(host, seen, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) errors++;
    expect("my_pe in a kernel", host[0], me - first);
    expect("n_pes in a kernel", host[1], members);
    expect("translate_pe in a kernel", host[2], first);
    expect("n_pes of none in a kernel", host[3], -1);
    nvshmem_team_sync(columns.team);
    nvshmem_team_destroy(rows.team);
    nvshmem_team_destroy(columns.team);
    nvshmem_team_destroy(all.team);
    nvshmem_free(from);
    nvshmem_free(seen);
  }
  if (errors) nvshmem_global_exit(1);
  nvshmem_finalize();
  return 0;
}
