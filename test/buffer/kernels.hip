// SPDX-License-Identifier: MIT
// Kernels, streams and graphs that work on the program's own memory of the GPU while other buffers
// come and go. Usage: kernels [past|outside], which ends the job.
#include "objects.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hip/hip_runtime.h>
#include <shmem/device/shmem.hpp>
#include <shmemx.h>
#include <vector>

namespace {

int me, npes, next, left;
hipStream_t stream;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "PE %d: %s:%d: %s\n", me, __FILE__, __LINE__, #condition);                   \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == hipSuccess)

template <class T> T *on_gpu(size_t n) {
  T *p;
  OK(hipMalloc(&p, n * sizeof(T) < (2 << 20) ? 2 << 20 : n * sizeof(T)));
  OK(hipMemset(p, 0, n * sizeof(T)));
  OK(hipDeviceSynchronize());
  return p;
}
template <class T> T seen(const T *p) {
  T v;
  OK(hipMemcpyAsync(&v, p, sizeof v, hipMemcpyDeviceToHost, stream));
  OK(hipStreamSynchronize(stream));
  return v;
}

// Each thread has a buffer of its own, of `each` longs from base + step * i on, and puts to its
// last element and the next buffer's first.
__global__ void put_all(long *base, size_t step, size_t each, int count, int value, int pe) {
  for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) {
    shmem_long_p(base + step * size_t(i), value + i, pe);
    shmem_long_p(base + step * size_t(i) + each - 1, -value - i, pe);
  }
  shmem_quiet();
}
__global__ void ask(long *p, long *gap, int pe, int *result) {
  result[0] = shmem_addr_accessible(p, pe);
  result[1] = shmem_addr_accessible(gap, pe);
  result[2] = shmem_ptr(gap, pe) == nullptr;
  const auto *there = static_cast<long *>(shmem_ptr(p, pe));
  result[3] = int(there ? *there : shmem_long_g(p, pe));
  result[4] = !there;
}
// Waits for a flag of the heap, and then puts.
__global__ void wait_and_put(uint64_t *flag, long *dest, long value, int pe) {
  shmem_uint64_wait_until(flag, SHMEM_CMP_GE, 1);
  shmem_long_p(dest, value, pe);
  shmem_quiet();
}
// Each thread tells of one PE.
__global__ void who_has(long *p, int *has) {
  const int pe = int(threadIdx.x);
  has[2 * pe] = shmem_addr_accessible(p, pe);
  has[2 * pe + 1] = shmem_ptr(p, pe) != nullptr;
}
__global__ void put_outside(long *dest, int me) {
  if (threadIdx.x == 2) shmem_long_p(dest, 1, me == 1 ? 0 : me);
}
// A member's part: it passes a number on, and then all sum up.
__global__ void work_in_team(shmem_team_t team, long *a, int to, long value) {
  auto *sig = reinterpret_cast<uint64_t *>(a + 4);
  if (threadIdx.x == 0) {
    shmem_long_put_signal(a, &value, 1, sig, 1, SHMEM_SIGNAL_SET, to);
    shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 1);
  }
  __syncthreads();
  shmemx_long_sum_reduce_wg(team, a + 1, a, 3);
}
__global__ void put_past(long *dest) {
  if (threadIdx.x == 3) shmem_long_put(dest, dest, 2, shmem_my_pe());
}

// As many as there may be, with gaps; and then every third is gone.
void many() {
  constexpr int count = 1024;
  constexpr size_t each = 6, step = 8;
  long *all = on_gpu<long>(count * step + size_t(npes) * 2) + size_t(me) * 2;
  std::vector<shmemx_buffer_t> handles(count);
  const auto check = [&](int value, int by) {
    std::vector<long> host(count * step);
    OK(hipDeviceSynchronize());
    shmem_barrier_all();
    OK(hipMemcpy(host.data(), all, host.size() * sizeof(long), hipMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) {
      const bool there = i % by == 0 && value;
      if (!there) continue;
      CHECK(host[size_t(i) * step] == value + i && host[size_t(i) * step + each - 1] == -value - i);
      CHECK(host[size_t(i) * step + each] == 0 && host[size_t(i) * step + 1] == 0);
    }
    shmem_barrier_all();
  };
  // In an order that is none of addresses.
  for (int i = 0; i < count; i++) {
    const int at = i * 389 % count;
    shmemx_buffer_register(all + size_t(at) * step, each * sizeof(long), &handles[size_t(at)]);
  }
  hipLaunchKernelGGL(put_all, dim3(1), dim3(64), 0, stream, all, step, each, count, 5000, next);
  check(5000, 1);
  int *result = on_gpu<int>(1024);
  hipLaunchKernelGGL(ask, dim3(1), dim3(1), 0, stream, all + 700 * step, all + 700 * step + each,
                     next, result);
  int answers[5];
  OK(hipMemcpyAsync(answers, result, sizeof answers, hipMemcpyDeviceToHost, stream));
  OK(hipStreamSynchronize(stream));
  CHECK(answers[0] == 1 && answers[1] == 0 && answers[2] == 1 && answers[3] == 5700);
  static long any; // which is mapped where buffers are
  CHECK(answers[4] == !shmem_ptr(&any, next));
  shmem_barrier_all();
  for (int i = 0; i < count; i++)
    if (i % 3) shmemx_buffer_unregister(handles[size_t(i)]);
  // Of the second one that came, which kernels know otherwise than those that came last.
  for (int gone : {389, 1000}) {
    hipLaunchKernelGGL(who_has, dim3(1), dim3(unsigned(npes)), 0, stream, all + size_t(gone) * step,
                       result);
    CHECK(seen(result + 2 * me) == 0 && seen(result + 2 * next) == 0);
  }
  hipLaunchKernelGGL(put_all, dim3(1), dim3(64), 0, stream, all, 3 * step, each, (count + 2) / 3,
                     9000, next);
  OK(hipStreamSynchronize(stream));
  shmem_barrier_all();
  for (int i = 0; i < (count + 2) / 3; i++)
    if (i % 50 == 0) CHECK(seen(all + size_t(3 * i) * step) == 9000 + i);
  for (int i = 0; i < count; i += 3) shmemx_buffer_unregister(handles[size_t(i)]);
}

// A kernel runs, and a graph has been captured, before others come; both still know theirs after.
void lasting() {
  auto *flag = static_cast<uint64_t *>(shmem_malloc_with_hints(8, SHMEMX_MALLOC_DEVICE));
  OK(hipMemset(flag, 0, 8));
  OK(hipDeviceSynchronize());
  long *mine = on_gpu<long>(1024), *other = on_gpu<long>(1024);
  shmemx_buffer_t handle, keep, others[8];
  shmemx_buffer_register(mine, 8192, &handle);
  // An allocation that has no buffer any more is closed, which waits for kernels.
  shmemx_buffer_register(other + 1000, 64, &keep);

  const long value = me + 77;
  OK(hipMemcpyAsync(mine + 10, &value, sizeof value, hipMemcpyHostToDevice, stream));
  OK(hipStreamSynchronize(stream));
  hipGraph_t graph;
  hipGraphExec_t exec;
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  shmemx_long_sum_reduce_on_stream(SHMEM_TEAM_WORLD, mine + 20, mine + 10, 1, stream);
  shmemx_long_put_on_stream(mine + 30, mine + 20, 1, next, stream);
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));

  shmem_barrier_all();
  hipLaunchKernelGGL(wait_and_put, dim3(1), dim3(1), 0, stream, flag, mine + 1, me + 1, next);
  for (int lap = 0; lap < 3; lap++) {
    for (int i = 0; i < 8; i++) shmemx_buffer_register(other + 64 * i, 512, &others[i]);
    for (int i = 0; i < 8; i++) shmemx_buffer_unregister(others[i]);
  }
  shmem_uint64_p(flag, 1, next);
  OK(hipStreamSynchronize(stream));
  shmem_barrier_all();
  CHECK(seen(mine + 1) == left + 1);

  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  shmem_barrier_all();
  CHECK(seen(mine + 20) == npes * 77L + npes * (npes - 1L) / 2);
  CHECK(seen(mine + 30) == seen(mine + 20));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
  shmem_barrier_all();
  shmemx_buffer_unregister(keep);
  shmemx_buffer_unregister(handle);
  shmem_free(flag);
}

// Of two teams, of even and of odd PEs; the latter have another one before theirs.
void teams() {
  shmem_team_t evens, odds;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (npes + 1) / 2, nullptr, 0, &evens);
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, nullptr, 0, &odds);
  const shmem_team_t team = me % 2 ? odds : evens;
  const int n = shmem_team_n_pes(team),
            to = shmem_team_translate_pe(team, (shmem_team_my_pe(team) + 1) % n, SHMEM_TEAM_WORLD);
  long *mine = on_gpu<long>(1024), *other = on_gpu<long>(1024);
  shmemx_buffer_t handle, before;
  if (me % 2) shmemx_team_buffer_register(team, other, 512, &before);
  shmemx_team_buffer_register(team, mine, 512, &handle);
  hipLaunchKernelGGL(work_in_team, dim3(1), dim3(64), 0, stream, team, mine, to, 1000L + me);
  int *has = on_gpu<int>(2 * size_t(npes));
  hipLaunchKernelGGL(who_has, dim3(1), dim3(unsigned(npes)), 0, stream, mine, has);
  OK(hipStreamSynchronize(stream));
  long sum = 0;
  static long any; // which is mapped where buffers are
  for (int pe = 0; pe < npes; pe++) {
    const bool member = pe % 2 == me % 2;
    if (member) sum += 1000 + pe;
    CHECK(seen(has + 2 * pe) == member);
    CHECK(seen(has + 2 * pe + 1) == (member && shmem_ptr(&any, pe)));
  }
  CHECK(seen(mine + 1) == sum);
  shmemx_long_sum_reduce_on_stream(team, mine + 16, mine + 1, 1, stream);
  shmemx_long_put_on_stream(mine + 17, mine + 16, 1, to, stream);
  shmemx_quiet_on_stream(stream);
  OK(hipStreamSynchronize(stream));
  shmem_team_sync(team);
  CHECK(seen(mine + 16) == n * sum && seen(mine + 17) == n * sum);
  shmem_team_sync(team);
  shmemx_buffer_unregister(handle);
  if (me % 2) shmemx_buffer_unregister(before);
  shmem_team_destroy(evens);
  shmem_team_destroy(odds);
}

// A buffer may begin between two of its words.
void between() {
  char *all = on_gpu<char>(64);
  long *word = reinterpret_cast<long *>(all + 8);
  shmemx_buffer_t handle;
  shmemx_buffer_register(all + 4, 60, &handle);
  hipLaunchKernelGGL(put_all, dim3(1), dim3(1), 0, stream, word, 0, 2, 1, me + 5, next);
  OK(hipStreamSynchronize(stream));
  shmem_barrier_all();
  CHECK(seen(word) == left + 5 && seen(word + 1) == -left - 5);
  shmem_barrier_all();
  if (atomics_on_coarse()) {
    CHECK(shmem_long_atomic_fetch_add(word, 2, next) == me + 5);
    shmem_barrier_all();
    CHECK(seen(word) == left + 7);
  }
  shmemx_buffer_unregister(handle);
}

} // namespace

int main(int argc, char **argv) {
  shmem_init();
  me = shmem_my_pe(), npes = shmem_n_pes(), next = (me + 1) % npes, left = (me + npes - 1) % npes;
  OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  if (argc > 1 && !strcmp(argv[1], "past")) {
    long *p = on_gpu<long>(64);
    shmemx_buffer_t handle;
    shmemx_buffer_register(p, 512, &handle);
    hipLaunchKernelGGL(put_past, dim3(1), dim3(4), 0, stream, p + (me == 1 ? 63 : 0));
    (void)hipStreamSynchronize(stream);
    shmem_barrier_all();
    return 8;
  }
  if (argc > 1 && !strcmp(argv[1], "outside")) { // of PEs 1 and 2
    shmem_team_t team;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 1, 2, nullptr, 0, &team);
    if (me) {
      long *p = on_gpu<long>(64);
      shmemx_buffer_t handle;
      shmemx_team_buffer_register(team, p, 512, &handle);
      hipLaunchKernelGGL(put_outside, dim3(1), dim3(4), 0, stream, p, me);
      (void)hipStreamSynchronize(stream);
    }
    shmem_barrier_all();
    return 8;
  }
  lasting();
  teams();
  between();
  many();
  lasting();
  OK(hipStreamDestroy(stream));
  shmem_finalize();
  return 0;
}
