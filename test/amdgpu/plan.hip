// SPDX-License-Identifier: MIT
// plan MB/S WAY: how the library plans a product of several PEs on GPUs that xGMI joins by links of
// so many MB/s. Nothing is multiplied: the library is asked to launch, and the launches are looked
// at. WAY, streams or pool, has to win where a pool costs a whole round of tiles.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shmem.h>
#include <shmem/device/gemm/fused.hpp>
#include <shmemx.h>

namespace {

using namespace shmem::gemm;

double link_rate; // bytes/us
bool streams_win;
int failed;

void check(const char *what, double seen, double wanted) {
  const bool right = std::abs(seen - wanted) <= 1e-6 * wanted;
  failed += !right;
  if (!right || shmem_my_pe() == 0)
    printf("%s: PE %d of %d: %s: %g, and wanted is %g\n", right ? "ok" : "NOT OK", shmem_my_pe(),
           shmem_n_pes(), what, seen, wanted);
}

struct Plan {
  Pool pool;
  double bytes, tile_us, product_us; // that leave; of one tile; of all without a pool
  double idle;                       // so much of the last round
  bool streams;
};

// Of a sum of products whose shards, of rows x n elements, go to their owners.
Plan plan_of(Matmul call, size_t rows, size_t n, size_t k) {
  const unsigned pes = unsigned(shmem_n_pes());
  call.m = rows * pes, call.n = call.ldb = call.ldc = n, call.k = call.lda = k;
  Plan plan = {};
  plan.bytes = double(rows) * (pes - 1) * double(n) * 2;
  TileWork shard = {};
  check("work_for", work_for<Bfloat16>(call, rows, &shard), hipSuccess);
  check("copies_well", copies_well<Bfloat16>(call, unsigned(rows), pes, plan.bytes, &plan.streams),
        hipSuccess);
  plan.tile_us = shard.tile_us;
  plan.product_us = double(shard.rounds(pes)) * shard.tile_us;
  plan.idle = double(shard.rounds(pes)) - double(shard.tiles * pes) / double(shard.room);
  plan.pool = pool_for(shard.tiles * pes, shard.room, shard.tile_us, plan.bytes, call.links);
  return plan;
}

hipError_t look(const Workspace *, const Matmul &call, hipStream_t, const void *) {
  const int pes = shmem_n_pes();
  const double links = (pes - 1) * link_rate;
  // Of a link kernels and copy engines use what they used of an H200's 450 GB/s.
  check("kernels to all others, MB/s", call.links.kernels, links * 400 / 450);
  check("copy engines to all others, MB/s", call.links.engines, links * 340 / 450);

  // Sending takes longer than the product: as many send as fill the links, and no more.
  Plan plan = plan_of(call, size_t(8192 / pes), 8192, 256);
  check("links are busy, us", plan.pool.us, plan.tile_us + plan.bytes / call.links.kernels);
  check("and a pool fills them", plan.pool.size, std::ceil(call.links.kernels / pool_rate));
  check("copy engines, which fill less of them", plan.streams, false);

  // The product takes longer, and its last round has room for others: as many send as end with it,
  // without the last tiles, which cannot go before. The columns are no power of two, of which the
  // 256 compute units of an MI355X leave no room in any round.
  size_t rows = size_t(4096 / pes);
  do plan = plan_of(call, rows += 256, 7936, size_t(16384 * 64000 / link_rate));
  while ((plan.idle < 0.25 || plan.idle > 0.75) && rows < 65536);
  const double send_us = plan.product_us - plan.tile_us;
  check("GPUs are busy, us", plan.pool.us, plan.product_us);
  check("and a pool ends with them", plan.pool.size, std::ceil(plan.bytes / send_us / pool_rate));

  // A shard is a whole round of tiles, so that with any pool there is a round more.
  Matmul large = call;
  large.m = large.n = large.k = large.lda = large.ldb = large.ldc = 8192;
  TileWork all = {};
  check("work_for", work_for<Bfloat16>(large, large.m, &all), hipSuccess);
  return choose(matrices<Bfloat16>(large, large.m), [&](auto core, const auto &) {
    using Core = decltype(core);
    plan = plan_of(call, 4 * Core::tile_m, all.room / 4 * Core::tile_n, 8192);
    check("rounds", plan.product_us, pes * plan.tile_us);
    check("copy engines beside full rounds", plan.streams, streams_win);
    return hipSuccess;
  });
}

} // namespace

int main(int, char **argv) {
  link_rate = atof(argv[1]);
  streams_win = !strcmp(argv[2], "streams");
  shmem_init();
  static char memory[16]; // never looked at
  shmemx_matmul_t call = {};
  call.type = call.out = SHMEMX_BF16;
  call.m = call.n = call.k = call.lda = call.ldb = call.ldc = 8;
  call.a = call.b = call.c = memory;
  const shmemx_matmul_workspace_t workspace =
      shmemx_matmul_workspace_create(SHMEM_TEAM_WORLD, SHMEMX_MATMUL_REDUCE_SCATTER, &call);
  shmemx_matmul_launch("plan", shared_bytes, Fused::reduce_scatter, workspace, &call, nullptr, look,
                       nullptr);
  shmemx_matmul_workspace_destroy(workspace);
  shmem_finalize();
  return failed != 0;
}
