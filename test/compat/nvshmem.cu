// SPDX-License-Identifier: MIT
// A program as NVSHMEM's users write it, in CUDA and NVSHMEM's names alone: like the examples of
// its documentation. Each part checks its results.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t e = (call);                                                                        \
    if (e != cudaSuccess) {                                                                        \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));                                   \
      nvshmem_global_exit(1);                                                                      \
    }                                                                                              \
  } while (0)

static int errors;
static void expect(bool right, const char *what, long got, long want) {
  if (right) return;
  fprintf(stderr, "PE %d: %s: %ld, not %ld\n", nvshmem_my_pe(), what, got, want);
  errors++;
}
template <class T> static T first_of(const T *device) {
  T value;
  CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

// A shift to the right by one thread.
__global__ void shift(int *to) {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  nvshmem_int_p(to, me, (me + 1) % n);
}

// A ring in one kernel: the number goes round once and grows by one at each PE.
__global__ void ring(int *data, uint64_t *signal) {
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  if (me > 0) {
    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, 1);
    *data += 1;
  }
  if (me < n - 1) nvshmem_int_put_signal(data, data, 1, signal, 1, NVSHMEM_SIGNAL_SET, me + 1);
  nvshmem_quiet();
}

// A block puts its part with a signal, and each waits for those of all. Comparisons have other
// numbers here, so each of them is asked for.
__global__ void gather(float *all, const float *mine, size_t n, uint64_t *arrived, int *wrong) {
  const int me = nvshmem_my_pe(), npes = nvshmem_n_pes();
  for (int pe = 0; pe < npes; pe++)
    nvshmemx_float_put_signal_nbi_block(all + me * n, mine, n, arrived, 1, NVSHMEM_SIGNAL_ADD, pe);
  if (threadIdx.x == 0) {
    nvshmem_signal_wait_until(arrived, NVSHMEM_CMP_GE, uint64_t(npes));
    const uint64_t all_came = uint64_t(npes);
    *wrong += !nvshmem_uint64_test(arrived, NVSHMEM_CMP_EQ, all_came);
    *wrong += nvshmem_uint64_test(arrived, NVSHMEM_CMP_NE, all_came);
    *wrong += nvshmem_uint64_test(arrived, NVSHMEM_CMP_GT, all_came);
    *wrong += !nvshmem_uint64_test(arrived, NVSHMEM_CMP_LE, all_came);
    *wrong += nvshmem_uint64_test(arrived, NVSHMEM_CMP_LT, all_came);
    *wrong += !nvshmem_uint64_test(arrived, NVSHMEM_CMP_LT, all_came + 1);
    *wrong += !nvshmem_uint64_test(arrived, NVSHMEM_CMP_GT, all_came - 1);
  }
  __syncthreads();
}

// Every third element by a warp, atomics, and a barrier of the block's.
__global__ void mixed(int *to, const int *from, int *counter, nvshmem_team_t team) {
  const int me = nvshmem_team_my_pe(team), n = nvshmem_team_n_pes(team);
  const int right = nvshmem_team_translate_pe(team, (me + 1) % n, NVSHMEM_TEAM_WORLD);
  if (threadIdx.x < warpSize) nvshmemx_int_iput_warp(to, from, 3, 1, 40, right);
  if (threadIdx.x == 0) {
    nvshmem_int_atomic_inc(counter, 0);
    nvshmem_int_atomic_add(counter, 10, 0);
  }
  nvshmemx_barrier_block(team);
}

__global__ void sum(float *to, const float *from, size_t n) {
  nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, to, from, n);
}

// Launched by nvshmemx_collective_launch.
__global__ void meet(int *met) {
  if (blockIdx.x == 0) {
    nvshmemx_barrier_all_block();
    if (threadIdx.x == 0) *met = *met + 1;
  }
}

// The same 16 bits in a type that is not ours.
struct Half {
  unsigned short bits;
};
__global__ void halves(Half *to, int right) {
  Half h;
  h.bits = 0x3c01;
  nvshmem_half_p(to, h, right);
  nvshmem_half_put(to + 1, to + 2, 1, right);
}

int main() {
  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_init_attr(0, &attr);
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes(), left = (me + n - 1) % n;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));

  int *number = static_cast<int *>(nvshmem_calloc(1, sizeof(int)));
  shift<<<1, 1, 0, stream>>>(number);
  nvshmemx_barrier_all_on_stream(stream);
  CHECK(cudaStreamSynchronize(stream));
  expect(first_of(number) == left, "shift", first_of(number), left);

  uint64_t *signal = static_cast<uint64_t *>(nvshmem_calloc(1, sizeof(uint64_t)));
  const int start = 100;
  CHECK(cudaMemcpy(number, &start, sizeof start, cudaMemcpyHostToDevice));
  // The copy may still be under way when it returns.
  CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  ring<<<1, 1, 0, stream>>>(number, signal);
  CHECK(cudaStreamSynchronize(stream));
  expect(first_of(number) == 100 + me, "ring", first_of(number), 100 + me);

  const size_t count = 1000;
  float *host = static_cast<float *>(malloc(count * n * sizeof(float)));
  float *mine = static_cast<float *>(nvshmem_align(1024, count * sizeof(float)));
  expect(reinterpret_cast<uintptr_t>(mine) % 1024 == 0, "nvshmem_align", 1, 0);
  float *all = static_cast<float *>(nvshmem_malloc(count * n * sizeof(float)));
  uint64_t *arrived = static_cast<uint64_t *>(nvshmem_calloc(1, sizeof(uint64_t)));
  int *wrong = static_cast<int *>(nvshmem_calloc(1, sizeof(int)));
  for (size_t i = 0; i < count; i++) host[i] = float(me * 1000 + int(i % 7));
  CHECK(cudaMemcpy(mine, host, count * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  gather<<<1, 128, 0, stream>>>(all, mine, count, arrived, wrong);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(host, all, count * n * sizeof(float), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < count * n; i++) {
    const int want = int(i / count) * 1000 + int(i % count % 7);
    if (host[i] != float(want)) expect(false, "gather", long(host[i]), want);
  }
  expect(first_of(wrong) == 0, "comparisons", first_of(wrong), 0);

  // Memory of cudaMalloc's, symmetric where it is.
  int *own_memory = nullptr;
  CHECK(cudaMalloc(&own_memory, 4 << 20));
  int *const registered =
      static_cast<int *>(nvshmemx_buffer_register_symmetric(own_memory, 4 << 20, 0));
  shift<<<1, 1, 0, stream>>>(registered + 1000);
  nvshmemx_barrier_all_on_stream(stream);
  CHECK(cudaStreamSynchronize(stream));
  expect(first_of(registered + 1000) == left, "registered", first_of(registered + 1000), left);
  expect(!nvshmemx_buffer_unregister_symmetric(registered, 4 << 20), "unregister", 1, 0);
  expect(nvshmemx_buffer_unregister_symmetric(registered, 4 << 20), "twice", 0, 1);
  CHECK(cudaFree(own_memory));

  // A team of every other PE, and the rest of them.
  nvshmem_team_t team = NVSHMEM_TEAM_INVALID, other = NVSHMEM_TEAM_INVALID;
  nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, nullptr, 0, &team);
  if (n > 1) nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 1, 2, n / 2, nullptr, 0, &other);
  const nvshmem_team_t own = team != NVSHMEM_TEAM_INVALID ? team : other;
  int *from = static_cast<int *>(nvshmem_calloc(120, sizeof(int)));
  int *to = static_cast<int *>(nvshmem_calloc(120, sizeof(int)));
  int *counter = static_cast<int *>(nvshmem_calloc(1, sizeof(int)));
  int ints[120];
  for (int i = 0; i < 120; i++) ints[i] = me * 1000 + i;
  CHECK(cudaMemcpy(from, ints, sizeof ints, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  nvshmem_barrier_all();
  mixed<<<1, 64, 0, stream>>>(to, from, counter, own);
  CHECK(cudaStreamSynchronize(stream));
  nvshmem_barrier_all();
  CHECK(cudaMemcpy(ints, to, sizeof ints, cudaMemcpyDeviceToHost));
  const int members = nvshmem_team_n_pes(own), rank = nvshmem_team_my_pe(own);
  const int before =
      nvshmem_team_translate_pe(own, (rank + members - 1) % members, NVSHMEM_TEAM_WORLD);
  for (int i = 0; i < 120; i++) {
    const int want = i % 3 ? 0 : before * 1000 + i / 3;
    expect(ints[i] == want, "iput", ints[i], want);
  }
  if (me == 0) expect(first_of(counter) == 11 * n, "atomics", first_of(counter), 11 * n);

  // Collectives: in a kernel, on a stream, and by the host.
  float *sums = static_cast<float *>(nvshmem_malloc(count * sizeof(float)));
  for (int way = 0; way < 3; way++) {
    CHECK(cudaMemset(sums, 0, count * sizeof(float)));
    nvshmem_barrier_all();
    if (way == 0) sum<<<1, 256, 0, stream>>>(sums, mine, count);
    if (way == 1)
      nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, sums, mine, count, stream);
    if (way == 2) nvshmem_float_sum_reduce(NVSHMEM_TEAM_WORLD, sums, mine, count);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(host, sums, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
      const int want = 1000 * n * (n - 1) / 2 + n * int(i % 7);
      if (host[i] != float(want)) expect(false, "sum_reduce", long(host[i]), want);
    }
  }

  // Puts and signals of a stream.
  nvshmemx_putmem_signal_nbi_on_stream(all, mine, count * sizeof(float), signal, 5,
                                       NVSHMEM_SIGNAL_SET, (me + 1) % n, stream);
  nvshmemx_signal_wait_until_on_stream(signal, NVSHMEM_CMP_EQ, 5, stream);
  nvshmemx_quiet_on_stream(stream);
  CHECK(cudaStreamSynchronize(stream));
  expect(first_of(all) == float(left * 1000), "put_signal_on_stream", long(first_of(all)),
         left * 1000);

  Half *half = static_cast<Half *>(nvshmem_calloc(4, sizeof(Half)));
  halves<<<1, 1, 0, stream>>>(half, (me + 1) % n);
  nvshmemx_barrier_on_stream(NVSHMEM_TEAM_WORLD, stream);
  CHECK(cudaStreamSynchronize(stream));
  expect(first_of(half).bits == 0x3c01, "half_p", first_of(half).bits, 0x3c01);

  int *met = static_cast<int *>(nvshmem_calloc(1, sizeof(int)));
  void *arguments[] = {&met};
  if (nvshmemx_collective_launch(meet, dim3(2), dim3(64), arguments, 0, stream) != 0)
    expect(false, "nvshmemx_collective_launch", 1, 0);
  CHECK(cudaStreamSynchronize(stream));
  expect(first_of(met) == 1, "collective_launch", first_of(met), 1);

  nvshmem_barrier_all();
  nvshmem_free(mine);
  nvshmem_free(all);
  free(host);
  if (errors) nvshmem_global_exit(1);
  CHECK(cudaStreamDestroy(stream));
  nvshmem_finalize();
  return 0;
}
