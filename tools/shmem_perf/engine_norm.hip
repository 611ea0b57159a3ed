// SPDX-License-Identifier: MIT
// All-reduce with residual and RMSNorm in bf16: the all-reduce alone, with a norm's kernel behind
// it, and all in one call.
#include "engine.hpp"

#include <cmath>
#include <shmem/device/rows.hpp>
#include <shmem/device/shmem.hpp>

namespace {

using shmem::Bfloat16, shmem::to_float, shmem::from_float;
using shmem::device::Pack;
using shmem::rows::SummedRow, shmem::rows::Exchange;

constexpr float eps = 1e-6f;
enum Kind { reduced, separate, fused, scattered, quantized, kinds };
const char *const names[kinds] = {"all-reduce", "all-reduce, norm", "fused",
                                  "fused, residual scattered", "fused, fp8 too"};

// Element i of a matrix of a PE, in [-1, 1). A check computes the element again.
__host__ __device__ inline Bfloat16 element(unsigned matrix, int pe, size_t i) {
  uint32_t x =
      uint32_t(i) * 2654435761u + uint32_t(i >> 32) + matrix * 40503u + uint32_t(pe) * 977u;
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return from_float<Bfloat16>(float(int32_t(x ^ x >> 16)) * 0x1p-31f);
}
__global__ void fill(Bfloat16 *to, size_t n, unsigned matrix, int pe) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] = element(matrix, pe, i);
}

// The kernel that an engine launches behind an all-reduce: a workgroup for each row, which it reads
// once.
template <int K>
__global__ void __launch_bounds__(512)
    plain_norm(const Pack *in, const Pack *residual, const Pack *weight, Pack *sum, Pack *out,
               unsigned columns) {
  using shmem::device::Lanes, shmem::device::unpack, shmem::device::pack;
  SummedRow<Bfloat16, K> row;
  row.columns = columns;
  const size_t first = size_t(blockIdx.x) * (columns / 8);
  row.each([&](int, unsigned column, float(&v)[8]) {
    Lanes<Bfloat16> a = unpack<Bfloat16>(in[first + column / 8]);
    const Lanes<Bfloat16> b = unpack<Bfloat16>(residual[first + column / 8]);
    for (int e = 0; e < 8; e++) a.v[e] += b.v[e];
    const Pack h = pack<Bfloat16>(a);
    sum[first + column / 8] = h;
    a = unpack<Bfloat16>(h);
    for (int e = 0; e < 8; e++) v[e] = a.v[e];
  });
  const float squares = row.sum([](float s, float v, unsigned) { return fmaf(v, v, s); });
  const float factor = 1 / sqrtf(squares / float(columns) + eps);
  row.each([&](int, unsigned column, float(&v)[8]) {
    Lanes<Bfloat16> a = unpack<Bfloat16>(weight[column / 8]);
    for (int e = 0; e < 8; e++) a.v[e] *= v[e] * factor;
    out[first + column / 8] = pack<Bfloat16>(a);
  });
}

struct Norms {
  Engine &e;
  size_t rows, columns, sets = 1;
  Bfloat16 *input = nullptr, *residual = nullptr, *reduced_to = nullptr, *sum = nullptr,
           *out = nullptr, *weight = nullptr;
  uint8_t *small = nullptr;
  float *scales = nullptr;

  size_t n() const { return rows * columns; }
  size_t bytes() const { return sets * n() * 2; }
  bool make() {
    // Sets of matrices take turns, so that none is in the L2.
    sets = std::min(size_t(8), 2 + size_t(e.prop.l2CacheSize) / (n() * 2));
    const std::string what = std::to_string(rows) + " rows";
    char *all = static_cast<char *>(e.room(what.c_str(), 5 * bytes() + sets * (n() + rows * 4)));
    if (!all) return false;
    const auto matrix = [&](size_t i) { return reinterpret_cast<Bfloat16 *>(all + i * bytes()); };
    input = matrix(0), residual = matrix(1), reduced_to = matrix(2), sum = matrix(3);
    out = matrix(4);
    small = reinterpret_cast<uint8_t *>(matrix(5));
    scales = reinterpret_cast<float *>(small + sets * n());
    HIP(hipMalloc(&weight, columns * 2));
    const auto fill_one = [&](Bfloat16 *to, size_t count, unsigned which, int pe) {
      hipLaunchKernelGGL(fill, dim3(256), dim3(256), 0, e.stream, to, count, which, pe);
      HIP(hipGetLastError());
    };
    for (size_t set = 0; set < sets; set++) {
      fill_one(input + set * n(), n(), 1, e.me);
      fill_one(residual + set * n(), n(), 2, 0);
    }
    fill_one(weight, columns, 3, 0);
    HIP(hipStreamSynchronize(e.stream));
    shmem_barrier_all();
    return true;
  }
  void clear() {
    HIP(hipStreamSynchronize(e.stream));
    HIP(hipFree(weight));
    shmem_free(input);
  }

  void start(int kind, size_t set) const {
    const size_t at = set % sets * n();
    if (kind == reduced || kind == separate)
      shmemx_bfloat16_sum_reduce_on_stream(SHMEM_TEAM_WORLD, reduced_to + at, input + at, n(),
                                           e.on());
    if (kind == reduced) return;
    if (kind == separate) {
      const auto packs = [](Bfloat16 *p) { return reinterpret_cast<Pack *>(p); };
      hipLaunchKernelGGL(
          plain_norm<2>, dim3(unsigned(rows)), dim3(shmem::rows::threads(unsigned(columns / 8))),
          shmem::arch::launch_bytes<Exchange<2>>, e.stream, packs(reduced_to + at),
          packs(residual + at), packs(weight), packs(sum + at), packs(out + at), unsigned(columns));
      HIP(hipGetLastError());
      return;
    }
    shmemx_norm_t call = SHMEMX_NORM_INITIALIZER;
    call.rows = rows, call.columns = columns, call.eps = eps;
    call.input = input + at, call.residual = residual + at, call.residual_out = sum + at;
    call.weight = weight, call.out = out + at;
    call.residual_scattered = kind == scattered;
    if (kind == quantized) call.quantized = small + at, call.scales = scales + set % sets * rows;
    shmemx_all_reduce_norm_on_stream(SHMEM_TEAM_WORLD, &call, e.on());
  }

  // A row's end in double: the first and the last one, and one between.
  void check(int kind) const {
    HIP(hipMemsetAsync(out, 0xff, n() * 2, e.stream)); // NaN
    HIP(hipMemsetAsync(reduced_to, 0xff, n() * 2, e.stream));
    HIP(hipStreamSynchronize(e.stream));
    shmem_barrier_all(); // before a peer writes there
    start(kind, 0);
    HIP(hipStreamSynchronize(e.stream));
    std::vector<Bfloat16> got(columns);
    for (size_t row : {size_t(0), rows / 2, rows - 1}) {
      HIP(hipMemcpyAsync(got.data(), (kind == reduced ? reduced_to : out) + row * columns,
                         columns * 2, hipMemcpyDeviceToHost, e.stream));
      HIP(hipStreamSynchronize(e.stream));
      std::vector<double> want(columns);
      double squares = 0;
      for (size_t c = 0; c < columns; c++) {
        for (int pe = 0; pe < e.npes; pe++)
          want[c] += double(to_float(element(1, pe, row * columns + c)));
        if (kind != reduced) want[c] += double(to_float(element(2, 0, row * columns + c)));
        squares += want[c] * want[c];
      }
      const double factor = kind == reduced ? 1 : 1 / std::sqrt(squares / double(columns) + 1e-6);
      for (size_t c = 0; c < columns; c++) {
        const double w =
            want[c] * factor * (kind == reduced ? 1 : double(to_float(element(3, 0, c))));
        const double v = double(to_float(got[c]));
        if (!(std::fabs(v - w) <= 0x1p-6 * std::fabs(w) + 0x1p-6 * factor * double(e.npes)))
          e.wrong(names[kind], row, c, v, w);
      }
    }
    shmem_barrier_all(); // no PE spoils them before all have looked
  }
  void measure() {
    for (int kind = 0; kind < kinds; kind++) check(kind);
    const std::vector<double> us = e.time(kinds, [&](int k, int i) { start(k, size_t(i)); });
    if (e.me != 0) return;
    const std::string panel = std::to_string(rows) + " x " + std::to_string(columns) + " bf16";
    for (int k = 0; k < kinds; k++) {
      if (e.o.json)
        printf("{\"test\": \"norm\", \"kind\": \"%s\", \"rows\": %zu, \"columns\": %zu, \"us\": "
               "%.5g, \"above_all_reduce_us\": %.4g, \"x_separate\": %.4g}\n",
               names[k], rows, columns, us[size_t(k)], us[size_t(k)] - us[reduced],
               us[size_t(k)] / us[separate]);
      else
        printf("%-26s %6zu %6zu %10.5g %10.4g %10.3f\n", names[k], rows, columns, us[size_t(k)],
               us[size_t(k)] - us[reduced], us[size_t(k)] / us[separate]);
      e.point(panel, names[k], k < fused, us[size_t(k)]);
    }
    fflush(stdout);
  }
};

} // namespace

void engine_norm(Engine &engine) {
  if (engine.me == 0 && !engine.o.json)
    printf("# all-reduce of rows in bf16, residual, RMSNorm\n%-26s %6s %6s %10s %10s %10s\n",
           "kind", "rows", "cols", "us", "+ us", "x separate");
  const size_t columns = shmem::runtime::hardware ? 7168 : 264, row = columns * sizeof(Bfloat16);
  std::vector<size_t> table{row, 16 * row, 64 * row};
  if (shmem::runtime::hardware)
    for (size_t rows : {256, 512, 2048, 16384}) table.push_back(rows * row);
  for (size_t bytes : engine.sizes(table)) {
    Norms norms{engine, std::max<size_t>(bytes / row, 1), columns};
    if (!norms.make()) continue;
    norms.measure();
    norms.clear();
  }
}
