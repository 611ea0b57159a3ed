// SPDX-License-Identifier: MIT
// A program as rocSHMEM's users write it, in its names alone: like the examples of its
// documentation. Each part checks its results.
#include <hip/hip_runtime.h>
#include <rocshmem/rocshmem.hpp>
#include <stdio.h>
#include <stdlib.h>

using namespace rocshmem;

#define CHECK(call)                                                                                \
  do {                                                                                             \
    hipError_t e = (call);                                                                         \
    if (e != hipSuccess) {                                                                         \
      fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(e));                                    \
      rocshmem_global_exit(1);                                                                     \
    }                                                                                              \
  } while (0)

static int errors;
static void expect(bool right, const char *what, long got, long want) {
  if (right) return;
  fprintf(stderr, "PE %d: %s: %ld, not %ld\n", rocshmem_my_pe(), what, got, want);
  errors++;
}

// A workgroup with a context of its own gets a row from its left neighbor.
__global__ void get_row(int *to, int *from, size_t n) {
  __shared__ rocshmem_ctx_t ctx;
  rocshmem_wg_init();
  rocshmem_wg_ctx_create(ROCSHMEM_CTX_WG_PRIVATE, &ctx);
  const int me = rocshmem_ctx_my_pe(ctx), npes = rocshmem_ctx_n_pes(ctx);
  rocshmem_ctx_getmem_wg(ctx, to, from, n * sizeof(int), (me + npes - 1) % npes);
  rocshmem_ctx_quiet(ctx);
  rocshmem_wg_ctx_destroy(&ctx);
  rocshmem_wg_finalize();
}

// Puts in a team, by its numbers, and an atomic that tells.
__global__ void put_row(int *to, int *from, size_t n, int64_t *count, rocshmem_team_t team,
                        int right, int *wrong) {
  __shared__ rocshmem_ctx_t ctx;
  rocshmem::rocshmem_wg_init();
  rocshmem_wg_team_create_ctx(team, 0, &ctx);
  const int members = rocshmem_ctx_n_pes(ctx);
  rocshmem_ctx_int_put_wg(ctx, to, from, n, right);
  if (threadIdx.x == 0) {
    rocshmem_ctx_fence(ctx);
    rocshmem_fence(right);
    rocshmem::rocshmem_ctx_int64_atomic_add(ctx, count, 1, right);
    rocshmem_int64_wait_until(count, ROCSHMEM_CMP_GE, 1);
    // Comparisons have other numbers here, so each of them is asked for.
    *wrong += !rocshmem_int64_test(count, ROCSHMEM_CMP_EQ, 1);
    *wrong += rocshmem_int64_test(count, ROCSHMEM_CMP_NE, 1);
    *wrong += rocshmem_int64_test(count, ROCSHMEM_CMP_GT, 1);
    *wrong += !rocshmem_int64_test(count, ROCSHMEM_CMP_GT, 0);
    *wrong += rocshmem_int64_test(count, ROCSHMEM_CMP_LT, 1);
    *wrong += !rocshmem_int64_test(count, ROCSHMEM_CMP_LT, 2);
    *wrong += !rocshmem_int64_test(count, ROCSHMEM_CMP_LE, 1);
    *wrong += members < 1;
  }
  __syncthreads();
  rocshmem_wg_ctx_destroy(&ctx);
  rocshmem::rocshmem_wg_finalize();
}

__global__ void reduce(int *to, int *from, int n) {
  __shared__ rocshmem_ctx_t ctx;
  rocshmem_wg_init();
  rocshmem_wg_ctx_create(0, &ctx);
  rocshmem_ctx_int_sum_reduce_wg(ctx, ROCSHMEM_TEAM_WORLD, to, from, n);
  rocshmem_ctx_barrier_wg(ctx, rocshmem::ROCSHMEM_TEAM_WORLD);
  rocshmem_wg_ctx_destroy(&ctx);
  rocshmem_wg_finalize();
}

__global__ void signal_right(uint64_t *data, uint64_t *message, uint64_t *sig, int me, int npes) {
  rocshmem_wg_init();
  rocshmem_putmem_signal_wg(data, message, sizeof(uint64_t), sig, 1, ROCSHMEM_SIGNAL_SET,
                            (me + 1) % npes);
  if (threadIdx.x == 0) rocshmem_uint64_wait_until(sig, ROCSHMEM_CMP_EQ, 1);
  __syncthreads();
  rocshmem_wg_finalize();
}

template <class T> static T *allocate(size_t n) {
  T *p = static_cast<T *>(rocshmem_malloc(n * sizeof(T)));
  if (!p) {
    fprintf(stderr, "rocshmem_malloc: no memory\n");
    rocshmem_global_exit(1);
  }
  CHECK(hipMemset(p, 0, n * sizeof(T)));
  CHECK(hipDeviceSynchronize());
  return p;
}

int main() {
  rocshmem_uniqueid_t id;
  rocshmem_get_uniqueid(&id);
  rocshmem_init();
  const int me = rocshmem_my_pe(), n = rocshmem::rocshmem_n_pes(), left = (me + n - 1) % n;
  const size_t count = 257;
  int row[count];
  int *to = allocate<int>(count), *from = allocate<int>(count), *wrong = allocate<int>(1);
  int64_t *arrived = allocate<int64_t>(1);
  uint64_t *data = allocate<uint64_t>(1), *message = allocate<uint64_t>(1);
  uint64_t *sig = allocate<uint64_t>(1);
  for (size_t i = 0; i < count; i++) row[i] = me * 1000 + int(i);
  CHECK(hipMemcpy(from, row, sizeof row, hipMemcpyHostToDevice));
  // A copy from pageable memory may still be under way when it returns (H200s, 2026-11-23: a
  // neighbor got zeros).
  CHECK(hipDeviceSynchronize());
  rocshmem_barrier_all();

  hipLaunchKernelGGL(get_row, dim3(1), dim3(64), 0, nullptr, to, from, count);
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(row, to, sizeof row, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < count; i++)
    expect(row[i] == left * 1000 + int(i), "getmem_wg", row[i], left * 1000 + int(i));
  rocshmem_barrier_all();

  // The PEs backwards: a member's number is not the world's.
  rocshmem_team_t team = ROCSHMEM_TEAM_INVALID;
  if (n > 1) rocshmem_team_split_strided(ROCSHMEM_TEAM_WORLD, n - 1, -1, n, nullptr, 0, &team);
  if (team == ROCSHMEM_TEAM_INVALID) team = ROCSHMEM_TEAM_WORLD;
  const int mine = rocshmem_team_my_pe(team);
  const int before = rocshmem_team_translate_pe(team, (mine + n - 1) % n, ROCSHMEM_TEAM_WORLD);
  hipLaunchKernelGGL(put_row, dim3(1), dim3(64), 0, nullptr, to, from, count, arrived, team,
                     (mine + 1) % n, wrong);
  CHECK(hipDeviceSynchronize());
  rocshmem_barrier_all();
  CHECK(hipMemcpy(row, to, sizeof row, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < count; i++)
    expect(row[i] == before * 1000 + int(i), "put_wg", row[i], before * 1000 + int(i));
  CHECK(hipMemcpy(row, wrong, sizeof(int), hipMemcpyDeviceToHost));
  expect(row[0] == 0, "comparisons", row[0], 0);
  rocshmem_barrier_all();

  hipLaunchKernelGGL(reduce, dim3(1), dim3(64), 0, nullptr, to, from, int(count));
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(row, to, sizeof row, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < count; i++) {
    const int want = 1000 * n * (n - 1) / 2 + n * int(i);
    expect(row[i] == want, "sum_reduce", row[i], want);
  }

  const uint64_t letter = uint64_t(me) + 7;
  CHECK(hipMemcpy(message, &letter, sizeof letter, hipMemcpyHostToDevice));
  CHECK(hipDeviceSynchronize());
  rocshmem_barrier_all();
  hipLaunchKernelGGL(signal_right, dim3(1), dim3(64), 0, nullptr, data, message, sig, me, n);
  CHECK(hipDeviceSynchronize());
  uint64_t got;
  CHECK(hipMemcpy(&got, data, sizeof got, hipMemcpyDeviceToHost));
  expect(got == uint64_t(left) + 7, "putmem_signal_wg", long(got), left + 7);

  rocshmem_putmem_on_stream(data, message, sizeof(uint64_t), (me + 1) % n, nullptr);
  rocshmem_barrier_all_on_stream(nullptr);
  CHECK(hipDeviceSynchronize());

  rocshmem_barrier_all();
  rocshmem_free(to);
  if (errors) rocshmem_global_exit(1);
  rocshmem_finalize();
  return 0;
}
