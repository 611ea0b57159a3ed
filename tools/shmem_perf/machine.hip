// SPDX-License-Identifier: MIT
// shmem_perf --machine: the GPUs and their links by themselves, without the library. A model of
// them starts from these figures (test/amdgpu/clock.txt) and is checked by them. Times are of the
// GPU's clock, from event to event, less those of an empty kernel, medians of runs after one that
// warms up.
#include <shmem/device/shmem.hpp>

#include "device.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#define HIP(call)                                                                                  \
  do {                                                                                             \
    const hipError_t error_ = (call);                                                              \
    if (error_ != hipSuccess) {                                                                    \
      fprintf(stderr, "error: PE %d: %s: %s\n", shmem_my_pe(), #call, hipGetErrorString(error_));  \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

namespace {

constexpr size_t line = 128;
using Word = shmem::arch::WordOf<16>::type;
__device__ uint64_t bits_of(const Word &word) { // all of them, or else fewer would be loaded
  uint64_t both[2];
  memcpy(both, &word, sizeof both);
  return both[0] ^ both[1];
}

__global__ void empty() {}
// Lines whose first words name each other in a ring of all, in an order that no prefetch knows.
__global__ void make_ring(char *p, size_t lines, size_t step) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < lines;
       i += size_t(gridDim.x) * blockDim.x)
    *reinterpret_cast<size_t *>(p + i * line) = (i + step) % lines;
}
__global__ void chase(const char *p, int hops, size_t *out) {
  size_t i = threadIdx.x; // for the compiler not the same in all lanes: by the vector unit
  for (int k = 0; k < hops; k++) i = *reinterpret_cast<const size_t *>(p + i * line);
  *out = i;
}
__global__ void load_flag(const uint64_t *p, int count, uint64_t *out) {
  uint64_t v = 0;
  for (int k = 0; k < count; k++) v = shmem::arch::load(p + (v & 1));
  *out = v;
}
__global__ void ping_pong(uint64_t *mine, uint64_t *theirs, uint64_t start, bool first, int count) {
  for (int k = 1; k <= count; k++) {
    if (first) shmem::arch::store(theirs, start + k);
    while (shmem::arch::load(mine) < start + k) shmem::arch::pause();
    if (!first) shmem::arch::store(theirs, start + k);
  }
}
enum class Way { copy, write, read };
template <Way way, bool waits> __global__ void move(Word *dest, const Word *source, size_t words) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const Word zero = {};
  uint64_t sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words; i += 4 * threads) {
    Word v[4];
    for (size_t k = 0; k < 4; k++)
      v[k] = way != Way::write && i + k * threads < words ? source[i + k * threads] : zero;
    for (size_t k = 0; k < 4; k++) {
      if (way == Way::read)
        sum ^= bits_of(v[k]);
      else if (i + k * threads < words)
        dest[i + k * threads] = v[k];
      if (waits) shmem::arch::fence_all();
    }
  }
  if (way == Way::read && sum == 0x123456789) *dest = zero; // or else nothing would be loaded
}
// Workgroups in turn to each of the others, each its part.
struct Peers {
  Word *of[64];
};
__global__ void to_all(Peers peers, const Word *source, size_t words, int n) {
  const size_t share = gridDim.x / n, threads = share * blockDim.x;
  Word *const dest = peers.of[blockIdx.x % n];
  for (size_t i = blockIdx.x / n * size_t(blockDim.x) + threadIdx.x; i < words; i += threads)
    dest[i] = source[i];
}

struct Machine {
  const device_options &o;
  const int me = shmem_my_pe(), n = shmem_n_pes(), peer = n > 1 ? 1 - me : 0;
  hipStream_t stream;
  hipEvent_t begin, end;
  double nothing = 0;
  Object all;
  char *heap, *own = nullptr;
  size_t *out;
  const size_t bytes = std::max(o.largest, size_t(1) << 16);

  explicit Machine(const device_options &options) : o(options) {
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipEventCreate(&begin));
    HIP(hipEventCreate(&end));
    all.make(2 * bytes + 4096, false);
    heap = all;
    if (!heap || hipMalloc(&own, 2 * bytes) != hipSuccess) {
      if (me == 0) fprintf(stderr, "error: no room for 4 x %zu bytes on the GPU\n", bytes);
      shmem_global_exit(2);
    }
    out = reinterpret_cast<size_t *>(heap + 2 * bytes);
    HIP(hipMemset(out, 0, 4096));
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
  }
  ~Machine() {
    shmem_barrier_all();
    (void)hipFree(own);
  }
  template <class F> double time(F f) {
    std::vector<float> us;
    for (int run = 0; run <= o.runs; run++) {
      HIP(hipEventRecord(begin, stream));
      f();
      HIP(hipGetLastError());
      HIP(hipEventRecord(end, stream));
      HIP(hipEventSynchronize(end));
      float ms = 0;
      HIP(hipEventElapsedTime(&ms, begin, end));
      if (run) us.push_back(ms * 1e3f);
    }
    std::sort(us.begin(), us.end());
    return std::max(us[us.size() / 2] - nothing, 1e-3);
  }
  void row(const char *name, size_t size, double value, const char *unit) {
    if (me != 0) return;
    if (o.json)
      printf("{\"test\": \"%s\", \"bytes\": %zu, \"value\": %.4g, \"unit\": \"%s\"}\n", name, size,
             value, unit);
    else
      printf("%-32s %12zu %10.4g %s\n", name, size, value, unit);
    fflush(stdout);
  }
  // PE 0 alone; the others wait.
  template <class F> void alone(F f) {
    shmem_barrier_all();
    if (me == 0) f();
    shmem_barrier_all();
  }

  void latencies() {
    alone([&] {
      const double us = time([&] { hipLaunchKernelGGL(empty, dim3(1), dim3(1), 0, stream); });
      row("launch, no work", 0, us, "us");
    });
    nothing = time([&] { hipLaunchKernelGGL(empty, dim3(1), dim3(1), 0, stream); });
    for (size_t size : {size_t(8) << 10, size_t(1) << 20, size_t(64) << 20, size_t(1) << 30})
      if (size <= bytes)
        alone([&] {
          const size_t lines = size / line;
          const int hops = int(std::min(std::max(lines, size_t(4096)), size_t(1) << 16));
          hipLaunchKernelGGL(make_ring, dim3(64), dim3(256), 0, stream, own, lines,
                             lines * 3 / 8 + 1);
          const double us =
              time([&] { hipLaunchKernelGGL(chase, dim3(1), dim3(1), 0, stream, own, hops, out); });
          row("load after load, own memory", size, us / hops * 1e3, "ns");
        });
    if (n < 2) return;
    auto *flag = reinterpret_cast<uint64_t *>(out + 32);
    auto *theirs = static_cast<uint64_t *>(shmem_ptr(flag, peer));
    const auto flags = [&](const char *name, const uint64_t *p) {
      alone([&] {
        const double us = time([&] {
          hipLaunchKernelGGL(load_flag, dim3(1), dim3(1), 0, stream, p, o.count,
                             reinterpret_cast<uint64_t *>(out));
        });
        row(name, 8, us / o.count * 1e3, "ns");
      });
    };
    flags("load of a flag, own memory", flag);
    flags("load of a flag, of a peer", theirs);
    shmem_barrier_all();
    if (me < 2) {
      uint64_t start = 0;
      const double us = time([&] {
        hipLaunchKernelGGL(ping_pong, dim3(1), dim3(1), 0, stream, flag, theirs, start, me == 0,
                           o.count);
        start += uint64_t(o.count);
      });
      row("flag to a peer, one way", 8, us / o.count / 2 * 1e3, "ns");
    }
    shmem_barrier_all();
  }

  template <Way way, bool waits = false>
  void moved(const char *name, int wgs, int threads, void *dest, const void *source, size_t size) {
    alone([&] {
      const double us = time([&] {
        hipLaunchKernelGGL(HIP_KERNEL_NAME(move<way, waits>), dim3(wgs), dim3(threads), 0, stream,
                           static_cast<Word *>(dest), static_cast<const Word *>(source),
                           size / sizeof(Word));
      });
      row(name, size, double(size) / us / 1e3 * (way == Way::copy && dest == own + bytes ? 2 : 1),
          "GB/s");
    });
  }
  void rates() {
    int device = 0, units = 0;
    HIP(hipGetDevice(&device));
    HIP(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device));
    moved<Way::copy>("copy, own memory, both ways", 4 * units, 512, own + bytes, own, bytes);
    moved<Way::write>("stores, own memory", 4 * units, 512, own + bytes, own, bytes);
    moved<Way::read>("loads, own memory", 4 * units, 512, out, own, bytes);
    // As TransferBench has them: of 32 compute units.
    moved<Way::copy>("copy, own memory, 32 workgroups", 32, 1024, own + bytes, own, bytes);
    moved<Way::read>("loads, own memory, 32 workgroups", 32, 1024, out, own, bytes);
    if (n < 2) return;
    void *const theirs = shmem_ptr(heap, peer);
    moved<Way::write>("stores to a peer", units, 512, theirs, own, bytes);
    moved<Way::read>("loads from a peer", units, 512, out, theirs, bytes);
    moved<Way::copy>("copy to a peer, one workgroup", 1, 512, theirs, own,
                     std::min(bytes, size_t(1) << 20));
    moved<Way::write>("stores to a peer, one wave", 1, 64, theirs, own, 65536);
    moved<Way::write, true>("the same, each waited for", 1, 64, theirs, own, 65536);
    alone([&] {
      const double us =
          time([&] { HIP(hipMemcpyAsync(theirs, own, bytes, hipMemcpyDeviceToDevice, stream)); });
      row("hipMemcpy to a peer", bytes, double(bytes) / us / 1e3, "GB/s");
    });
    const size_t each = bytes / size_t(n) / line * line;
    Peers peers = {};
    for (int k = 1; k < std::min(n, 64); k++)
      peers.of[k - 1] = reinterpret_cast<Word *>(
          static_cast<char *>(shmem_ptr(heap, (me + k) % n)) + size_t(me) * each);
    shmem_barrier_all();
    const double us = time([&] {
      hipLaunchKernelGGL(to_all, dim3(unsigned(units / (n - 1) * (n - 1))), dim3(512), 0, stream,
                         peers, reinterpret_cast<const Word *>(own), each / sizeof(Word), n - 1);
    });
    static double mine, rate[1024];
    mine = double(each) * (n - 1) / us / 1e3;
    shmem_double_fcollect(SHMEM_TEAM_WORLD, rate, &mine, 1);
    row("stores to all peers, each PE", each, *std::min_element(rate, rate + n), "GB/s least");
  }
};

} // namespace

extern "C" void machine_perf(const struct device_options *options) {
  Machine m(*options);
  if (m.me == 0 && !options->json) {
    int device = 0;
    hipDeviceProp_t prop;
    HIP(hipGetDevice(&device));
    HIP(hipGetDeviceProperties(&prop, device));
    printf("# %d PEs, %s\n%-32s %12s %10s\n", m.n, prop.name, "test", "bytes", "value");
  }
  m.latencies();
  m.rates();
}
