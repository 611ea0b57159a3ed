// SPDX-License-Identifier: MIT
#include <cstdio>
#include <hip/hip_runtime.h>
#include <shmemx.h>

constexpr int tokens = 3, hidden = 8, k = 2; // two experts, one on each PE

template <class T> static T *object(const T *from, size_t n) {
  auto *p = static_cast<T *>(shmem_malloc_with_hints(n * sizeof(T), SHMEMX_MALLOC_DEVICE));
  if (p) shmem_putmem(p, from, n * sizeof(T), shmem_my_pe());
  return p;
}

int main() {
  shmem_init();
  static float ones[tokens * hidden];
  for (float &x : ones) x = 1;
  const int both[tokens * k] = {0, 1, 1, 0, 1, -1}; // the last token has one expert
  const float halves[tokens * k] = {.5f, .25f, .5f, .25f, .5f, 0};
  float *x = object(ones, tokens * hidden), *out = object(ones, tokens * hidden);
  int *ids = object(both, tokens * k);
  float *weights = object(halves, tokens * k), sum[tokens * hidden];
  if (x) {
    shmemx_moe_shape_t shape = SHMEMX_MOE_SHAPE_INITIALIZER;
    shape.token_bytes = hidden * sizeof(float), shape.hidden = hidden, shape.type = SHMEMX_F32;
    shape.experts = 2, shape.top_k = k, shape.max_tokens = tokens;
    shape.layout = SHMEMX_MOE_PACKED;
    shmemx_moe_t moe;
    shmemx_moe_create(SHMEM_TEAM_WORLD, &shape, &moe);
    shmemx_moe_view_t view = {};
    view.size = sizeof view;
    shmemx_moe_view(moe, &view);
    shmemx_moe_dispatch_on_stream(moe, x, nullptr, ids, weights, tokens, nullptr);
    // An expert would compute with the rows here. These leave them as they are.
    shmemx_moe_combine_on_stream(moe, view.rows, out, nullptr);
    if (hipDeviceSynchronize() != hipSuccess) shmem_global_exit(1);
    shmem_getmem(sum, out, sizeof sum, shmem_my_pe());
    shmemx_moe_destroy(moe);
  }
  if (shmem_my_pe() == 0)
    x ? std::printf("%g %g\n", double(sum[0]), double(sum[2 * hidden])) : std::printf("no GPU\n");
  shmem_finalize();
}
// With 2 PEs: 0.75 0.5
