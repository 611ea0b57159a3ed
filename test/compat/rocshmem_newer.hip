// SPDX-License-Identifier: MIT
// Names that rocSHMEM got from 3.1 to 3.4: collectives of a wave, without a context, of bytes, on
// streams and on the host; memory; versions.
#include <cstring>
#include <rocshmem/rocshmem.hpp>

using namespace rocshmem;

namespace {

int wrong;

void expect(bool right, int line) {
  if (!right) {
    printf("PE %d, line %d\n", rocshmem_my_pe(), line);
    wrong++;
  }
}
#define EXPECT(condition) expect(condition, __LINE__)

constexpr int parts = 11, most = 8;

struct Ints {
  int at[parts][most];
};

// Every PE puts its number into `from`; each collective has a row of `to`.
// sizes: of the blocks to receive, their offsets, the sizes of the blocks to send, their offsets.
__global__ void all(Ints *to, int *from, size_t *sizes, int *provided) {
  const rocshmem_team_t world = ROCSHMEM_TEAM_WORLD;
  const int me = rocshmem_my_pe(), n = rocshmem_n_pes();
  if (threadIdx.x == 0) {
    rocshmem_query_thread(provided);
    for (int i = 0; i < n + 2; i++) from[i] = 100 * me + i;
  }
  rocshmem_barrier_wg();
  rocshmem_int_alltoall_wg(world, to->at[0], from, 1);
  rocshmem_ctx_alltoallmem_wg(ROCSHMEM_CTX_DEFAULT, world, to->at[1], from, 4);
  rocshmem_ctx_broadcastmem_wg(ROCSHMEM_CTX_DEFAULT, world, to->at[2], from, 4 * n, n - 1);
  rocshmem_ctx_fcollectmem_wg(ROCSHMEM_CTX_DEFAULT, world, to->at[3], from, 4);
  rocshmem_ctx_int_sum_reduce_scatter_wg(ROCSHMEM_CTX_DEFAULT, world, to->at[4], from, 1);
  rocshmem_ctx_barrier_wg(ROCSHMEM_CTX_DEFAULT, world);
  if (threadIdx.x < warpSize) {
    rocshmem_ctx_int_alltoall_wave(ROCSHMEM_CTX_DEFAULT, world, to->at[5], from, 1);
    rocshmem_ctx_int_broadcast_wave(ROCSHMEM_CTX_DEFAULT, world, to->at[6], from, n, 0);
    rocshmem_ctx_int_fcollect_wave(ROCSHMEM_CTX_DEFAULT, world, to->at[7], from, 1);
    rocshmem_ctx_int_max_reduce_wave(ROCSHMEM_CTX_DEFAULT, world, to->at[8], from, n);
    rocshmem_ctx_barrier_wave(ROCSHMEM_CTX_DEFAULT, world);
  }
  if (threadIdx.x == 0) {
    // A barrier completes a put that does not wait.
    rocshmem_int_put_nbi(&to->at[9][me], from, 1, (me + 1) % n);
    rocshmem_ctx_barrier(ROCSHMEM_CTX_DEFAULT, world);
    rocshmem_threadfence_system();
    rocshmem_barrier();
  }
  rocshmem_barrier_wg();
  if (int(threadIdx.x) < n) {
    const int i = int(threadIdx.x);
    sizes[i] = sizes[2 * most + i] = size_t(1 + (me + i) % 2);
    sizes[most + i] = size_t(2 * (n - 1 - i));
    sizes[3 * most + i] = size_t(i % 2);
  }
  __syncthreads();
  rocshmem_int_alltoallv_wg(world, to->at[10], sizes, sizes + most, from, sizes + 2 * most,
                            sizes + 3 * most);
}

void check(const Ints &got, int me, int n) {
  int sum = 0;
  for (int pe = 0; pe < n; pe++) sum += 100 * pe + me;
  for (int i = 0; i < n; i++) {
    EXPECT(got.at[0][i] == 100 * i + me && got.at[1][i] == 100 * i + me);
    EXPECT(got.at[2][i] == 100 * (n - 1) + i);
    EXPECT(got.at[3][i] == 100 * i);
    EXPECT(got.at[5][i] == 100 * i + me);
    EXPECT(got.at[6][i] == i);
    EXPECT(got.at[7][i] == 100 * i);
    EXPECT(got.at[8][i] == 100 * (n - 1) + i);
    const int *const part = got.at[10] + 2 * (n - 1 - i), first = 100 * i + me % 2;
    EXPECT(part[0] == first && part[1] == ((me + i) % 2 ? first + 1 : 0));
  }
  EXPECT(got.at[4][0] == sum);
  const int left = (me + n - 1) % n;
  EXPECT(got.at[9][left] == 100 * left);
}

void streams(int me, int n) {
  const rocshmem_team_t world = ROCSHMEM_TEAM_WORLD;
  hipStream_t stream;
  EXPECT(hipStreamCreate(&stream) == hipSuccess);
  auto *from = static_cast<int *>(rocshmem_calloc(4 * most, sizeof(int)));
  int host[4 * most], mine[most];
  EXPECT(hipMemcpy(host, from, sizeof host, hipMemcpyDeviceToHost) == hipSuccess);
  for (int word : host) EXPECT(word == 0);
  for (int i = 0; i < n; i++) mine[i] = 100 * me + i;
  EXPECT(hipMemcpy(from, mine, sizeof mine, hipMemcpyHostToDevice) == hipSuccess);
  rocshmem_sync_all_on_stream(stream);
  rocshmem_alltoallmem_on_stream(world, from + most, from, 4, stream);
  rocshmem_broadcastmem_on_stream(world, from + 2 * most, from, 4 * size_t(n), 0, stream);
  rocshmem_ctx_int_sum_reduce_on_stream(ROCSHMEM_CTX_DEFAULT, world, from + 3 * most, from, 1,
                                        stream);
  rocshmem_quiet_on_stream(stream);
  rocshmem_barrier_all_on_stream(stream);
  EXPECT(hipStreamSynchronize(stream) == hipSuccess);
  EXPECT(hipMemcpy(host, from, sizeof host, hipMemcpyDeviceToHost) == hipSuccess);
  for (int i = 0; i < n; i++) EXPECT(host[most + i] == 100 * i + me && host[2 * most + i] == i);
  EXPECT(host[3 * most] == 50 * n * (n - 1));
  rocshmem_free(from);
  EXPECT(hipStreamDestroy(stream) == hipSuccess);
}

// By the host, on a team of two dimensions.
void host(int me, int n) {
  rocshmem_team_t row, column;
  EXPECT(rocshmem_team_split_2d(ROCSHMEM_TEAM_WORLD, 2, nullptr, 0, &row, nullptr, 0, &column) ==
         0);
  const int first = me - me % 2, in_row = rocshmem_team_n_pes(row);
  EXPECT(in_row == (first + 1 < n ? 2 : 1) && rocshmem_team_my_pe(row) == me % 2);
  auto *word = static_cast<int *>(rocshmem_align(1024, 3 * sizeof(int)));
  EXPECT(word && uintptr_t(word) % 1024 == 0 && !rocshmem_align(3, 8));
  int mine = me, got[3] = {};
  EXPECT(hipMemcpy(word, &mine, sizeof mine, hipMemcpyHostToDevice) == hipSuccess);
  rocshmem_barrier_all();
  rocshmem_ctx_int_sum_reduce(ROCSHMEM_CTX_DEFAULT, row, word + 1, word, 1);
  rocshmem_ctx_int_broadcast(ROCSHMEM_CTX_DEFAULT, row, word + 2, word, 1, in_row - 1);
  rocshmem_barrier_all();
  EXPECT(hipMemcpy(got, word, sizeof got, hipMemcpyDeviceToHost) == hipSuccess);
  EXPECT(got[1] == (in_row == 2 ? 2 * first + 1 : first));
  EXPECT(got[2] == first + in_row - 1);
  rocshmem_free(word);
  rocshmem_team_destroy(row);
  rocshmem_team_destroy(column);
}

void memory(int me, int n) {
  void *private_side = malloc(4096), *symmetric = nullptr;
  EXPECT(rocshmem_buffer_register(private_side, 4096) == ROCSHMEM_SUCCESS);
  EXPECT(rocshmem_buffer_unregister(private_side) == ROCSHMEM_SUCCESS);
  rocshmem_buffer_unregister_all();
  free(private_side);
  EXPECT(hipMalloc(&symmetric, 1 << 16) == hipSuccess);
  for (int way = 0; way < 2; way++) {
    if (way == 0)
      EXPECT(rocshmem_buffer_register_symmetric(symmetric, 1 << 16) == symmetric);
    else
      EXPECT(rocshmem_sym_buffer_register(symmetric, 1 << 16, me, n, 0) == ROCSHMEM_SUCCESS);
    int got = -1;
    rocshmem_int_p(static_cast<int *>(symmetric), me + way, (me + 1) % n);
    rocshmem_barrier_all();
    EXPECT(hipMemcpy(&got, symmetric, sizeof got, hipMemcpyDeviceToHost) == hipSuccess);
    EXPECT(got == (me + n - 1) % n + way);
    rocshmem_barrier_all();
    if (way == 0)
      EXPECT(rocshmem_buffer_unregister_symmetric(symmetric) == ROCSHMEM_SUCCESS);
    else
      EXPECT(rocshmem_sym_buffer_unregister(symmetric) == ROCSHMEM_SUCCESS);
  }
  EXPECT(rocshmem_sym_buffer_unregister(symmetric) == ROCSHMEM_ERROR);
  EXPECT(hipFree(symmetric) == hipSuccess);
}

} // namespace

int main() {
  rocshmem_init();
  const int me = rocshmem_my_pe(), n = rocshmem_n_pes();
  int major, minor, patch;
  char name[ROCSHMEM_MAX_NAME_LEN];
  rocshmem_info_get_version(&major, &minor);
  rocshmem_info_get_name(name);
  EXPECT(major == ROCSHMEM_MAJOR_VERSION && minor == ROCSHMEM_MINOR_VERSION);
  EXPECT(!strcmp(name, ROCSHMEM_VENDOR_STRING));
  rocshmem_vendor_get_version_info(&major, &minor, &patch);
  EXPECT(major == SHMEM_VENDOR_MAJOR_VERSION);

  auto *to = static_cast<Ints *>(rocshmem_calloc(1, sizeof(Ints)));
  auto *from = static_cast<int *>(rocshmem_malloc((most + 1) * sizeof(int)));
  auto *sizes = static_cast<size_t *>(rocshmem_malloc(4 * most * sizeof(size_t)));
  Ints got;
  int provided = -1;
  hipLaunchKernelGGL(all, dim3(1), dim3(128), 0, nullptr, to, from, sizes, from + most);
  EXPECT(hipDeviceSynchronize() == hipSuccess);
  EXPECT(hipMemcpy(&got, to, sizeof got, hipMemcpyDeviceToHost) == hipSuccess);
  EXPECT(hipMemcpy(&provided, from + most, sizeof provided, hipMemcpyDeviceToHost) == hipSuccess);
  EXPECT(provided == ROCSHMEM_THREAD_MULTIPLE);
  check(got, me, n);
  rocshmem_free(sizes);
  rocshmem_free(from);
  rocshmem_free(to);
  streams(me, n);
  host(me, n);
  memory(me, n);
  if (wrong) rocshmem_global_exit(1);
  rocshmem_finalize();
  return EXIT_SUCCESS;
}
