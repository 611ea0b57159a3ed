// SPDX-License-Identifier: MIT
// A heap in device memory that grows and shrinks while a kernel runs that uses the new parts, and
// while graphs are captured that outlive that. `growing ROUNDS`; a fault ends the job.
#include <cstdio>
#include <cstdlib>
#include <shmem/device/shmem.hpp>

#define HIP(call)                                                                                  \
  do {                                                                                             \
    if (const hipError_t error = (call); error != hipSuccess) {                                    \
      fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error));                                \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)
#define CHECK(what, ...)                                                                           \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "PE %d: not true: %s: ", shmem_my_pe(), #what);                              \
      fprintf(stderr, __VA_ARGS__);                                                                \
      fprintf(stderr, "\n");                                                                       \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

namespace {

constexpr size_t MiB = 1 << 20, block = 24 * MiB + 64, words = block / 8;

struct Shared {
  uint64_t go, block, done, arrived; // block: its offset from this
  uint64_t copied[64];
};

uint64_t mark(int pe, int round, size_t i) {
  return uint64_t(pe) << 48 | uint64_t(round) << 40 | i;
}

// In each round, PE by PE: fills half of the block that it is told of, and puts it into the other
// half, of the next PE.
__global__ void work(Shared *s, int rounds, int me, int to) {
  for (int r = 1; r <= rounds; r++) {
    if (threadIdx.x == 0) shmem_signal_wait_until(&s->go, SHMEM_CMP_GE, uint64_t(r));
    __syncthreads();
    uint64_t *const b = reinterpret_cast<uint64_t *>(reinterpret_cast<char *>(s) + s->block);
    for (size_t i = threadIdx.x; i < words / 2; i += blockDim.x)
      b[i] = uint64_t(me) << 48 | uint64_t(r) << 40 | i;
    __syncthreads();
    shmemx_putmem_signal_wg(b + words / 2, b, words / 2 * 8, &s->arrived, 1, SHMEM_SIGNAL_ADD, to);
    if (threadIdx.x == 0) {
      shmem_signal_wait_until(&s->arrived, SHMEM_CMP_GE, uint64_t(r));
      shmem_signal_set(&s->done, uint64_t(r), me);
    }
    __syncthreads();
  }
}

} // namespace

int main(int argc, char **argv) {
  shmem_init();
  const int rounds = argc > 1 ? atoi(argv[1]) : 4, me = shmem_my_pe(), n = shmem_n_pes();
  const int to = (me + 1) % n, from = (me + n - 1) % n;
  auto device = [](size_t bytes) { return shmem_malloc_with_hints(bytes, SHMEMX_MALLOC_DEVICE); };
  auto *const s = static_cast<Shared *>(device(sizeof(Shared)));
  if (!s) shmem_global_exit(77);
  hipStream_t kernels, others;
  HIP(hipStreamCreateWithFlags(&kernels, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&others, hipStreamNonBlocking));
  HIP(hipMemset(s, 0, sizeof *s));
  HIP(hipDeviceSynchronize());
  shmem_barrier_all();

  // A graph of the first part, and later one of a part that comes and goes.
  auto capture = [&](uint64_t *dest, const uint64_t *source, size_t count) {
    hipGraph_t graph;
    hipGraphExec_t exec;
    HIP(hipStreamBeginCapture(others, hipStreamCaptureModeGlobal));
    shmemx_uint64_put_on_stream(dest, source, count, to, others);
    shmemx_barrier_all_on_stream(others);
    HIP(hipStreamEndCapture(others, &graph));
    HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    HIP(hipGraphDestroy(graph));
    return exec;
  };
  // Pinned: with what is not, CUDA keeps other threads of the process from copying while a stream
  // waits, also the library's, on whose copies a stream may wait where PEs are on several nodes.
  uint64_t *values = nullptr;
  HIP(hipHostMalloc(reinterpret_cast<void **>(&values), words * 8, 0));
  auto replay = [&](hipGraphExec_t exec, uint64_t *dest, size_t count, uint64_t salt) {
    for (size_t i = 0; i < count; i++) values[i] = mark(me, 0, i) ^ salt;
    uint64_t *const source = dest + count;
    HIP(hipMemcpyAsync(source, values, count * 8, hipMemcpyHostToDevice, others));
    HIP(hipGraphLaunch(exec, others));
    HIP(hipMemcpyAsync(values, dest, count * 8, hipMemcpyDeviceToHost, others));
    HIP(hipStreamSynchronize(others));
    for (size_t i = 0; i < count; i++)
      CHECK(values[i] == (mark(from, 0, i) ^ salt), "word %zu of a graph: %llx", i,
            static_cast<unsigned long long>(values[i]));
    shmem_barrier_all();
  };
  const hipGraphExec_t first = capture(s->copied, s->copied + 32, 32);

  hipLaunchKernelGGL(work, dim3(1), dim3(64), 0, kernels, s, rounds, me, to);
  char *kept = nullptr;
  for (int r = 1; r <= rounds; r++) {
    auto *const b = static_cast<uint64_t *>(device(block));
    CHECK(b, "round %d", r);
    CHECK(reinterpret_cast<char *>(b) > reinterpret_cast<char *>(s), "round %d", r);
    shmem_uint64_p(&s->block, uint64_t(reinterpret_cast<char *>(b) - reinterpret_cast<char *>(s)),
                   me);
    shmem_fence();
    shmem_uint64_p(&s->go, uint64_t(r), me);
    // Another part comes and goes meanwhile, with a graph of its own.
    auto *const other = static_cast<uint64_t *>(device(block));
    CHECK(other, "round %d", r);
    const hipGraphExec_t exec = capture(other, other + words / 2, words / 2);
    replay(exec, other, words / 2, uint64_t(r));
    replay(first, s->copied, 32, uint64_t(r));
    HIP(hipGraphExecDestroy(exec));
    shmem_free(other);
    replay(first, s->copied, 32, uint64_t(r) + 7);
    shmem_uint64_wait_until(&s->done, SHMEM_CMP_GE, uint64_t(r));
    HIP(hipMemcpyAsync(values, b, words * 8, hipMemcpyDeviceToHost, others));
    HIP(hipStreamSynchronize(others));
    for (size_t i = 0; i < words; i++) {
      const uint64_t want = i < words / 2 ? mark(me, r, i) : mark(from, r, i - words / 2);
      CHECK(values[i] == want, "word %zu in round %d: %llx", i, r,
            static_cast<unsigned long long>(values[i]));
    }
    shmem_free(b);
    // Now and then a block stays, so that parts come in other places.
    if (r % 2 && !kept)
      kept = static_cast<char *>(device(5 * MiB));
    else if (r % 2 == 0)
      shmem_free(kept), kept = nullptr;
  }
  HIP(hipStreamSynchronize(kernels));
  shmem_free(kept);
  HIP(hipHostFree(values));
  HIP(hipGraphExecDestroy(first));
  HIP(hipStreamDestroy(kernels));
  HIP(hipStreamDestroy(others));
  shmem_free(s);
  shmem_finalize();
}
