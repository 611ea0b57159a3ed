// SPDX-License-Identifier: MIT
// A layer of a mixture of experts: each PE has some tokens and some experts. A router chooses the
// experts of each token, dispatch sends tokens there, the experts multiply, combine sums.
//
//   out[t] = sum over the top k of softmax(logit) * relu(x[t] W[expert])
#include "gpu.hpp"
#include <cmath>
#include <shmem/device/number.hpp>

using shmem::Bfloat16, shmem::from_float, shmem::to_float;

static const char help[] =
    "usage: moe_layer_hip [--tokens N] [--hidden N] [--experts N] [--top-k N] [--repeat N]\n"
    "  --tokens N   of each PE (default 40)\n"
    "  --hidden N   numbers of a token, a multiple of 8 (default 64)\n"
    "  --experts N  of each PE (default 4)\n"
    "  --top-k N    experts of a token, at most 32 and at most all (default 2)\n"
    "  --repeat N   timed runs (default 3)\n";

struct Layer {
  unsigned tokens, hidden, experts, top_k; // experts: of all PEs
};

// Element (row, col) of a matrix, in [-1, 1) times scale. Made and not stored, so that the check
// can have all of them.
__host__ __device__ inline Bfloat16 element(unsigned matrix, unsigned row, unsigned col,
                                            float scale) {
  uint32_t x = row * 2654435761u ^ col * 0x85ebca6bu ^ (matrix + 1) * 0xc2b2ae35u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
  return from_float<Bfloat16>(float(int32_t(x)) * 0x1p-31f * scale);
}
enum : unsigned { router, inputs = 1000, weights = 2000 }; // inputs and weights: + a number

__global__ void fill(Bfloat16 *to, unsigned rows, unsigned columns, unsigned matrix, float scale) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns;
       i += gridDim.x * blockDim.x)
    to[i] = element(matrix, i / columns, i % columns, scale);
}

// The same bits on the host and on the GPU, so both choose the same experts.
__global__ void score(const Bfloat16 *x, const Bfloat16 *r, float *logits, Layer l) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < l.tokens * l.experts;
       i += gridDim.x * blockDim.x) {
    const unsigned t = i / l.experts, e = i % l.experts;
    float sum = 0;
    for (unsigned h = 0; h < l.hidden; h++)
      sum = fmaf(to_float(x[t * l.hidden + h]), to_float(r[e * l.hidden + h]), sum);
    logits[i] = sum;
  }
}
// The best expert behind `last` in the order of logits, and of numbers where they are equal; last
// is -1 at first.
__host__ __device__ inline int next_best(const float *logits, unsigned experts, int last) {
  int best = -1;
  for (unsigned e = 0; e < experts; e++) {
    const bool behind =
        last < 0 || logits[e] < logits[last] || (logits[e] == logits[last] && int(e) > last);
    if (behind && (best < 0 || logits[e] > logits[best])) best = int(e);
  }
  return best;
}
__global__ void choose(const float *logits, int *ids, float *chosen, Layer l) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= l.tokens) return;
  const float *own = logits + t * l.experts;
  float sum = 0, top = 0;
  int e = -1;
  for (unsigned i = 0; i < l.top_k; i++) {
    e = next_best(own, l.experts, e);
    if (i == 0) top = own[e];
    const float w = expf(own[e] - top);
    ids[t * l.top_k + i] = e;
    chosen[t * l.top_k + i] = w;
    sum += w;
  }
  for (unsigned i = 0; i < l.top_k; i++) chosen[t * l.top_k + i] /= sum;
}

// The product of each row with the matrix of its expert; w has those of this PE's experts.
__global__ void expert_rows(shmemx_moe_view_t view, const Bfloat16 *w, Bfloat16 *to,
                            unsigned hidden) {
  const Bfloat16 *rows = static_cast<const Bfloat16 *>(view.rows);
  for (size_t row = blockIdx.x; row < view.n_rows; row += gridDim.x) {
    const int e = view.expert[row];
    if (e < 0) continue;
    for (unsigned c = threadIdx.x; c < hidden; c += blockDim.x) {
      float sum = 0;
      for (unsigned h = 0; h < hidden; h++)
        sum = fmaf(to_float(rows[row * hidden + h]),
                   to_float(w[(size_t(unsigned(e)) * hidden + h) * hidden + c]), sum);
      to[row * hidden + c] = from_float<Bfloat16>(sum < 0 ? 0 : sum);
    }
  }
}

// Some tokens of this PE, by one PE with all experts, in double. bfloat16 rounds by 1 in 256.
static long check(const Layer &l, const Bfloat16 *out) {
  auto *row = static_cast<Bfloat16 *>(private_memory(l.hidden * sizeof(Bfloat16), "a row"));
  auto *logits = static_cast<float *>(private_memory(l.experts * sizeof(float), "the logits"));
  auto *want = static_cast<double *>(private_memory(l.hidden * sizeof(double), "a token"));
  const unsigned step = l.tokens < 8 ? 1 : l.tokens / 8, me = unsigned(shmem_my_pe());
  const float scale = std::sqrt(3.0f / float(l.hidden));
  long errors = 0;
  for (unsigned t = 0; t < l.tokens; t += step) {
    const auto x = [&](unsigned h) { return to_float(element(inputs + me, t, h, 1.7f)); };
    for (unsigned e = 0; e < l.experts; e++) {
      logits[e] = 0;
      for (unsigned h = 0; h < l.hidden; h++)
        logits[e] = std::fma(x(h), to_float(element(router, e, h, scale)), logits[e]);
    }
    double all = 0, size = 0;
    for (unsigned h = 0; h < l.hidden; h++) want[h] = 0;
    const int best = next_best(logits, l.experts, -1);
    int e = -1;
    for (unsigned i = 0; i < l.top_k; i++) {
      e = next_best(logits, l.experts, e);
      const double weight = std::exp(double(logits[e]) - double(logits[best]));
      all += weight;
      for (unsigned c = 0; c < l.hidden; c++) {
        double sum = 0;
        for (unsigned h = 0; h < l.hidden; h++)
          sum += double(x(h)) * double(to_float(element(weights + unsigned(e), h, c, scale)));
        if (sum > 0) want[c] += weight * sum, size = sum > size ? sum : size;
      }
    }
    HIP(hipMemcpy(row, out + t * l.hidden, l.hidden * sizeof *row, hipMemcpyDeviceToHost));
    for (unsigned c = 0; c < l.hidden; c++) // NaN is an error too
      errors += !(std::fabs(double(to_float(row[c])) - want[c] / all) <= 0.01 * (size + 0.01));
  }
  free(want);
  free(logits);
  free(row);
  return errors;
}

int main(int argc, char **argv) {
  shmem_init();
  long tokens = 40, hidden = 64, experts = 4, top_k = 2, repeat = 3;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--tokens")))
      tokens = parse_number("--tokens", value, 1, 1 << 16);
    else if ((value = option_value(argc, argv, &i, "--hidden")))
      hidden = parse_number("--hidden", value, 8, 1 << 14);
    else if ((value = option_value(argc, argv, &i, "--experts")))
      experts = parse_number("--experts", value, 1, 1024);
    else if ((value = option_value(argc, argv, &i, "--top-k")))
      top_k = parse_number("--top-k", value, 1, 32);
    else if ((value = option_value(argc, argv, &i, "--repeat")))
      repeat = parse_number("--repeat", value, 1, 1 << 20);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  if (hidden % 8) usage_error("--hidden %ld: not a multiple of 8", hidden);
  if (experts * npes > 1024) usage_error("--experts %ld: more than 1024 in all", experts);
  const unsigned all = unsigned(experts * npes);
  const Layer l{unsigned(tokens), unsigned(hidden), all,
                unsigned(top_k) < all ? unsigned(top_k) : all};

  shmemx_moe_shape_t shape = SHMEMX_MOE_SHAPE_INITIALIZER;
  shape.token_bytes = l.hidden * sizeof(Bfloat16);
  shape.hidden = l.hidden;
  shape.type = SHMEMX_BF16;
  shape.experts = int(l.experts), shape.top_k = int(l.top_k), shape.max_tokens = int(l.tokens);
  shape.layout = SHMEMX_MOE_PACKED;
  shape.alignment = 8; // as tiles of a grouped product want it
  shmemx_moe_t moe;
  shmemx_moe_create(SHMEM_TEAM_WORLD, &shape, &moe);
  shmemx_moe_view_t view = {};
  view.size = sizeof view;
  shmemx_moe_view(moe, &view);

  auto *const x = on_device<Bfloat16>(l.tokens * l.hidden, "the tokens"),
              *const r = on_device<Bfloat16>(l.experts * l.hidden, "the router"),
              *const w = on_device<Bfloat16>(size_t(experts) * l.hidden * l.hidden, "the experts"),
              *const rows = on_device<Bfloat16>(view.n_rows * l.hidden, "the experts' rows"),
              *const out = on_device<Bfloat16>(l.tokens * l.hidden, "the result");
  float *const logits = on_device<float>(l.tokens * l.experts, "the logits"),
               *const chosen = on_device<float>(l.tokens * l.top_k, "the weights");
  int *const ids = on_device<int>(l.tokens * l.top_k, "the experts' numbers");
  const float scale = std::sqrt(3.0f / float(l.hidden));
  const auto make = [&](Bfloat16 *to, unsigned count, unsigned matrix, float by) {
    hipLaunchKernelGGL(fill, dim3(16), dim3(256), 0, nullptr, to, count, l.hidden, matrix, by);
    HIP(hipGetLastError());
  };
  make(x, l.tokens, inputs + unsigned(me), 1.7f);
  make(r, l.experts, router, scale);
  for (unsigned e = 0; e < unsigned(experts); e++)
    make(w + size_t(e) * l.hidden * l.hidden, l.hidden, weights + unsigned(me * experts) + e,
         scale);

  const auto forward = [&] {
    hipLaunchKernelGGL(score, dim3(16), dim3(256), 0, nullptr, x, r, logits, l);
    hipLaunchKernelGGL(choose, dim3((l.tokens + 63) / 64), dim3(64), 0, nullptr, logits, ids,
                       chosen, l);
    shmemx_moe_dispatch_on_stream(moe, x, nullptr, ids, chosen, int(l.tokens), nullptr);
    hipLaunchKernelGGL(expert_rows, dim3(64), dim3(128), 0, nullptr, view, w, rows, l.hidden);
    shmemx_moe_combine_on_stream(moe, rows, out, nullptr);
  };
  timed(forward); // the first one loads what it needs
  const double seconds = timed([&] {
    for (long i = 0; i < repeat; i++) forward();
  });
  const long errors = check(l, out);
  if (me == 0)
    printf("%ld tokens of %ld numbers on each of %d PEs, top %u of %u experts: %.1f us\n", tokens,
           hidden, npes, l.top_k, l.experts, seconds / double(repeat) * 1e6);
  shmem_barrier_all();
  for (void *p : {static_cast<void *>(ids), static_cast<void *>(chosen),
                  static_cast<void *>(logits), static_cast<void *>(out), static_cast<void *>(rows),
                  static_cast<void *>(w), static_cast<void *>(r), static_cast<void *>(x)})
    shmem_free(p);
  shmemx_moe_destroy(moe);
  return finish("moe_layer_hip", errors);
}
