// SPDX-License-Identifier: MIT
// fcollect by kernels and by copy engines, alone and beside products of bf16 matrices on another
// stream: how much of the product's speed is left.
#include "engine.hpp"

#include <shmem/device/number.hpp>

namespace {

using shmem::Bfloat16;

enum Kind {
  kernels,
  engines,
  in_place, // by engines
  product,
  beside_kernels,
  beside_engines,
  beside_in_place,
  kinds
};
const char *const names[kinds] = {
    "fcollect, kernels", "fcollect, engines", "fcollect, engines in place", "product",
    "product, kernels",  "product, engines",  "product, engines in place"};

struct Gather {
  Engine &e;
  size_t bytes, edge; // of what each PE gives; of square matrices
  hipStream_t other = nullptr;
  char *source = nullptr, *dest = nullptr;
  Bfloat16 *a = nullptr;
  shmemx_matmul_t call = {};

  bool make() {
    source = static_cast<char *>(e.room("fcollect", bytes * size_t(e.npes + 1)));
    if (!source) return false;
    dest = source + bytes;
    const size_t matrix = edge * edge;
    HIP(hipMalloc(&a, 3 * matrix * sizeof *a));
    HIP(hipMemset(a, 0, 3 * matrix * sizeof *a));
    call.type = call.out = SHMEMX_BF16, call.m = call.n = call.k = edge;
    call.a = a, call.b = a + matrix, call.c = a + 2 * matrix;
    call.lda = call.ldb = call.ldc = edge;
    HIP(hipMemset(source, e.me + 1, bytes));
    HIP(hipDeviceSynchronize());
    HIP(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    shmem_barrier_all();
    return true;
  }
  void clear() {
    by(false);
    shmem_barrier_all();
    HIP(hipStreamDestroy(other));
    HIP(hipFree(a));
    shmem_free(source);
  }
  // From here on, on all PEs.
  void by(bool copy_engines) {
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
    shmemx_team_copy_engines(SHMEM_TEAM_WORLD, copy_engines);
  }
  char *own() const { return dest + size_t(e.me) * bytes; }
  void gather(int kind, hipStream_t s) {
    const bool here = kind == in_place || kind == beside_in_place;
    shmemx_fcollectmem_on_stream(SHMEM_TEAM_WORLD, dest, here ? own() : source, bytes,
                                 reinterpret_cast<shmemx_stream_t>(s));
  }
  static bool by_engines(int kind) {
    return kind == engines || kind == in_place || kind == beside_engines || kind == beside_in_place;
  }
  void check(int kind) {
    by(by_engines(kind));
    HIP(hipMemset(dest, 0, bytes * size_t(e.npes)));
    if (kind == in_place) HIP(hipMemset(own(), e.me + 1, bytes));
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
    gather(kind, e.stream);
    HIP(hipStreamSynchronize(e.stream));
    std::vector<char> got(bytes * size_t(e.npes));
    HIP(hipMemcpy(got.data(), dest, got.size(), hipMemcpyDeviceToHost));
    for (size_t i = 0; i < got.size(); i++)
      if (got[i] != char(i / bytes + 1))
        e.wrong(names[kind], i / bytes, i % bytes, got[i], double(i / bytes + 1));
  }
  // us of a call on e.stream, of `calls` in a row, while the other stream gathers, or not.
  double once(int kind) {
    const int calls = shmem::runtime::hardware ? 8 : 1;
    by(by_engines(kind));
    const bool beside = kind > product;
    for (int i = 0; beside && i < 2 * calls; i++) gather(kind, other);
    HIP(hipEventRecord(e.begin, e.stream));
    for (int i = 0; i < calls; i++)
      if (kind < product)
        gather(kind, e.stream);
      else
        shmemx_matmul_on_stream(&call, e.on());
    HIP(hipEventRecord(e.end, e.stream));
    HIP(hipEventSynchronize(e.end));
    float ms = 0;
    HIP(hipEventElapsedTime(&ms, e.begin, e.end));
    HIP(hipStreamSynchronize(other));
    return double(ms) * 1e3 / calls;
  }
  void measure() {
    for (int kind : {kernels, engines, in_place}) check(kind);
    std::vector<std::vector<double>> us(kinds);
    for (int run = -2; run < e.o.runs; run++)
      for (int k = 0; k < kinds; k++) {
        const double one = once(k);
        if (run >= 0) us[size_t(k)].push_back(one);
      }
    static double mine[kinds], slowest[kinds]; // symmetric
    for (size_t k = 0; k < kinds; k++) {
      std::sort(us[k].begin(), us[k].end());
      mine[k] = us[k][us[k].size() / 2];
    }
    shmem_barrier_all();
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, slowest, mine, size_t(kinds));
    if (e.me) return;
    const std::string panel = std::to_string(bytes >> 10) + " KiB of each PE, products of " +
                              std::to_string(edge) + " x " + std::to_string(edge) + " bf16";
    for (int k = 0; k < kinds; k++) {
      const double ratio = k < product ? 1 : slowest[product] / slowest[k];
      if (e.o.json)
        printf("{\"test\": \"copy\", \"kind\": \"%s\", \"bytes\": %zu, \"edge\": %zu, \"us\": "
               "%.5g, \"of_its_speed\": %.4g}\n",
               names[k], bytes, edge, slowest[k], ratio);
      else
        printf("%-26s %8zu %6zu %10.5g %10.4g\n", names[k], bytes >> 10, edge, slowest[k], ratio);
      e.point(panel, names[k], false, slowest[k]);
    }
    fflush(stdout);
  }
};

} // namespace

void engine_copy(Engine &engine) {
  if (engine.me == 0 && !engine.o.json)
    printf("# fcollect, and products beside it\n%-26s %8s %6s %10s %10s\n", "kind", "KiB", "edge",
           "us", "of speed");
  const bool hardware = shmem::runtime::hardware;
  Gather g{engine, hardware ? size_t(128) << 20 : size_t(64) << 10, hardware ? 4096u : 64u};
  if (!g.make()) return;
  g.measure();
  g.clear();
}
