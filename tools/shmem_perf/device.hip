// SPDX-License-Identifier: MIT
// shmem_perf --device: the costs of routines that kernels call. Times are of the GPU's clock, from
// event to event, medians of runs after one that warms up; a latency is that of one of many calls
// in one kernel. PE 0 works with PE 1; barriers and the matrix are of all.
#include <shmem/device/shmem.hpp>

#include "device.h"
#include "plot.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
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

// As many threads as options.threads has: with kernels that reach other nodes nvcc would take more
// registers than so many have.
#define BOUNDED __launch_bounds__(1024)

enum class Scope { thread, wave, wg };
const char *const scope_names[] = {"thread", "wave", "wg"};

// The part of n bytes that this thread's scope moves, of all scopes of the grid; a multiple of 16.
template <class S> __device__ void part(S scope, size_t n, size_t *from, size_t *bytes) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  const size_t scopes = threads / scope.size();
  const size_t index = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / scope.size();
  const size_t each = (n / scopes + 15) / 16 * 16;
  *from = index * each < n ? index * each : n;
  *bytes = n - *from < each ? n - *from : each;
}

// The routine's form for each scope.
#define FOR_SCOPES(name, ...)                                                                      \
  if constexpr (std::is_same_v<S, shmem::Thread>) shmem_##name(__VA_ARGS__);                       \
  if constexpr (std::is_same_v<S, shmem::Wave>) shmemx_##name##_wave(__VA_ARGS__);                 \
  if constexpr (std::is_same_v<S, shmem::Workgroup>) shmemx_##name##_wg(__VA_ARGS__)

template <class S>
__global__ void BOUNDED put_kernel(char *dest, const char *source, size_t n, int pe) {
  size_t from, bytes;
  part(S{}, n, &from, &bytes);
  FOR_SCOPES(long_put, reinterpret_cast<long *>(dest + from),
             reinterpret_cast<const long *>(source + from), bytes / 8, pe);
  if (S{}.rank() == 0) shmem_quiet(); // for all of the scope
}
template <class S>
__global__ void BOUNDED get_kernel(char *dest, const char *source, size_t n, int pe) {
  size_t from, bytes;
  part(S{}, n, &from, &bytes);
  FOR_SCOPES(long_get, reinterpret_cast<long *>(dest + from),
             reinterpret_cast<const long *>(source + from), bytes / 8, pe);
}
// Each workgroup serves one peer, the first ones other peers than on other PEs.
__global__ void BOUNDED all_to_all_kernel(char *dest, const char *source, size_t n) {
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  const int pe = (me + 1 + int(blockIdx.x)) % npes;
  const size_t share = gridDim.x / npes, index = blockIdx.x / npes;
  if (index >= share) return;
  const size_t each = (n / share + 15) / 16 * 16, from = index * each < n ? index * each : n;
  const size_t bytes = n - from < each ? n - from : each;
  shmemx_long_put_wg(reinterpret_cast<long *>(dest + n * me + from),
                     reinterpret_cast<const long *>(source + n * pe + from), bytes / 8, pe);
  if (threadIdx.x == 0) shmem_quiet();
}

// Both sides count on from the number where the last run ended.
__global__ void p_ping_pong(uint64_t *flag, uint64_t start, int peer, bool first, int count) {
  for (int k = 1; k <= count; k++) {
    if (first) shmem_uint64_p(flag, start + k, peer);
    shmem_uint64_wait_until(flag, SHMEM_CMP_GE, start + k);
    if (!first) shmem_uint64_p(flag, start + k, peer);
  }
}
template <class S>
__global__ void BOUNDED put_signal_ping_pong(char *dest, const char *source, size_t n,
                                             uint64_t *flag, uint64_t start, int peer, bool first,
                                             int count) {
  const S scope;
  auto *d = reinterpret_cast<long *>(dest);
  auto *s = reinterpret_cast<const long *>(source);
  for (int k = 1; k <= count; k++) {
    if (first) {
      FOR_SCOPES(long_put_signal, d, s, n / 8, flag, start + k, SHMEM_SIGNAL_SET, peer);
    }
    if (scope.rank() == 0) shmem_signal_wait_until(flag, SHMEM_CMP_GE, start + k);
    scope.sync();
    if (!first) {
      FOR_SCOPES(long_put_signal, d, s, n / 8, flag, start + k, SHMEM_SIGNAL_SET, peer);
    }
  }
}
// This machine's GPUs without the library.
__global__ void raw_ping_pong(uint64_t *mine, uint64_t *theirs, uint64_t start, bool first,
                              int count) {
  volatile uint64_t *in = mine, *out = theirs;
  for (int k = 1; k <= count; k++) {
    if (first) *out = start + k;
    while (*in < start + k) shmem::arch::pause();
    if (!first) *out = start + k;
  }
}
__global__ void empty_kernel() {}
__global__ void p_kernel(uint64_t *dest, int pe, int count) {
  for (int k = 0; k < count; k++) shmem_uint64_p(dest, uint64_t(k), pe);
  shmem_quiet();
}
__global__ void g_kernel(uint64_t *source, int pe, int count, uint64_t *out) {
  uint64_t v = 0;
  for (int k = 0; k < count; k++) v = shmem_uint64_g(source + (v & 1), pe);
  *out = v;
}
__global__ void fetch_add_kernel(uint64_t *dest, int pe, int count, uint64_t *out) {
  uint64_t v = 0;
  for (int k = 0; k < count; k++) v = shmem_uint64_atomic_fetch_add(dest, v & 0, pe);
  *out = v;
}
__global__ void add_kernel(uint64_t *dest, int pe, int count) {
  for (int k = 0; k < count; k++) shmem_uint64_atomic_add(dest, 1, pe);
  shmem_quiet();
}
template <class S> __global__ void BOUNDED barrier_kernel(int count) {
  for (int k = 0; k < count; k++) {
    FOR_SCOPES(barrier_all);
  }
}
template <class S> __global__ void BOUNDED sync_kernel(int count) {
  for (int k = 0; k < count; k++) {
    FOR_SCOPES(sync_all);
  }
}

const char *const one_call = "in a kernel"; // a panel of the plot

struct Bench {
  const struct device_options &o;
  int me = shmem_my_pe(), n = shmem_n_pes(), peer;
  hipStream_t stream;
  hipEvent_t begin, end;
  Object objects[3];
  char *source, *dest;
  uint64_t *flag, *out;
  size_t room;
  uint64_t counted[64] = {}; // by the flags of ping-pongs

  explicit Bench(const struct device_options &options) : o(options), peer(n > 1 ? 1 - me : 0) {
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipEventCreate(&begin));
    HIP(hipEventCreate(&end));
    room = std::max(o.largest, size_t(65536) * size_t(n));
    objects[0].make(room, o.buffers), objects[1].make(room, o.buffers);
    objects[2].make(4096, o.buffers);
    source = objects[0], dest = objects[1], flag = objects[2];
    if (!source || !dest || !flag) {
      if (me == 0)
        fprintf(stderr,
                "error: no room for 2 x %zu bytes in the device heap "
                "(is there a GPU? SHMEM_DEVICE_SIZE, --sizes)\n",
                room);
      shmem_global_exit(2);
    }
    out = flag + 256;
    HIP(hipMemset(source, 1, room));
    HIP(hipMemset(dest, 0, room));
    HIP(hipMemset(flag, 0, 4096));
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
  }
  ~Bench() { shmem_barrier_all(); }

  // The median time of f, which launches on the stream, in us.
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
    return us[us.size() / 2];
  }
  // In the plot: a point of the line of this name, or without one a bar.
  void row(const char *name, const char *scope, int wgs, size_t bytes, double value,
           const char *unit, const std::string &panel, const std::string &series) {
    if (me != 0) return;
    const std::string bar = std::string(name) + ", " + scope;
    struct plot_point point = {};
    point.panel = panel.c_str(), point.name = series.empty() ? bar.c_str() : series.c_str();
    point.other = !strncmp(name, "raw ", 4); // the bare machine
    point.bytes = series.empty() ? 0 : double(bytes);
    point.value = value, point.unit = *unit == 'u' ? "us" : "GB/s";
    plot_add(&point);
    if (o.json)
      printf("{\"test\": \"%s\", \"scope\": \"%s\", \"workgroups\": %d, \"bytes\": %zu, "
             "\"value\": %.4g, \"unit\": \"%s\"}\n",
             name, scope, wgs, bytes, value, unit);
    else
      printf("%-22s %-7s %4d %12zu %10.4g %s\n", name, scope, wgs, bytes, value, unit);
    fflush(stdout);
  }

  // PE 0 alone; the others wait.
  template <class S, class K> void bandwidth(const char *name, Scope scope, K kernel, bool put) {
    for (size_t bytes = std::max(o.smallest, size_t(1024)); bytes <= o.largest; bytes *= o.step)
      for (int wgs : {1, 2, 4, 8, 16, 32, 64, 128}) {
        if (size_t(wgs) * 1024 > bytes || wgs > o.workgroups) continue;
        HIP(hipMemsetAsync(source, 1 + wgs % 100, bytes, stream));
        HIP(hipStreamSynchronize(stream));
        shmem_barrier_all();
        if (me == 0) {
          const double us = time([&] {
            hipLaunchKernelGGL(kernel, dim3(wgs), dim3(o.threads), 0, stream, dest, source, bytes,
                               peer);
          });
          row(name, scope_names[int(scope)], wgs, bytes, double(bytes) / us / 1e3, "GB/s",
              std::string(name) + ", " + scope_names[int(scope)],
              std::to_string(wgs) + (wgs == 1 ? " workgroup" : " workgroups"));
        }
        shmem_barrier_all();
        check(name, bytes, 1 + wgs % 100, me == (put ? 1 % n : 0));
      }
  }
  void check(const char *name, size_t bytes, int value, bool here) {
    if (!here) return;
    std::vector<char> seen(bytes);
    HIP(hipMemcpy(seen.data(), dest, bytes, hipMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes; i++)
      if (seen[i] != char(value)) {
        fprintf(stderr, "WRONG: %s, %zu bytes: byte %zu is %d, not %d\n", name, bytes, i, seen[i],
                value);
        shmem_global_exit(1);
      }
  }
  // f launches on the word of flag that has this number.
  template <class F>
  void pair(const char *name, const char *scope, size_t bytes, int word, int count, F f,
            const char *series = "") {
    if (n < 2) return;
    shmem_barrier_all();
    if (me < 2) {
      const double us = time([&] {
        f(flag + word, counted[word], count);
        counted[word] += uint64_t(count);
      });
      row(name, scope, 1, bytes, us / count / 2, "us one way", *series ? name : one_call, series);
    }
    shmem_barrier_all();
  }
  template <class F> void alone(const char *name, int count, F f) {
    shmem_barrier_all();
    if (me == 0) row(name, "thread", 1, 8, time([&] { f(count); }) / count, "us", one_call, "");
    shmem_barrier_all();
  }
  template <class F> void together(const char *name, Scope scope, int count, F f) {
    shmem_barrier_all();
    row(name, scope_names[int(scope)], 1, 0, time([&] { f(count); }) / count, "us", one_call, "");
    shmem_barrier_all();
  }

  template <class S> void put_signals(Scope scope, int threads) {
    for (size_t bytes = 8; bytes <= std::min(o.largest, size_t(1) << 20); bytes *= 8) {
      if (scope == Scope::thread && bytes > 4096) break;
      pair(
          "put_signal ping-pong", scope_names[int(scope)], bytes, 16, o.count / 10,
          [&](uint64_t *word, uint64_t start, int count) {
            hipLaunchKernelGGL(put_signal_ping_pong<S>, dim3(1), dim3(threads), 0, stream, dest,
                               source, bytes, word, start, peer, me == 0, count);
          },
          scope_names[int(scope)]);
    }
  }

  void latencies() {
    pair("raw flag ping-pong", "thread", 8, 32, o.count,
         [&](uint64_t *word, uint64_t start, int count) {
           hipLaunchKernelGGL(raw_ping_pong, dim3(1), dim3(1), 0, stream, word,
                              static_cast<uint64_t *>(shmem_ptr(word, peer)), start, me == 0,
                              count);
         });
    pair("p + wait ping-pong", "thread", 8, 0, o.count,
         [&](uint64_t *word, uint64_t start, int count) {
           hipLaunchKernelGGL(p_ping_pong, dim3(1), dim3(1), 0, stream, word, start, peer, me == 0,
                              count);
         });
    put_signals<shmem::Thread>(Scope::thread, 1);
    put_signals<shmem::Wave>(Scope::wave, int(shmem::arch::wave_size));
    put_signals<shmem::Workgroup>(Scope::wg, o.threads);
    alone("launch, no work", 1,
          [&](int) { hipLaunchKernelGGL(empty_kernel, dim3(1), dim3(1), 0, stream); });
    alone("p", o.count, [&](int count) {
      hipLaunchKernelGGL(p_kernel, dim3(1), dim3(1), 0, stream, flag + 48, peer, count);
    });
    alone("g", o.count, [&](int count) {
      hipLaunchKernelGGL(g_kernel, dim3(1), dim3(1), 0, stream, flag + 64, peer, count, out);
    });
    alone("fetch_add", o.count, [&](int count) {
      hipLaunchKernelGGL(fetch_add_kernel, dim3(1), dim3(1), 0, stream, flag + 80, peer, count,
                         out);
    });
    alone("add", o.count, [&](int count) {
      hipLaunchKernelGGL(add_kernel, dim3(1), dim3(1), 0, stream, flag + 96, peer, count);
    });
  }
  template <class S> void barriers(Scope scope, int threads) {
    together("barrier", scope, o.count, [&](int count) {
      hipLaunchKernelGGL(barrier_kernel<S>, dim3(1), dim3(threads), 0, stream, count);
    });
    together("sync", scope, o.count, [&](int count) {
      hipLaunchKernelGGL(sync_kernel<S>, dim3(1), dim3(threads), 0, stream, count);
    });
  }
  // All PEs at once, each to all others and itself: the rate of each, and of all together.
  void matrix() {
    if (n < 2) return;
    for (size_t bytes = std::max(o.smallest, size_t(65536)); bytes * size_t(n) <= room;
         bytes *= o.step) {
      const int wgs = (o.workgroups + n - 1) / n * n;
      shmem_barrier_all();
      const double us = time([&] {
        hipLaunchKernelGGL(all_to_all_kernel, dim3(wgs), dim3(o.threads), 0, stream, dest, source,
                           bytes);
      });
      static double mine, rate[1024];
      mine = double(bytes) * (n - 1) / us / 1e3;
      shmem_double_fcollect(SHMEM_TEAM_WORLD, rate, &mine, 1);
      double least = rate[0], sum = 0;
      for (int pe = 0; pe < n; pe++) least = std::min(least, rate[pe]), sum += rate[pe];
      row("all-to-all, each PE", "wg", wgs, bytes, least, "GB/s least", "all-to-all",
          "each PE, least");
      row("all-to-all, together", "wg", wgs, bytes, sum, "GB/s", "all-to-all", "together");
    }
  }
};

} // namespace

extern "C" void device_perf(const struct device_options *options) {
  Bench b(*options);
  int device = 0;
  hipDeviceProp_t prop;
  HIP(hipGetDevice(&device));
  HIP(hipGetDeviceProperties(&prop, device));
  plot_title("shmem_perf --device: %d PEs, %s", b.n, prop.name);
  if (b.me == 0 && !options->json)
    printf("# %d PEs, %s\n%-22s %-7s %4s %12s %10s\n", b.n, prop.name, "test", "scope", "wgs",
           "bytes", "value");
  b.latencies();
  b.barriers<shmem::Thread>(Scope::thread, 1);
  b.barriers<shmem::Wave>(Scope::wave, int(shmem::arch::wave_size));
  b.barriers<shmem::Workgroup>(Scope::wg, b.o.threads);
  b.bandwidth<shmem::Workgroup>("put", Scope::wg, put_kernel<shmem::Workgroup>, true);
  b.bandwidth<shmem::Workgroup>("get", Scope::wg, get_kernel<shmem::Workgroup>, false);
  if (options->scopes) {
    b.bandwidth<shmem::Wave>("put", Scope::wave, put_kernel<shmem::Wave>, true);
    b.bandwidth<shmem::Wave>("get", Scope::wave, get_kernel<shmem::Wave>, false);
    b.bandwidth<shmem::Thread>("put", Scope::thread, put_kernel<shmem::Thread>, true);
    b.bandwidth<shmem::Thread>("get", Scope::thread, get_kernel<shmem::Thread>, false);
  }
  b.matrix();
}
