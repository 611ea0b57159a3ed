// SPDX-License-Identifier: MIT
// Layers of a transformer, whose heads and inner columns are spread over the PEs (tensor
// parallelism). A layer has two sums over the PEs, and the steps after each of them, up to the next
// product's operand, are in the same call:
//
//   x, h = all_reduce(attention(h) Wo) + x, norm of that
//   x, h = all_reduce(silu(h Wup) Wdown) + x, norm of that
//
// One PE's result in double is the check; and all PEs must have the same bits.
#include "gpu.hpp"
#include <cmath>
#include <shmem/device/number.hpp>
#include <vector>

using shmem::Bfloat16, shmem::to_float, shmem::from_float;

static const char help[] = "usage: transformer_hip [--tokens N] [--layers N] [--repeat N]\n"
                           "  --tokens N  of one sequence (default 20)\n"
                           "  --layers N  (default 2)\n"
                           "  --repeat N  timed runs (default 3)\n"
                           "The number of PEs divides 24, the number of heads.\n";

constexpr unsigned heads = 24, width = 8, hidden = 64, inner = 192;
enum : unsigned { to_qkv, to_hidden, up, down, norms, tokens_in };

// Element (row, col) of a matrix, about as large as trained ones are. Made and not stored, so that
// the check can have all of them.
__host__ __device__ inline Bfloat16 element(unsigned matrix, size_t row, size_t col) {
  uint32_t x = uint32_t(row) * 2654435761u ^ uint32_t(col) * 0x85ebca6bu ^ matrix * 0xc2b2ae35u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
  return from_float<Bfloat16>(float(int32_t(x)) * 0x1p-31f * (matrix % 8 < norms ? 0.25f : 1));
}
static double value(unsigned matrix, size_t row, size_t col) {
  return double(to_float(element(matrix, row, col)));
}
// rows x columns, which are those of the matrix from (row, col) on.
__global__ void fill(Bfloat16 *to, size_t rows, size_t columns, unsigned matrix, size_t row,
                     size_t col) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] = element(matrix, row + i / columns, col + i % columns);
}
static Bfloat16 *filled(size_t rows, size_t columns, unsigned matrix, size_t row, size_t col) {
  Bfloat16 *p;
  HIP(hipMalloc(&p, (rows * columns + 1) * sizeof *p));
  hipLaunchKernelGGL(fill, dim3(64), dim3(256), 0, nullptr, p, rows, columns, matrix, row, col);
  HIP(hipGetLastError());
  return p;
}

// qkv has a row for each token: the queries of all heads here, then the keys, then the values. A
// thread has a number of the result, and looks at the tokens up to its own twice: for the largest
// score, and for the sum.
__global__ void attend(const Bfloat16 *qkv, Bfloat16 *to, unsigned tokens, unsigned heads_here) {
  const unsigned columns = heads_here * width;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < tokens * columns;
       i += gridDim.x * blockDim.x) {
    const unsigned token = i / columns, column = i % columns, head = column / width * width;
    const Bfloat16 *const q = qkv + size_t(token) * 3 * columns + head;
    const auto score = [&](unsigned other) {
      const Bfloat16 *const k = qkv + size_t(other) * 3 * columns + columns + head;
      float sum = 0;
      for (unsigned e = 0; e < width; e++) sum += to_float(q[e]) * to_float(k[e]);
      return sum * 0.35355339f;
    };
    float most = score(0), sum = 0, all = 0;
    for (unsigned other = 1; other <= token; other++) most = fmaxf(most, score(other));
    for (unsigned other = 0; other <= token; other++) {
      const float weight = expf(score(other) - most);
      all += weight;
      sum += weight * to_float(qkv[size_t(other) * 3 * columns + 2 * columns + column]);
    }
    to[i] = from_float<Bfloat16>(sum / all);
  }
}

struct Layer {
  Bfloat16 *qkv, *out, *up, *down, *norm[2]; // weights: what this PE has of them, and all of norm
};

static void multiply(const Bfloat16 *a, const Bfloat16 *b, Bfloat16 *c, size_t m, size_t n,
                     size_t k, shmemx_activation_t activation = SHMEMX_ACTIVATION_NONE) {
  shmemx_matmul_t call{};
  call.type = call.out = SHMEMX_BF16;
  call.m = m, call.n = call.ldb = call.ldc = n, call.k = call.lda = k;
  call.a = a, call.b = b, call.c = c;
  call.activation = activation;
  shmemx_matmul_on_stream(&call, nullptr);
}

// All of it on one PE, in double, rounded where the layers above are. Of x and h each row is a
// token.
struct Whole {
  size_t tokens;
  std::vector<double> x, h;
  static double rounded(double v) { return double(to_float(from_float<Bfloat16>(float(v)))); }
  std::vector<double> product(const std::vector<double> &a, size_t k, size_t n, unsigned matrix,
                              bool round) const {
    std::vector<double> c(tokens * n);
    for (size_t t = 0; t < tokens; t++)
      for (size_t j = 0; j < n; j++) {
        double sum = 0;
        for (size_t i = 0; i < k; i++) sum += a[t * k + i] * value(matrix, i, j);
        c[t * n + j] = round ? rounded(sum) : sum;
      }
    return c;
  }
  void end(const std::vector<double> &sum, unsigned norm_row, unsigned matrix) {
    for (size_t t = 0; t < tokens; t++) {
      double squares = 0;
      for (size_t c = 0; c < hidden; c++) {
        double &v = x[t * hidden + c];
        v = rounded(v + (sum.empty() ? 0 : sum[t * hidden + c]));
        squares += v * v;
      }
      for (size_t c = 0; c < hidden; c++)
        h[t * hidden + c] = rounded(x[t * hidden + c] / std::sqrt(squares / hidden + 1e-6) *
                                    (1 + value(matrix, norm_row, c)));
    }
  }
  void layer(unsigned l) {
    constexpr size_t n = heads * width;
    const std::vector<double> qkv = product(h, hidden, 3 * n, 8 * l + to_qkv, true);
    std::vector<double> mixed(tokens * n);
    for (size_t t = 0; t < tokens; t++)
      for (size_t c = 0; c < n; c++) {
        double all = 0, sum = 0;
        for (size_t o = 0; o <= t; o++) {
          double score = 0;
          for (size_t e = c / width * width; e < (c / width + 1) * width; e++)
            score += qkv[t * 3 * n + e] * qkv[o * 3 * n + n + e];
          const double weight = std::exp(score * 0.35355339);
          all += weight, sum += weight * qkv[o * 3 * n + 2 * n + c];
        }
        mixed[t * n + c] = rounded(sum / all);
      }
    end(product(mixed, n, hidden, 8 * l + to_hidden, false), 0, 8 * l + norms);
    std::vector<double> wide = product(h, hidden, inner, 8 * l + ::up, false);
    for (double &v : wide) v = rounded(v / (1 + std::exp(-v)));
    end(product(wide, inner, hidden, 8 * l + ::down, false), 1, 8 * l + norms);
  }
};

int main(int argc, char **argv) {
  shmem_init();
  long tokens = 20, layers = 2, repeat = 3;
  for (int i = 1; i < argc; ++i) {
    const char *text;
    if (is_help(argv[i])) help_and_exit(help);
    if ((text = option_value(argc, argv, &i, "--tokens")))
      tokens = parse_number("--tokens", text, 1, 1 << 12);
    else if ((text = option_value(argc, argv, &i, "--layers")))
      layers = parse_number("--layers", text, 1, 100);
    else if ((text = option_value(argc, argv, &i, "--repeat")))
      repeat = parse_number("--repeat", text, 1, 1 << 20);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const auto me = unsigned(shmem_my_pe()), npes = unsigned(shmem_n_pes());
  if (heads % npes) usage_error("%u PEs: their number must divide %u", npes, heads);
  const size_t n = size_t(tokens), own = heads / npes * width, own_inner = inner / npes,
               first = own * me, first_inner = own_inner * me;

  // Columns of the queries, keys and values for the heads here are in three places of the matrix.
  std::vector<Layer> model;
  for (unsigned l = 0; l < unsigned(layers); l++) {
    Bfloat16 *qkv;
    HIP(hipMalloc(&qkv, hidden * 3 * own * sizeof *qkv));
    for (size_t part = 0; part < 3; part++) {
      Bfloat16 *const some = filled(hidden, own, 8 * l + to_qkv, 0, part * heads * width + first);
      HIP(hipMemcpy2D(qkv + part * own, 3 * own * sizeof *qkv, some, own * sizeof *qkv,
                      own * sizeof *qkv, hidden, hipMemcpyDeviceToDevice));
      HIP(hipDeviceSynchronize());
      HIP(hipFree(some));
    }
    model.push_back(
        {qkv,
         filled(own, hidden, 8 * l + to_hidden, first, 0),
         filled(hidden, own_inner, 8 * l + up, 0, first_inner),
         filled(own_inner, hidden, 8 * l + down, first_inner, 0),
         {filled(1, hidden, 8 * l + norms, 0, 0), filled(1, hidden, 8 * l + norms, 1, 0)}});
  }
  auto *const x = on_device<Bfloat16>(n * hidden, "the residual"),
              *const h = on_device<Bfloat16>(n * hidden, "the norm"),
              *const part = on_device<Bfloat16>(n * hidden, "what a PE adds");
  Bfloat16 *qkv, *mixed, *wide;
  HIP(hipMalloc(&qkv, n * 3 * own * sizeof *qkv));
  HIP(hipMalloc(&mixed, n * own * sizeof *mixed));
  HIP(hipMalloc(&wide, n * own_inner * sizeof *wide));

  // The input of the first layer.
  Whole whole{n, std::vector<double>(n * hidden), std::vector<double>(n * hidden)};
  for (size_t i = 0; i < n * hidden; i++) whole.x[i] = value(tokens_in, i / hidden, i % hidden);
  whole.end({}, 0, tokens_in + 8);
  std::vector<Bfloat16> x0(n * hidden), h0(n * hidden);
  for (size_t i = 0; i < n * hidden; i++) {
    x0[i] = from_float<Bfloat16>(float(whole.x[i]));
    h0[i] = from_float<Bfloat16>(float(whole.h[i]));
  }

  const auto end = [&](const Bfloat16 *weight) {
    shmemx_norm_t norm = SHMEMX_NORM_INITIALIZER;
    norm.rows = n, norm.columns = hidden;
    norm.input = part;
    norm.residual = norm.residual_out = x;
    norm.weight = weight, norm.weight_offset = 1;
    norm.out = h;
    shmemx_all_reduce_norm_on_stream(SHMEM_TEAM_WORLD, &norm, nullptr);
  };
  const auto forward = [&] {
    HIP(hipMemcpyAsync(x, x0.data(), n * hidden * sizeof *x, hipMemcpyHostToDevice, nullptr));
    HIP(hipMemcpyAsync(h, h0.data(), n * hidden * sizeof *h, hipMemcpyHostToDevice, nullptr));
    for (const Layer &l : model) {
      multiply(h, l.qkv, qkv, n, 3 * own, hidden);
      hipLaunchKernelGGL(attend, dim3(32), dim3(64), 0, nullptr, qkv, mixed, unsigned(n),
                         unsigned(own / width));
      HIP(hipGetLastError());
      multiply(mixed, l.out, part, n, hidden, own);
      end(l.norm[0]);
      multiply(h, l.up, wide, n, own_inner, hidden, SHMEMX_ACTIVATION_SILU);
      multiply(wide, l.down, part, n, hidden, own_inner);
      end(l.norm[1]);
    }
  };
  timed(forward); // the first one loads what it needs
  double seconds = 0;
  for (long i = 0; i < repeat; i++) seconds += timed(forward);

  for (unsigned l = 0; l < unsigned(layers); l++) whole.layer(l);
  std::vector<Bfloat16> got(n * hidden), others(n * hidden);
  HIP(hipMemcpy(got.data(), h, n * hidden * sizeof *h, hipMemcpyDeviceToHost));
  shmem_getmem(others.data(), h, n * hidden * sizeof *h, int((me + 1) % npes));
  long errors = 0;
  double apart = 0;
  for (size_t i = 0; i < n * hidden; i++) {
    errors += got[i].bits != others[i].bits;
    // Each PE's part is rounded, and each layer goes on with the rounded numbers of the one before.
    const double d = std::fabs(double(to_float(got[i])) - whole.h[i]);
    errors += !(d <= 0.03 * double(layers + 1) * (1 + std::fabs(whole.h[i])));
    apart = std::fmax(apart, d);
  }
  if (me == 0)
    printf("%ld tokens, %ld layers on %u PEs: %.1f us, at most %.3g from one PE's in double\n",
           tokens, layers, npes, seconds / double(repeat) * 1e6, apart);
  shmem_barrier_all(); // a peer may still look at h
  for (Bfloat16 *p : {wide, mixed, qkv}) HIP(hipFree(p));
  for (const Layer &l : model)
    for (Bfloat16 *p : {l.qkv, l.out, l.up, l.down, l.norm[0], l.norm[1]}) HIP(hipFree(p));
  for (Bfloat16 *p : {part, h, x}) shmem_free(p);
  return finish("transformer_hip", errors);
}
