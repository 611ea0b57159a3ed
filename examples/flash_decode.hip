// SPDX-License-Identifier: MIT
// Attention of one new token over a long context that is split over the PEs, as in decoding with
// sequence parallelism. One workgroup a head: it attends to the keys that this PE has, sends the
// partial result (maximum, sum, weighted values) to all PEs with a signal, and combines all parts
// in the order of the PEs, so that all get the same bits.
//
// Steps follow each other with nothing between. There are two inboxes, which take turns: when a PE
// sends for step s + 2, it has had the parts of step s + 1 from all, and they sent those when they
// had read step s.
#include "gpu.hpp"
#include <cmath>

static const char help[] = "usage: flash_decode_hip [--heads N] [--keys N] [--steps N]\n"
                           "  --heads N  (default 8)\n"
                           "  --keys N   of the context on each PE (default 256)\n"
                           "  --steps N  tokens (default 10)\n";

constexpr unsigned dim = 64, threads = 64; // of a head; one thread for each element of it
constexpr size_t part = dim + 2;           // maximum, sum, and the values weighted

struct Decode {
  int heads, keys;   // keys of this PE
  float *own;        // [heads][part]
  float *inbox;      // symmetric: [2][PEs][heads][part]
  uint64_t *signals; // symmetric: [PEs][heads]: steps whose part came
  float *out;        // [heads][dim]
};

// Element i of vector row of a head. Made and not stored, so that the check can have all of them.
__host__ __device__ inline float element(unsigned what, unsigned head, unsigned row, unsigned i) {
  unsigned x = what * 0x9e3779b9u ^ head * 0x85ebca6bu ^ row * 0xc2b2ae35u ^ i * 0x27d4eb2fu;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
  return float(x & 0xffff) / 32768.0f - 1.0f;
}
enum : unsigned { query, key_of, value_of };

__global__ void decode(Decode d, int step) {
  __shared__ float products[threads], score;
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  const unsigned head = blockIdx.x, i = threadIdx.x;
  const float q = element(query, head, unsigned(step), i) * 0.125f; // 1 / sqrt(dim)

  // Online softmax: the sums so far are relative to the largest score so far.
  float largest = -1e30f, sum = 0, values = 0;
  for (int k = 0; k < d.keys; k++) {
    const unsigned row = unsigned(me * d.keys + k);
    products[i] = q * element(key_of, head, row, i);
    __syncthreads();
    for (unsigned half = threads / 2; half > 0; half /= 2) {
      if (i < half) products[i] += products[i + half];
      __syncthreads();
    }
    if (i == 0) score = products[0];
    __syncthreads();
    const float next = fmaxf(largest, score), scale = expf(largest - next);
    const float weight = expf(score - next);
    sum = sum * scale + weight;
    values = values * scale + weight * element(value_of, head, row, i);
    largest = next;
    __syncthreads();
  }
  float *own = d.own + head * part;
  own[2 + i] = values;
  if (i == 0) own[0] = largest, own[1] = sum;
  __syncthreads();

  const size_t turn = size_t(step % 2) * size_t(npes) * size_t(d.heads) * part;
  for (int k = 0; k < npes; k++) {
    const int pe = (me + k) % npes; // each begins with another
    shmemx_float_put_signal_wg(d.inbox + turn + (size_t(me) * size_t(d.heads) + head) * part, own,
                               part, d.signals + size_t(me) * size_t(d.heads) + head,
                               uint64_t(step), SHMEM_SIGNAL_SET, pe);
  }
  if (i < unsigned(npes)) // a thread for each PE
    for (unsigned pe = i; pe < unsigned(npes); pe += threads)
      shmem_signal_wait_until(d.signals + size_t(pe) * size_t(d.heads) + head, SHMEM_CMP_GE,
                              uint64_t(step));
  __syncthreads();
  largest = -1e30f, sum = 0, values = 0;
  for (int pe = 0; pe < npes; pe++) {
    const float *p = d.inbox + turn + (size_t(pe) * size_t(d.heads) + head) * part;
    const float next = fmaxf(largest, p[0]);
    const float before = expf(largest - next), now = expf(p[0] - next);
    sum = sum * before + p[1] * now;
    values = values * before + p[2 + i] * now;
    largest = next;
  }
  d.out[head * dim + i] = values / sum;
}

// The same in double, over the whole context, with the softmax as it is written in books.
static long check(const float *out, int heads, int context, int step) {
  long errors = 0;
  auto *weights = static_cast<double *>(private_memory(size_t(context) * sizeof(double), "scores"));
  for (unsigned head = 0; head < unsigned(heads); ++head) {
    double largest = -1e300, sum = 0;
    for (int row = 0; row < context; ++row) {
      double s = 0;
      for (unsigned i = 0; i < dim; ++i)
        s += double(element(query, head, unsigned(step), i)) * 0.125 *
             double(element(key_of, head, unsigned(row), i));
      weights[row] = s;
      if (s > largest) largest = s;
    }
    for (int row = 0; row < context; ++row) sum += weights[row] = exp(weights[row] - largest);
    for (unsigned i = 0; i < dim; ++i) {
      double want = 0;
      for (int row = 0; row < context; ++row)
        want += weights[row] / sum * double(element(value_of, head, unsigned(row), i));
      const double difference = double(out[head * dim + i]) - want;
      errors += !(difference < 1e-5 && difference > -1e-5); // NaN is an error too
    }
  }
  free(weights);
  return errors;
}

int main(int argc, char **argv) {
  shmem_init();
  long heads = 8, keys = 256, steps = 10;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--heads")))
      heads = parse_number("--heads", value, 1, 65535);
    else if ((value = option_value(argc, argv, &i, "--keys")))
      keys = parse_number("--keys", value, 1, 1 << 24);
    else if ((value = option_value(argc, argv, &i, "--steps")))
      steps = parse_number("--steps", value, 1, 1 << 20);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  const size_t parts = size_t(heads) * part;
  Decode d = {int(heads),
              int(keys),
              on_device<float>(parts, "the part"),
              on_device<float>(2 * size_t(npes) * parts, "the inboxes"),
              on_device<uint64_t>(size_t(npes) * size_t(heads), "the signals"),
              on_device<float>(size_t(heads) * dim, "the result")};

  const double seconds = timed([&] {
    for (long step = 1; step <= steps; ++step)
      hipLaunchKernelGGL(decode, dim3(unsigned(heads)), dim3(threads), 0, nullptr, d, int(step));
  });
  auto *out =
      static_cast<float *>(private_memory(size_t(heads) * dim * sizeof(float), "the check"));
  auto *theirs =
      static_cast<float *>(private_memory(size_t(heads) * dim * sizeof(float), "the check"));
  HIP(hipMemcpy(out, d.out, size_t(heads) * dim * sizeof(float), hipMemcpyDeviceToHost));
  shmem_getmem(theirs, d.out, size_t(heads) * dim * sizeof(float), (me + 1) % npes);
  long errors = memcmp(out, theirs, size_t(heads) * dim * sizeof(float)) != 0; // the same bits
  if (me == 0) {
    errors += check(out, int(heads), int(keys) * npes, int(steps));
    printf("%ld heads, context of %ld on %d PEs: %.1f us a token\n", heads, keys * npes, npes,
           seconds / double(steps) * 1e6);
  }
  shmem_barrier_all();
  free(theirs);
  free(out);
  shmem_free(d.out);
  shmem_free(d.signals);
  shmem_free(d.inbox);
  shmem_free(d.own);
  return finish("flash_decode_hip", errors);
}
