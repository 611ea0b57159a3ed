// SPDX-License-Identifier: MIT
// Sums of bf16 over all PEs: the plain one, and those whose elements travel as fewer bits.
#include "engine.hpp"

#include <cmath>
#include <shmem/device/number.hpp>

namespace {

using shmem::Bfloat16, shmem::to_float, shmem::from_float;

// error: the most that a number below 1 may lose on one way, which is checked.
const struct {
  const char *name;
  shmemx_wire_format_t format;
  int chunks;
  double error;
} kinds[] = {{"sum", SHMEMX_WIRE_F8, 0, 0},
             {"sum by fp8", SHMEMX_WIRE_F8, 0, 1 / 15.},
             {"sum by int8", SHMEMX_WIRE_INT8, 0, 1 / 252.},
             {"sum by int6", SHMEMX_WIRE_INT6, 0, 1 / 61.},
             {"sum by int4", SHMEMX_WIRE_INT4, 0, 1 / 13.},
             {"sum by int8, one kernel", SHMEMX_WIRE_INT8, -1, 1 / 252.},
             {"sum by int8, 1 chunk", SHMEMX_WIRE_INT8, 1, 1 / 252.},
             {"sum by int8, 3 chunks", SHMEMX_WIRE_INT8, 3, 1 / 252.},
             {"sum by int8, 7 chunks", SHMEMX_WIRE_INT8, 7, 1 / 252.}};
constexpr size_t n_kinds = sizeof kinds / sizeof kinds[0];

// Element i of a PE, in [-1, 1). A check computes the element again.
__host__ __device__ inline Bfloat16 element(int pe, size_t i) {
  uint32_t x = uint32_t(i) * 2654435761u + uint32_t(pe) * 977u;
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return from_float<Bfloat16>(float(int32_t(x ^ x >> 16)) * 0x1p-31f);
}
__global__ void fill(Bfloat16 *to, size_t n, int pe) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] = element(pe, i);
}

struct Sums {
  Engine &e;
  size_t n, sets = 1; // elements
  Bfloat16 *source = nullptr, *dest = nullptr;
  shmemx_wire_t wires[n_kinds] = {};

  bool make() {
    // Sets of vectors take turns, so that none is in the L2.
    sets = std::min(size_t(8), 2 + size_t(e.prop.l2CacheSize) / (n * 2));
    const std::string what = std::to_string(n * 2) + " bytes";
    // With the wires' own, of 34 bytes for 32 elements: twice those of all PEs.
    void *all = e.room(what.c_str(), (4 * sets + 9 * (n_kinds - 1) / 4) * n + (size_t(8) << 20));
    if (!all) return false;
    shmem_free(all);
    source = static_cast<Bfloat16 *>(e.room(what.c_str(), 4 * sets * n));
    if (!source) return false;
    dest = source + sets * n;
    for (size_t set = 0; set < sets; set++) {
      hipLaunchKernelGGL(fill, dim3(256), dim3(256), 0, e.stream, source + set * n, n, e.me);
      HIP(hipGetLastError());
    }
    HIP(hipStreamSynchronize(e.stream));
    for (size_t k = 1; k < n_kinds; k++) {
      shmemx_wire_shape_t shape = SHMEMX_WIRE_SHAPE_INITIALIZER;
      shape.format = kinds[k].format, shape.chunks = kinds[k].chunks, shape.elements = n;
      shmemx_wire_create(SHMEM_TEAM_WORLD, &shape, &wires[k]);
    }
    shmem_barrier_all();
    return true;
  }
  void clear() {
    HIP(hipStreamSynchronize(e.stream));
    for (shmemx_wire_t wire : wires) shmemx_wire_destroy(wire);
    shmem_free(source);
  }
  void start(size_t kind, size_t set) const {
    const size_t at = set % sets * n;
    if (wires[kind])
      shmemx_wire_sum_reduce_on_stream(wires[kind], dest + at, source + at, n, e.on());
    else
      shmemx_bfloat16_sum_reduce_on_stream(SHMEM_TEAM_WORLD, dest + at, source + at, n, e.on());
  }
  // Some elements of each 1024, by double: each summand loses at most `error`, and the sum loses
  // that of the largest sum, which is below the number of PEs.
  void check(size_t kind) const {
    HIP(hipMemsetAsync(dest, 0xff, n * 2, e.stream)); // NaN
    HIP(hipStreamSynchronize(e.stream));
    shmem_barrier_all();
    start(kind, 0);
    std::vector<Bfloat16> got(n);
    HIP(hipMemcpyAsync(got.data(), dest, n * 2, hipMemcpyDeviceToHost, e.stream));
    HIP(hipStreamSynchronize(e.stream));
    const double pes = e.npes, once = kinds[kind].error;
    const double may = once * pes + once * (1 + once) * pes + 0x1p-8 * pes * (1 + once);
    for (size_t i = 0; i < n; i += i % 1024 < 1020 ? 51 : 4) {
      double want = 0;
      for (int pe = 0; pe < e.npes; pe++) want += double(to_float(element(pe, i)));
      const double v = double(to_float(got[i]));
      if (!(std::fabs(v - want) <= may)) e.wrong(kinds[kind].name, 0, i, v, want);
    }
    shmem_barrier_all();
  }
  void measure() {
    for (size_t k = 0; k < n_kinds; k++) check(k);
    const std::vector<double> us =
        e.time(int(n_kinds), [&](int k, int i) { start(size_t(k), size_t(i)); });
    if (e.me != 0) return;
    const std::string panel = "sums of " + std::to_string(n * 2) + " bytes of bf16";
    for (size_t k = 0; k < n_kinds; k++) {
      if (e.o.json)
        printf("{\"test\": \"wire\", \"kind\": \"%s\", \"bytes\": %zu, \"us\": %.5g, \"x_sum\": "
               "%.4g}\n",
               kinds[k].name, n * 2, us[k], us[k] / us[0]);
      else
        printf("%-26s %10zu %10.5g %10.3f\n", kinds[k].name, n * 2, us[k], us[k] / us[0]);
      e.point(panel, kinds[k].name, k == 0, us[k]);
    }
    fflush(stdout);
  }
};

} // namespace

void engine_wire(Engine &engine) {
  if (engine.me == 0 && !engine.o.json)
    printf("# sums of bf16 over all PEs, whose elements travel as fewer bits\n%-26s %10s %10s "
           "%10s\n",
           "kind", "bytes", "us", "x sum");
  const std::vector<size_t> table =
      shmem::runtime::hardware ? std::vector<size_t>{1 << 20, 8 << 20, 32 << 20, size_t(128) << 20}
                               : std::vector<size_t>{1 << 16};
  for (size_t bytes : engine.sizes(table)) {
    Sums sums{engine, bytes / 2};
    if (!sums.make()) continue;
    sums.measure();
    sums.clear();
  }
}
