// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

static long box;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes();
  shmem_ctx_t ctx;
  if (shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx)) shmem_global_exit(1);
  const shmem_ctx_session_config_t many = {.total_ops = 1};
  shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &many, SHMEM_CTX_SESSION_TOTAL_OPS);
  shmem_ctx_long_p(ctx, &box, me, (me + 1) % n);
  shmem_ctx_session_stop(ctx);
  shmem_ctx_quiet(ctx); // barrier_all completes the default context only
  shmem_barrier_all();
  if (me == 0) printf("%ld\n", box);
  shmem_ctx_destroy(ctx);
  shmem_finalize();
  return 0;
}
// With 4 PEs: 3
