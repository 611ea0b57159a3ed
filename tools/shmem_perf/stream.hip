// SPDX-License-Identifier: MIT
// shmem_perf --stream: collectives on a stream, and NCCL's or RCCL's in the same run where the
// library is found. Calls follow each other on buffers by turns; a row is the greatest of the PEs'
// medians. The sum is of floats, and what it gives is checked first.
#include <hip/hip_runtime.h>
#include <shmemx.h>

#include "device.h"
#include "nccl.hpp"
#include "plot.h"
#include <algorithm>
#include <cstdint>
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

constexpr int kinds = 5;
const char *const names[kinds] = {"all-reduce", "reduce-scatter", "fcollect", "alltoall",
                                  "broadcast"};

struct alignas(16) Word {
  uint64_t half[2];
};
// Workgroups take the peers in turns; each PE gets a part of its own, as in an all-to-all.
__global__ void store_to_all(Word *const *dest, size_t peers, const Word *source, size_t part) {
  const size_t workgroups = gridDim.x / peers, peer = blockIdx.x % peers;
  Word *to = dest[peer];
  for (size_t i = blockIdx.x / peers * blockDim.x + threadIdx.x; i < part;
       i += workgroups * blockDim.x)
    to[i] = source[peer * part + i];
}

struct Bench {
  const struct device_options &o;
  int me = shmem_my_pe(), n = shmem_n_pes();
  hipStream_t stream;
  hipEvent_t begin, end;
  Object objects[2];
  char *source, *dest;
  hipDeviceProp_t prop;
  size_t room;
  double link = 0; // GB/s of each PE
  Nccl nccl;
  bool have_nccl = false;

  explicit Bench(const struct device_options &options) : o(options) {
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipEventCreate(&begin));
    HIP(hipEventCreate(&end));
    int device = 0;
    HIP(hipGetDevice(&device));
    HIP(hipGetDeviceProperties(&prop, device));
    room = std::max(2 * o.largest, link_bytes());
    objects[0].make(room, o.buffers), objects[1].make(room, o.buffers);
    source = objects[0], dest = objects[1];
    if (!source || !dest) {
      if (me == 0)
        fprintf(stderr,
                "error: no room for 2 x %zu bytes in the device heap "
                "(is there a GPU? SHMEM_DEVICE_SIZE, --sizes)\n",
                room);
      shmem_global_exit(2);
    }
    HIP(hipMemset(source, 0, room));
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
    have_nccl = nccl.open(me, n);
    if (!have_nccl && me == 0) fprintf(stderr, "# no NCCL or RCCL found\n");
  }
  ~Bench() {
    if (have_nccl) nccl.destroy(nccl.comm);
    shmem_barrier_all();
    (void)hipStreamDestroy(stream);
  }

  // bytes: of the larger array, which is the one that all-reduce has.
  size_t block(size_t bytes) const { return std::max(bytes / size_t(n) / 4 * 4, size_t(4)); }
  void ours(int kind, size_t bytes, size_t at) {
    auto *d = reinterpret_cast<float *>(dest + at);
    auto *s = reinterpret_cast<const float *>(source + at);
    const size_t count = bytes / 4, part = block(bytes) / 4;
    switch (kind) {
    case 0:
      shmemx_float_sum_reduce_on_stream(SHMEM_TEAM_WORLD, d, s, count, stream);
      break;
    case 1:
      shmemx_float_sum_reduce_scatter_on_stream(SHMEM_TEAM_WORLD, d, s, part, stream);
      break;
    case 2:
      shmemx_float_fcollect_on_stream(SHMEM_TEAM_WORLD, d, s, part, stream);
      break;
    case 3:
      shmemx_float_alltoall_on_stream(SHMEM_TEAM_WORLD, d, s, part, stream);
      break;
    case 4:
      shmemx_float_broadcast_on_stream(SHMEM_TEAM_WORLD, d, s, count, 0, stream);
      break;
    }
  }
  void theirs(int kind, size_t bytes, size_t at) {
    char *d = dest + at, *s = source + at;
    const size_t count = bytes / 4, part = block(bytes) / 4;
    int error = 0;
    switch (kind) {
    case 0:
      error = nccl.all_reduce(s, d, count, Nccl::float_type, Nccl::sum, nccl.comm, stream);
      break;
    case 1:
      error = nccl.reduce_scatter(s, d, part, Nccl::float_type, Nccl::sum, nccl.comm, stream);
      break;
    case 2:
      error = nccl.all_gather(s, d, part, Nccl::float_type, nccl.comm, stream);
      break;
    case 3:
      nccl.begin();
      for (int pe = 0; pe < n && !error; pe++) {
        error = nccl.send(s + size_t(pe) * part * 4, part, Nccl::float_type, pe, nccl.comm, stream);
        if (!error)
          error = nccl.receive(d + size_t(pe) * part * 4, part, Nccl::float_type, pe, nccl.comm,
                               stream);
      }
      if (!error) error = nccl.end();
      break;
    case 4:
      error = nccl.broadcast(s, d, count, Nccl::float_type, 0, nccl.comm, stream);
      break;
    }
    if (error) {
      fprintf(stderr, "error: PE %d: NCCL's %s: %d\n", me, names[kind], error);
      shmem_global_exit(1);
    }
  }

  size_t link_bytes() const { return size_t(shmem::runtime::hardware ? 64 : 2) << 20; }
  // GB/s of each PE while all store to all others: on a mesh of links a collective uses all of
  // them, and no transfer to one peer shows what they carry together.
  void measure_link() {
    if (n < 2) return;
    const size_t peers = size_t(n - 1), part = link_bytes() / sizeof(Word) / size_t(n);
    std::vector<void *> to;
    for (int pe = 1; pe < n; pe++)
      to.push_back(static_cast<Word *>(shmem_ptr(dest, (me + pe) % n)) + size_t(me) * part);
    Word **on_device;
    HIP(hipMalloc(&on_device, peers * sizeof *on_device));
    HIP(hipMemcpy(on_device, to.data(), peers * sizeof *on_device, hipMemcpyHostToDevice));
    const unsigned grid =
        unsigned(shmem::runtime::hardware ? std::max(peers, 128 / peers * peers) : peers);
    const double us = time(link_bytes(), false, [&](size_t) {
      hipLaunchKernelGGL(store_to_all, dim3(grid), dim3(shmem::runtime::hardware ? 1024 : 64), 0,
                         stream, on_device, peers, reinterpret_cast<const Word *>(source), part);
      HIP(hipGetLastError());
    });
    HIP(hipFree(on_device));
    link = double(peers * part * sizeof(Word)) / us / 1e3;
  }

  double worst(double us) {
    static double mine, all;
    mine = us;
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, &all, &mine, 1);
    shmem_barrier_all();
    return all;
  }
  // us of a call, of many in a row; of a graph of them, if graph.
  template <class F> double time(size_t bytes, bool graph, F f) {
    const size_t each = (bytes + 255) / 256 * 256,
                 slots = std::max(std::min(room / each, size_t(64)), size_t(1));
    const int calls = calls_in_a_row(o.calls, bytes <= size_t(1) << 20 ? 100 : 20);
    auto all = [&] {
      for (int k = 0; k < calls; k++) f(size_t(k) % slots * each);
    };
    hipGraphExec_t exec = nullptr;
    if (graph) {
      hipGraph_t g;
      HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
      all();
      HIP(hipStreamEndCapture(stream, &g));
      HIP(hipGraphInstantiate(&exec, g, nullptr, nullptr, 0));
      HIP(hipGraphDestroy(g));
    }
    std::vector<double> us;
    for (int run = 0; run <= o.runs; run++) {
      shmem_barrier_all();
      shmemx_barrier_all_on_stream(stream); // all PEs' work begins at once
      HIP(hipEventRecord(begin, stream));
      if (graph)
        HIP(hipGraphLaunch(exec, stream));
      else
        all();
      HIP(hipEventRecord(end, stream));
      HIP(hipEventSynchronize(end));
      float ms = 0;
      HIP(hipEventElapsedTime(&ms, begin, end));
      if (run) us.push_back(double(ms) * 1e3 / calls);
    }
    if (exec) HIP(hipGraphExecDestroy(exec));
    std::sort(us.begin(), us.end());
    return worst(us[us.size() / 2]);
  }

  void check(size_t bytes) {
    const size_t count = bytes / 4;
    std::vector<float> x(count);
    for (size_t i = 0; i < count; i++) x[i] = float((i + size_t(me)) % 7);
    HIP(hipMemcpy(source, x.data(), bytes, hipMemcpyHostToDevice));
    HIP(hipMemset(dest, 0xff, bytes));
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
    ours(0, bytes, 0);
    HIP(hipStreamSynchronize(stream));
    HIP(hipMemcpy(x.data(), dest, bytes, hipMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
      float want = 0;
      for (int pe = 0; pe < n; pe++) want += float((i + size_t(pe)) % 7);
      if (x[i] != want) {
        fprintf(stderr, "error: PE %d: all-reduce of %zu bytes: element %zu is %g, not %g\n", me,
                bytes, i, double(x[i]), double(want));
        shmem_global_exit(1);
      }
    }
    shmem_barrier_all();
  }

  void row(int kind, size_t bytes) {
    if (kind == 0) check(bytes);
    const double eager = time(bytes, false, [&](size_t at) { ours(kind, bytes, at); });
    const double graph = time(bytes, true, [&](size_t at) { ours(kind, bytes, at); });
    const double peer =
        have_nccl ? time(bytes, false, [&](size_t at) { theirs(kind, bytes, at); }) : 0;
    if (me != 0) return;
    // The load of each link, as nccl-tests counts it.
    const double share = kind == 4 ? 1 : (kind == 0 ? 2.0 : 1.0) * (n - 1) / n;
    const double rate = double(bytes) * share / std::min(eager, graph) / 1e3;
    plot(kind, bytes, "libshmem", false, eager);
    if (have_nccl) plot(kind, bytes, nccl.name(), true, peer);
    if (o.json) {
      printf("{\"test\": \"%s on stream\", \"bytes\": %zu, \"us\": %.5g, \"graph_us\": %.5g, "
             "\"bus_gb_per_s\": %.4g",
             names[kind], bytes, eager, graph, rate);
      if (link > 0) printf(", \"link_gb_per_s\": %.4g", link);
      if (have_nccl) printf(", \"nccl_us\": %.5g", peer);
      printf("}\n");
    } else {
      printf("%-15s %12zu %10.2f %10.2f %10.1f", names[kind], bytes, eager, graph, rate);
      if (link > 0)
        printf(" %7.1f", 100 * rate / link);
      else
        printf(" %7s", "-");
      if (have_nccl) printf(" %10.2f %8.2f", peer, peer / eager);
      printf("\n");
    }
    fflush(stdout);
  }
  void plot(int kind, size_t bytes, const char *whose, bool other, double us) {
    const std::string panel = names[kind] + std::string(" on stream");
    struct plot_point point = {};
    point.panel = panel.c_str(), point.name = whose, point.other = other;
    point.bytes = double(bytes), point.value = us, point.unit = "us";
    plot_add(&point);
  }
};

} // namespace

extern "C" void stream_perf(const struct device_options *options) {
  Bench b(*options);
  b.measure_link();
  plot_title("shmem_perf --stream: %d PEs, %s", b.n, b.prop.name);
  if (b.me == 0 && !options->json) {
    printf("# %d PEs, %s; bytes are of the larger array\n", b.n, b.prop.name);
    if (b.n > 1)
      printf("# link: %.1f GB/s, stored by a kernel of each PE to all others, %zu MiB, all PEs at "
             "once\n",
             b.link, b.link_bytes() >> 20);
    printf("%-15s %12s %10s %10s %10s %7s", "on a stream", "bytes", "us", "graph us", "bus GB/s",
           "% link");
    if (b.have_nccl) printf(" %7s us %8s", b.nccl.name(), "ratio");
    puts("");
  }
  for (int kind = 0; kind < kinds; kind++)
    for (size_t bytes = std::max(options->smallest, size_t(8)); bytes <= options->largest;
         bytes *= options->step)
      b.row(kind, bytes);
}
