// SPDX-License-Identifier: MIT
// Kernels: geometry, shared memory, meetings of blocks and waves, blocks that wait for each other.
#include "platform.hpp"
#include <algorithm>
#include <vector>

namespace {

constexpr int sizes[] = {1, 2, 63, 64, 65, 127, slow ? 200 : 1000, slow ? 256 : 1024};
constexpr int largest = sizes[7];

template <class T> T *allocate(size_t n) {
  T *p;
  OK(hipMalloc(&p, n * sizeof *p));
  return p;
}
void finish() {
  OK(hipGetLastError());
  OK(hipDeviceSynchronize());
}

__global__ void write_place(uint32_t *out) {
  const dim3 b = blockDim, g = gridDim;
  uint32_t thread = threadIdx.x + b.x * (threadIdx.y + b.y * threadIdx.z);
  uint32_t block = blockIdx.x + g.x * (blockIdx.y + g.y * blockIdx.z);
  out[block * (b.x * b.y * b.z) + thread] += hip_cpu::in_kernel() ? block * 10000 + thread + 1 : 0;
}
void geometry(void **) {
  const struct {
    dim3 grid, block;
  } shapes[] = {
      {1, 1}, {100, 7}, {{3, 4, 5}, {2, 3, 4}}, {{1, 1, 9}, {1, 1024, 1}}, {2, {4, 4, 64}}};
  for (auto [g, b] : shapes) {
    const uint32_t threads = b.x * b.y * b.z, n = threads * g.x * g.y * g.z;
    auto *out = allocate<uint32_t>(n);
    hipLaunchKernelGGL(write_place, g, b, 0, 0, out);
    finish();
    for (uint32_t i = 0; i < n; i++) CHECK(out[i] == i / threads * 10000 + i % threads + 1);
    OK(hipFree(out));
  }
  CHECK(!hip_cpu::in_kernel());
}

// Each thread passes a value on to the one that mirrors it, through both kinds of shared memory.
// Those beyond n end before the others meet.
__global__ void mirror(int *out, int n, int rounds) {
  __shared__ int kept[1024];
  HIP_DYNAMIC_SHARED(int, more)
  const int me = int(threadIdx.x);
  if (me >= n) return;
  int value = me * 3 + int(blockIdx.x);
  for (int i = 0; i < rounds; i++) {
    (i % 2 ? more : kept)[me] = value;
    __syncthreads();
    value = (i % 2 ? more : kept)[n - 1 - me] + 1;
    __syncthreads();
  }
  out[int(blockIdx.x) * n + me] = value;
}
void shared(void **) {
  for (int n : sizes)
    for (int threads : {n, largest}) {
      const int blocks = slow ? 5 : 20;
      int *out = allocate<int>(size_t(n) * blocks);
      hipLaunchKernelGGL(mirror, blocks, threads, n * sizeof(int), nullptr, out, n, 4);
      finish();
      for (int i = 0; i < n * blocks; i++) CHECK(out[i] == i % n * 3 + i / n + 4);
      OK(hipFree(out));
    }
}

__global__ void vote(int *out) {
  const int me = int(threadIdx.x), n = int(blockDim.x);
  int bad = 0;
  for (int k = 1; k <= n; k = k * 3 + 1) {
    bad += __syncthreads_count(me < k) != k;
    bad += __syncthreads_and(me < k) != (k == n);
    bad += !__syncthreads_and(me < n);
    bad += __syncthreads_or(me >= k) != (k < n);
    bad += __syncthreads_or(me == k - 1) != 1;
  }
  if (bad) atomicAdd(out, bad);
}

// The lane that lane i of a wave of n lanes reads, by the definition.
int source(char op, int i, int arg, int width, int n) {
  int first = i / width * width, from = i;
  if (op == 'i') from = first + ((arg % width) + width) % width;
  if (op == 'u' && i - arg >= first) from = i - arg;
  if (op == 'd' && i + arg < first + width) from = i + arg;
  if (op == 'x' && (i ^ arg) < first + width) from = i ^ arg;
  return from < n ? from : -1;
}
template <class T> __global__ void shuffle(int *bad) {
  const int me = int(threadIdx.x), lane = me % 64, first = me - lane;
  const int n = std::min(64, int(blockDim.x) - first);
  auto value = [first](int l) { return l < 0 ? T(0) : T(first + l) * T(5) + T(0.5); };
  int wrong = int(__lane_id()) != lane;
  for (int width = slow ? 16 : 2; width <= 64; width *= 2)
    for (int arg : {0, 1, 3, width - 1, width, 40}) {
      wrong += __shfl(value(lane), arg, width) != value(source('i', lane, arg, width, n));
      wrong +=
          __shfl_up(value(lane), unsigned(arg), width) != value(source('u', lane, arg, width, n));
      wrong +=
          __shfl_down(value(lane), unsigned(arg), width) != value(source('d', lane, arg, width, n));
      wrong += __shfl_xor(value(lane), arg, width) != value(source('x', lane, arg, width, n));
    }
  const uint64_t all = n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1;
  const uint64_t thirds = 0x9249249249249249;
  wrong += __ballot(lane % 3 == 0) != (thirds & all) || __ballot(1) != all || __ballot(0) != 0;
  wrong += __any(lane == 0) != 1 || __any(0) != 0 || __all(1) != 1 || __all(lane != 0) != 0;
  if (wrong) atomicAdd(bad, wrong);
}
// Lanes leave one by one, and the rest go on.
__global__ void dwindle(int *bad) {
  const int me = int(threadIdx.x), lane = me % 64, n = std::min(64, int(blockDim.x) - me + lane);
  for (int i = 0; i < n; i++) {
    if (lane < i) return;
    uint64_t all = (n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1) & (~uint64_t(0) << i);
    if (__ballot(1) != all || __shfl(lane, i) != i) atomicAdd(bad, 1);
  }
}
void waves(void **) {
  int *bad = allocate<int>(1);
  for (int n : sizes) {
    hipLaunchKernelGGL(vote, slow ? 1 : 3, n, 0, nullptr, bad);
    hipLaunchKernelGGL(shuffle<int>, 1, n, 0, nullptr, bad);
    hipLaunchKernelGGL((shuffle<double>), 1, n, 0, nullptr, bad);
    hipLaunchKernelGGL(shuffle<uint64_t>, 1, n, 0, nullptr, bad);
    hipLaunchKernelGGL(dwindle, 1, n, 0, nullptr, bad);
    finish();
    CHECK(*bad == 0);
  }
  OK(hipFree(bad));
  CHECK(__popc(0xf0f) == 8 && __popcll(~0ULL) == 64 && __ffs(8) == 4 && __ffsll(0) == 0 &&
        __clz(1) == 31 && __clz(0) == 32 && __clzll(1) == 63);
}

// A value goes round through all threads of all blocks, several times: each waits for the one
// before.
__global__ void ring(int *turn, int rounds) {
  const int n = int(gridDim.x * blockDim.x), me = int(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = 0; i < rounds; i++) {
    while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != i * n + me) hip_cpu::pause();
    hip_cpu::progress();
    __atomic_store_n(turn, i * n + me + 1, __ATOMIC_RELEASE);
  }
}
// The same with relaxed accesses and fences.
__global__ void pass(int *data, int *flags) {
  const int b = int(blockIdx.x), n = int(gridDim.x);
  for (int i = 1; i <= 5; i++) {
    if (threadIdx.x == 0) {
      if (b > 0 || i > 1)
        while (atomicAdd(&flags[b], 0) != i) hip_cpu::pause();
      __threadfence();
      *data += 1;
      __threadfence_system();
      atomicExch_system(&flags[(b + 1) % n], b + 1 == n ? i + 1 : i);
    }
    __syncthreads();
  }
}
void waiting(void **) {
  int units, per_unit;
  OK(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, 0));
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&per_unit, ring, 64, 0));
  const int resident = units * per_unit;
  CHECK(resident >= 4);
  int *turn = allocate<int>(1), *flags = allocate<int>(size_t(resident));
  for (int threads : {1, 10}) {
    *turn = 0;
    hipLaunchKernelGGL(ring, resident, threads, 0, nullptr, turn, 5);
    finish();
    CHECK(*turn == resident * threads * 5);
  }
  *turn = 0;
  hipLaunchKernelGGL(pass, resident, 70, 0, nullptr, turn, flags);
  finish();
  CHECK(*turn == resident * 5);

  // all at once, or not at all
  void *arguments[2];
  int rounds = 3;
  arguments[0] = &turn;
  arguments[1] = &rounds;
  *turn = 0;
  OK(hipLaunchCooperativeKernel(ring, resident, 2, arguments, 0, nullptr));
  finish();
  CHECK(*turn == resident * 2 * 3);
  FAILS(hipLaunchCooperativeKernel(ring, resident + 1, 2, arguments, 0, nullptr),
        hipErrorCooperativeLaunchTooLarge);
  (void)hipGetLastError();
  OK(hipFree(turn));
  OK(hipFree(flags));
}

// Two processes with a flag each in the memory of one, as many blocks as there are.
__global__ void ping_pong(int *mine, int *theirs, int rounds) {
  const int b = int(blockIdx.x);
  if (threadIdx.x == 0)
    for (int i = 1; i <= rounds; i++) {
      __atomic_store_n(&theirs[b], i, __ATOMIC_RELEASE);
      while (__atomic_load_n(&mine[b], __ATOMIC_ACQUIRE) < i) hip_cpu::pause();
    }
  __syncthreads();
}
void processes(void **) {
  constexpr int n = 8, blocks = 4, rounds = 20; // on however few cores
  int ready[2];
  CHECK(pipe(ready) == 0);
  hipIpcMemHandle_t handle;
  int *flags = allocate<int>(n * blocks);
  OK(hipIpcGetMemHandle(&handle, flags));
  fflush(stdout);
  pid_t pids[n];
  for (int i = 0; i < n; i++)
    if ((pids[i] = fork()) == 0) {
      int *p = nullptr;
      STEP(hipIpcOpenMemHandle(reinterpret_cast<void **>(&p), handle, 0) == hipSuccess);
      hipLaunchKernelGGL(ping_pong, blocks, 3, 0, nullptr, p + i * blocks, p + (i ^ 1) * blocks,
                         rounds);
      STEP(hipDeviceSynchronize() == hipSuccess);
      _exit(0);
    }
  for (pid_t pid : pids) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
  OK(hipFree(flags));
}

struct Big { // an argument that is more than a word
  double d[20];
  char c;
};
__device__ int counter = 5;
__constant__ float factor;
__global__ void atomics(Big big, int *i, double *d, uint64_t *u, float *f) {
  atomicAdd(&i[0], 1);
  atomicSub(&i[1], 2);
  atomicMin(&i[2], -int(threadIdx.x));
  atomicMax(&i[3], int(blockIdx.x * 100 + threadIdx.x));
  atomicInc(reinterpret_cast<unsigned *>(&i[4]), 9u);
  int old = atomicAdd(&i[5], 0), seen;
  while ((seen = atomicCAS(&i[5], old, old + 1)) != old) old = seen;
  atomicAdd_system(d, big.d[19]);
  atomicOr(&u[0], 1ULL << threadIdx.x % 64);
  atomicXor(&u[1], 1);
  atomicAnd(&u[2], ~(1ULL << threadIdx.x % 64));
  atomicAdd(f, factor);
  atomicAdd(&counter, big.c);
}
void updates(void **) {
  int *i = allocate<int>(6);
  auto *d = allocate<double>(1);
  auto *u = allocate<uint64_t>(3);
  auto *f = allocate<float>(1);
  const float half = 0.5;
  u[2] = ~uint64_t(0);
  Big big{};
  big.d[19] = 0.25;
  big.c = 2;
  OK(hipMemcpyToSymbol(HIP_SYMBOL(factor), &half, sizeof half));
  hipLaunchKernelGGL(atomics, 13, 100, 0, nullptr, big, i, d, u, f);
  finish();
  CHECK(i[0] == 1300 && i[1] == -2600 && i[2] == -99 && i[3] == 1299 && i[4] == 0 && i[5] == 1300);
  CHECK(*d == 325 && u[0] == ~uint64_t(0) && u[1] == 0 && u[2] == 0 && *f == 650);
  int now;
  OK(hipMemcpyFromSymbol(&now, HIP_SYMBOL(counter), sizeof now));
  CHECK(now == 2605);
  for (void *p : {static_cast<void *>(i), static_cast<void *>(d), static_cast<void *>(u),
                  static_cast<void *>(f)})
    OK(hipFree(p));
}

__global__ void nothing() {}
void mistakes(void **) {
  const struct {
    dim3 grid, block;
    size_t shared;
    hipError_t error;
  } wrong[] = {{1, 1025, 0, hipErrorInvalidConfiguration},
               {1, {32, 33}, 0, hipErrorInvalidConfiguration},
               {1, 0, 0, hipErrorInvalidConfiguration},
               {{1, 0}, 1, 0, hipErrorInvalidConfiguration},
               {{1 << 20, 1 << 20}, 1, 0, hipErrorInvalidConfiguration},
               {1, 1, 65537, hipErrorInvalidValue}};
  for (auto [grid, block, bytes, error] : wrong) {
    hipLaunchKernelGGL(nothing, grid, block, bytes, nullptr);
    FAILS(hipGetLastError(), error);
  }
  hip_cpu::fail_call("hipLaunchKernel", 2, hipErrorLaunchOutOfResources);
  hipLaunchKernelGGL(nothing, 1, 1, 0, nullptr);
  OK(hipGetLastError());
  hipLaunchKernelGGL(nothing, 1, 1, 0, nullptr);
  FAILS(hipGetLastError(), hipErrorLaunchOutOfResources);
  hip_cpu::fail_call(nullptr, 0, hipSuccess);
}

__global__ void stuck() {
  if (threadIdx.x % 2)
    __syncthreads();
  else
    __shfl(1, 0);
}
void ends(void **) {
  CHECK(in_child([] {
          hipLaunchKernelGGL(stuck, 1, 8, 0, nullptr);
          return int(hipDeviceSynchronize());
        }) == 128 + SIGABRT);
}

// Threads of one block race where nothing orders them: without the first meeting TSan must speak,
// with it it must not.
__global__ void neighbours(int *v, bool meet) {
  const int me = int(threadIdx.x);
  v[me] = me;
  if (meet)
    __syncthreads();
  else
    hip_cpu::pause(); // so that each has a fiber of its own
  const int other = v[(me + 1) % int(blockDim.x)];
  __syncthreads();
  v[me] += other;
}
int run_neighbours(bool meet) {
  int *v;
  if (hipMalloc(&v, 70 * sizeof *v)) return 2;
  hipLaunchKernelGGL(neighbours, 1, 70, 0, nullptr, v, meet);
  return hipDeviceSynchronize() == hipSuccess && v[68] == 68 + 69 ? 0 : 3;
}
const char *self;
void races(void **) {
  CHECK(run_again(self, "meet") == 0);
  CHECK(run_again(self, "race") == (with_tsan ? 66 : 0));
}

} // namespace

int main(int argc, char **argv) {
  self = argv[0];
  if (argc > 1) return run_neighbours(strcmp(argv[1], "meet") == 0);
  // TSan wants to fork before there are threads
  const CMUnitTest tests[] = {
      cmocka_unit_test(races),    cmocka_unit_test(processes), cmocka_unit_test(ends),
      cmocka_unit_test(geometry), cmocka_unit_test(shared),    cmocka_unit_test(waves),
      cmocka_unit_test(waiting),  cmocka_unit_test(updates),   cmocka_unit_test(mistakes),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
