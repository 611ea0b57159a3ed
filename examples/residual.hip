// SPDX-License-Identifier: MIT
// A product of several PEs with a finish of the caller's own: the second matrix of a layer, whose
// inner columns are spread over the PEs. Each PE gets its shard of the tokens, weighted by the
// token's gate and added to the layer's input, before anything is rounded to bfloat16.
//
//   out = x + gate * reduce_scatter(y W)
//
// For matrix instructions of sm_90, nvcc wants sm_90a, which oshc++ asks for.
#include "gpu.hpp"
#include <cmath>
#include <shmem/device/gemm/fused.hpp>

using shmem::gemm::Bfloat16, shmem::gemm::load_global;

static const char help[] =
    "usage: residual_hip [--tokens N] [--hidden N] [--inner N] [--repeat N]\n"
    "  --tokens N  of all PEs together (default 100)\n"
    "  --hidden N  numbers of a token (default 72)\n"
    "  --inner N   columns of y and rows of W on each PE (default 64)\n"
    "  --repeat N  timed runs (default 5)\n";

// Called for eight neighbouring sums of a row; those from n on are beyond the matrix. Rows count
// from the first one of c, which for this product is that of the own shard. load_global because no
// compiler can tell what the pointers of a finish point to: AMD's would ask the LDS, too.
struct Residual {
  const Bfloat16 *x;
  const float *gate;
  size_t hidden;
  SHMEM_D_ void operator()(unsigned row, unsigned col, unsigned n, float (&v)[8]) const {
    const Bfloat16 *const at = x + row * hidden + col;
    const float weight = load_global(&gate[row]);
    SHMEM_UNROLL_
    for (unsigned e = 0; e < 8; e++)
      if (e < n) v[e] = shmem::gemm::to_float(load_global(&at[e])) + weight * v[e];
  }
};

enum : unsigned { input, gates, inner_values, weights };

// Element (row, col) of a matrix, in [-1, 1). Made and not stored, so that the check can have all
// of them.
__host__ __device__ inline float element(unsigned matrix, size_t row, size_t col) {
  uint32_t x = uint32_t(row) * 2654435761u ^ uint32_t(col) * 0x85ebca6bu ^ matrix * 0xc2b2ae35u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
  return float(int32_t(x)) * 0x1p-31f;
}
static double rounded(unsigned matrix, size_t row, size_t col) {
  return double(
      shmem::gemm::to_float(shmem::gemm::from_float<Bfloat16>(element(matrix, row, col))));
}

// rows x columns, which are those of the matrix from (row, col) on.
template <class T>
__global__ void fill(T *to, size_t rows, size_t columns, unsigned matrix, size_t row, size_t col) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] = shmem::gemm::from_float<T>(element(matrix, row + i / columns, col + i % columns));
}
template <class T>
static T *filled(size_t rows, size_t columns, unsigned matrix, size_t row, size_t col) {
  T *p;
  HIP(hipMalloc(&p, (rows * columns + 1) * sizeof *p));
  hipLaunchKernelGGL(fill<T>, dim3(64), dim3(256), 0, nullptr, p, rows, columns, matrix, row, col);
  HIP(hipGetLastError());
  return p;
}

// Some tokens of this PE, from `first` on. Each PE's part is rounded to bfloat16, by at most 1 in
// 256 of it, and so is the result.
static long check(const Bfloat16 *out, size_t first, size_t own, size_t hidden, size_t inner,
                  size_t parts) {
  auto *row = static_cast<Bfloat16 *>(private_memory(hidden * sizeof(Bfloat16), "the check"));
  long errors = 0;
  const size_t count = own < 4 ? own : 4;
  for (size_t i = 0; i < count; i++) {
    const size_t at = count > 1 ? i * (own - 1) / (count - 1) : 0, token = first + at;
    HIP(hipMemcpy(row, out + at * hidden, hidden * sizeof *row, hipMemcpyDeviceToHost));
    for (size_t h = 0; h < hidden; h++) {
      double sum = 0, sizes = 0;
      for (size_t part = 0; part < parts; part++) {
        double one = 0;
        for (size_t f = part * inner; f < (part + 1) * inner; f++)
          one += rounded(inner_values, token, f) * rounded(weights, f, h);
        sum += one, sizes += std::fabs(one);
      }
      const double gate = double(element(gates, token, 0)),
                   want = rounded(input, token, h) + gate * sum;
      errors += !(std::fabs(double(shmem::gemm::to_float(row[h])) - want) <=
                  (std::fabs(gate) * sizes + std::fabs(want)) / 250 + 1e-5 * double(inner));
    }
  }
  free(row);
  return errors;
}

int main(int argc, char **argv) {
  shmem_init();
  long tokens = 100, hidden = 72, inner = 64, repeat = 5;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--tokens")))
      tokens = parse_number("--tokens", value, 1, 1 << 24);
    else if ((value = option_value(argc, argv, &i, "--hidden")))
      hidden = parse_number("--hidden", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--inner")))
      inner = parse_number("--inner", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--repeat")))
      repeat = parse_number("--repeat", value, 1, 1 << 20);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  if (npes > 8) usage_error("%d PEs: at most 8 share a product", npes);

  shmemx_matmul_t call{};
  call.type = call.out = SHMEMX_BF16;
  call.m = size_t(tokens);
  call.n = call.ldb = call.ldc = size_t(hidden);
  call.k = call.lda = size_t(inner);
  const auto workspace =
      shmemx_matmul_workspace_create(SHMEM_TEAM_WORLD, SHMEMX_MATMUL_REDUCE_SCATTER, &call);

  size_t first, own; // of this PE's shard
  shmemx_matmul_shard(call.m, npes, me, &first, &own);
  const size_t column = call.k * size_t(me);
  auto *const y = filled<Bfloat16>(call.m, call.k, inner_values, 0, column);
  auto *const w = filled<Bfloat16>(call.k, call.n, weights, column, 0);
  auto *const x = filled<Bfloat16>(own, call.n, input, first, 0);
  auto *const gate = filled<float>(own, 1, gates, first, 0);
  Bfloat16 *out;
  HIP(hipMalloc(&out, (own * call.n + 1) * sizeof *out));
  call.a = y, call.b = w, call.c = out;

  const auto layer = [&] {
    shmem::gemm::matmul_reduce_scatter<Bfloat16>(workspace, call, Residual{x, gate, call.n},
                                                 nullptr);
  };
  timed(layer); // the first one loads what it needs
  const double seconds = timed([&] {
    for (long i = 0; i < repeat; i++) layer();
  });
  const long errors = check(out, first, own, call.n, call.k, size_t(npes));
  if (me == 0)
    printf("%ld tokens of %ld from %ld on %d PEs: %.1f us, %.4g TFLOP/s on each\n", tokens, hidden,
           inner * npes, npes, seconds / double(repeat) * 1e6,
           2e-12 * double(tokens) * double(hidden) * double(inner) * double(repeat) / seconds);
  HIP(hipFree(out));
  HIP(hipFree(gate));
  for (Bfloat16 *p : {x, w, y}) HIP(hipFree(p));
  shmemx_matmul_workspace_destroy(workspace);
  return finish("residual_hip", errors);
}
