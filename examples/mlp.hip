// SPDX-License-Identifier: MIT
// The MLP of a transformer, tensor-parallel: each PE has a shard of the tokens, and of each layer's
// weights some columns of the first matrix and the same rows of the second one. A layer is two
// calls: the tokens of all are gathered and multiplied, and the products are summed and scattered.
//
//   y = gelu(all_gather(x) W1)      x' = reduce_scatter(y W2)
#include "gpu.hpp"
#include <cmath>
#include <shmem/device/gemm/number.hpp>

using shmem::gemm::Bfloat16;

static const char help[] =
    "usage: mlp_hip [--tokens N] [--hidden N] [--inner N] [--layers N] [--repeat N]\n"
    "  --tokens N  of all PEs together (default 96)\n"
    "  --hidden N  numbers of a token (default 64)\n"
    "  --inner N   of the layer between, on each PE (default 80)\n"
    "  --layers N  (default 3)\n"
    "  --repeat N  timed runs (default 3)\n";

struct Mlp {
  size_t tokens, hidden, inner, layers;
  size_t rows, first, own; // of tokens: of a shard, this PE's first one, and how many it has
};

// Element (row, col) of a matrix, in [-1, 1) times scale. Made and not stored, so that the check
// can have all of them.
__host__ __device__ inline Bfloat16 element(unsigned matrix, size_t row, size_t col, float scale) {
  uint32_t x = uint32_t(row) * 2654435761u ^ uint32_t(col) * 0x85ebca6bu ^ matrix * 0xc2b2ae35u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
  return shmem::gemm::from_float<Bfloat16>(float(int32_t(x)) * 0x1p-31f * scale);
}
enum : unsigned { input, weights }; // two matrices of weights a layer from there

// Keeps the numbers of all layers at about 1; gelu of such numbers has a mean square of 0.43.
static float scale_of(size_t terms, bool after_gelu) {
  return std::sqrt(3 / (float(terms) * (after_gelu ? 0.43f : 1)));
}

// rows x columns, which are those of the matrix from (row, col) on.
__global__ void fill(Bfloat16 *to, size_t rows, size_t columns, unsigned matrix, size_t row,
                     size_t col, float scale) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] = element(matrix, row + i / columns, col + i % columns, scale);
}
static Bfloat16 *matrix(size_t room, size_t rows, size_t columns, unsigned number, size_t row,
                        size_t col, float scale) {
  auto *p = on_device<Bfloat16>(room * columns, "a matrix"); // as large on all PEs
  hipLaunchKernelGGL(fill, dim3(64), dim3(256), 0, nullptr, p, rows, columns, number, row, col,
                     scale);
  HIP(hipGetLastError());
  return p;
}

// One token through all layers, in double; the inner columns of all PEs.
static void reference(const Mlp &m, size_t token, int npes, double *x, double *y) {
  const size_t inner = m.inner * size_t(npes);
  const float scale1 = scale_of(m.hidden, false), scale2 = scale_of(inner, true);
  for (size_t h = 0; h < m.hidden; h++)
    x[h] = double(shmem::gemm::to_float(element(input, token, h, 1.7f)));
  for (size_t layer = 0; layer < m.layers; layer++) {
    const unsigned w = weights + unsigned(2 * layer);
    for (size_t f = 0; f < inner; f++) {
      double sum = 0;
      for (size_t h = 0; h < m.hidden; h++)
        sum += x[h] * double(shmem::gemm::to_float(element(w, h, f, scale1)));
      y[f] = 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)));
    }
    for (size_t h = 0; h < m.hidden; h++) {
      x[h] = 0;
      for (size_t f = 0; f < inner; f++)
        x[h] += y[f] * double(shmem::gemm::to_float(element(w + 1, f, h, scale2)));
    }
  }
}

// Some tokens of this PE. bfloat16 rounds by 1 in 512 after each step, of numbers of about 1.
static long check(const Mlp &m, const Bfloat16 *out, int npes) {
  const size_t inner = m.inner * size_t(npes), count = m.own < 3 ? m.own : 3;
  auto *x = static_cast<double *>(private_memory(m.hidden * sizeof(double), "the check"));
  auto *y = static_cast<double *>(private_memory(inner * sizeof(double), "the check"));
  auto *row = static_cast<Bfloat16 *>(private_memory(m.hidden * sizeof(Bfloat16), "the check"));
  long errors = 0;
  for (size_t i = 0; i < count; i++) {
    const size_t at = count > 1 ? i * (m.own - 1) / (count - 1) : 0;
    HIP(hipMemcpy(row, out + at * m.hidden, m.hidden * sizeof *row, hipMemcpyDeviceToHost));
    reference(m, m.first + at, npes, x, y);
    double square = 0;
    for (size_t h = 0; h < m.hidden; h++) square += x[h] * x[h];
    const double bound =
        0.02 * std::sqrt(double(m.layers)) * (std::sqrt(square / double(m.hidden)) + 0.01);
    for (size_t h = 0; h < m.hidden; h++) // NaN is an error too
      errors += !(std::fabs(double(shmem::gemm::to_float(row[h])) - x[h]) <=
                  bound + 0.01 * std::fabs(x[h]));
  }
  free(row);
  free(y);
  free(x);
  return errors;
}

int main(int argc, char **argv) {
  shmem_init();
  long tokens = 96, hidden = 64, inner = 80, layers = 3, repeat = 3;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--tokens")))
      tokens = parse_number("--tokens", value, 1, 1 << 24);
    else if ((value = option_value(argc, argv, &i, "--hidden")))
      hidden = parse_number("--hidden", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--inner")))
      inner = parse_number("--inner", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--layers")))
      layers = parse_number("--layers", value, 1, 1000);
    else if ((value = option_value(argc, argv, &i, "--repeat")))
      repeat = parse_number("--repeat", value, 1, 1 << 20);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  if (npes > 8) usage_error("%d PEs: at most 8 share a product", npes);
  Mlp m{size_t(tokens), size_t(hidden), size_t(inner), size_t(layers), 0, 0, 0};
  shmemx_matmul_shard(m.tokens, npes, 0, &m.first, &m.rows); // none is longer than the first
  shmemx_matmul_shard(m.tokens, npes, me, &m.first, &m.own);

  shmemx_matmul_t up{}, down{};
  up.type = up.out = down.type = down.out = SHMEMX_BF16;
  up.m = down.m = m.tokens;
  up.n = up.ldb = up.ldc = down.k = down.lda = m.inner;
  up.k = up.lda = down.n = down.ldb = down.ldc = m.hidden;
  up.activation = SHMEMX_ACTIVATION_GELU;
  // One for each kind of call and its shape, for all layers.
  const auto gathers =
      shmemx_matmul_workspace_create(SHMEM_TEAM_WORLD, SHMEMX_ALL_GATHER_MATMUL, &up);
  const auto scatters =
      shmemx_matmul_workspace_create(SHMEM_TEAM_WORLD, SHMEMX_MATMUL_REDUCE_SCATTER, &down);

  const float scale1 = scale_of(m.hidden, false), scale2 = scale_of(m.inner * size_t(npes), true);
  const size_t column = m.inner * size_t(me); // the first inner one of this PE
  Bfloat16 *const in = matrix(m.rows, m.own, m.hidden, input, m.first, 0, 1.7f);
  Bfloat16 *x[2], *const y = on_device<Bfloat16>(m.tokens * m.inner, "y");
  for (Bfloat16 *&p : x) p = on_device<Bfloat16>(m.rows * m.hidden, "x");
  auto **w =
      static_cast<Bfloat16 **>(private_memory(2 * m.layers * sizeof(Bfloat16 *), "the layers"));
  for (size_t i = 0; i < m.layers; i++) {
    const unsigned number = weights + unsigned(2 * i);
    w[2 * i] = matrix(m.hidden, m.hidden, m.inner, number, 0, column, scale1);
    w[2 * i + 1] = matrix(m.inner, m.inner, m.hidden, number + 1, column, 0, scale2);
  }

  const auto forward = [&] {
    for (size_t i = 0; i < m.layers; i++) {
      up.a = i ? x[i % 2] : in, up.b = w[2 * i], up.c = y;
      down.a = y, down.b = w[2 * i + 1], down.c = x[(i + 1) % 2];
      shmemx_all_gather_matmul_on_stream(gathers, &up, nullptr);
      shmemx_matmul_reduce_scatter_on_stream(scatters, &down, nullptr);
    }
  };
  timed(forward); // the first one loads what it needs
  const double seconds = timed([&] {
    for (long i = 0; i < repeat; i++) forward();
  });
  const long errors = check(m, x[m.layers % 2], npes);
  if (me == 0) {
    const double flops = 4.0 * double(tokens) * double(hidden) * double(inner) * double(layers);
    printf("%ld tokens, %ld layers of %ld x %ld on %d PEs: %.1f us, %.4g TFLOP/s on each\n", tokens,
           layers, hidden, inner * npes, npes, seconds / double(repeat) * 1e6,
           flops * double(repeat) / seconds * 1e-12);
  }
  shmem_barrier_all();
  for (size_t i = 0; i < 2 * m.layers; i++) shmem_free(w[i]);
  free(w);
  for (Bfloat16 *p : {y, x[1], x[0], in}) shmem_free(p);
  shmemx_matmul_workspace_destroy(scatters);
  shmemx_matmul_workspace_destroy(gathers);
  return finish("mlp_hip", errors);
}
