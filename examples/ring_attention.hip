// SPDX-License-Identifier: MIT
// Attention of a sequence that is split over the PEs, queries and keys both. Each PE keeps its
// queries; the blocks of keys and values go round the ring, and a PE sends the block that it works
// with on while it works with it. One kernel a step; the host only launches.
//
// Two buffers take turns. A PE may send into a neighbour's buffer only when the neighbour is done
// with it: when the neighbour's kernel of the step before has ended, which its next kernel tells by
// a credit.
#include "gpu.hpp"
#include <cmath>

static const char help[] = "usage: ring_attention_hip [--rows N] [--repeat N]\n"
                           "  --rows N    of the sequence on each PE (default 64)\n"
                           "  --repeat N  (default 3)\n";

constexpr unsigned dim = 32; // of a row, and threads of a workgroup, which has one query

struct Ring {
  size_t rows;
  const float *queries;            // [rows][dim]
  float *block[2];                 // symmetric: keys [rows][dim], then values
  uint64_t *arrived, *credit;      // symmetric: blocks that came; buffers that the right one freed
  float *largest, *sum, *weighted; // [rows], [rows], [rows][dim]: the softmax so far
};

__host__ __device__ inline float element(unsigned what, unsigned row, unsigned i) {
  unsigned x = what * 0x9e3779b9u ^ row * 0xc2b2ae35u ^ i * 0x27d4eb2fu;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
  return float(x & 0xffff) / 32768.0f - 1.0f;
}

// count is of the steps of all repeats, from 1; the first of a repeat finds its own block, which
// the host has put there. Workgroup 0 sends, the others compute.
__global__ void step(Ring r, uint64_t count, bool first, bool last) {
  __shared__ float products[dim], score;
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  const int left = (me + npes - 1) % npes, right = (me + 1) % npes;
  const unsigned turn = unsigned(count % 2), i = threadIdx.x;
  if (blockIdx.x == 0 && i == 0 && npes > 1) // the other buffer, of the kernel before, is free
    shmem_signal_set(r.credit, count, left);
  if (i == 0 && !first) shmem_signal_wait_until(r.arrived, SHMEM_CMP_GE, count);
  __syncthreads();
  float *block = r.block[turn];
  if (blockIdx.x == 0) {
    if (last || npes == 1) return;
    if (i == 0) shmem_signal_wait_until(r.credit, SHMEM_CMP_GE, count);
    __syncthreads();
    shmemx_float_put_signal_wg(r.block[!turn], block, 2 * r.rows * dim, r.arrived, count + 1,
                               SHMEM_SIGNAL_SET, right);
    return;
  }
  for (size_t row = blockIdx.x - 1; row < r.rows; row += gridDim.x - 1) {
    const float q = r.queries[row * dim + i] * 0.17677669f; // 1 / sqrt(dim)
    float largest = first ? -1e30f : r.largest[row], sum = first ? 0 : r.sum[row];
    float values = first ? 0 : r.weighted[row * dim + i];
    for (size_t k = 0; k < r.rows; k++) {
      products[i] = q * block[k * dim + i];
      __syncthreads();
      for (unsigned half = dim / 2; half > 0; half /= 2) {
        if (i < half) products[i] += products[i + half];
        __syncthreads();
      }
      if (i == 0) score = products[0];
      __syncthreads();
      const float next = fmaxf(largest, score), scale = expf(largest - next);
      const float weight = expf(score - next);
      sum = sum * scale + weight;
      values = values * scale + weight * block[(r.rows + k) * dim + i];
      largest = next;
      __syncthreads();
    }
    if (i == 0) r.largest[row] = largest, r.sum[row] = sum;
    r.weighted[row * dim + i] = last ? values / sum : values;
    __syncthreads();
  }
}

// A few rows in double, with the softmax as it is written in books.
static long check(const float *out, size_t rows, size_t first, size_t context) {
  long errors = 0;
  auto *weights = static_cast<double *>(private_memory(context * sizeof(double), "the scores"));
  for (size_t row = 0; row < rows; row += rows / 8 + 1) {
    double largest = -1e300, sum = 0;
    for (size_t k = 0; k < context; ++k) {
      weights[k] = 0;
      for (unsigned i = 0; i < dim; ++i)
        weights[k] += double(element(0, unsigned(first + row), i)) * 0.17677669 *
                      double(element(1, unsigned(k), i));
      if (weights[k] > largest) largest = weights[k];
    }
    for (size_t k = 0; k < context; ++k) sum += weights[k] = exp(weights[k] - largest);
    for (unsigned i = 0; i < dim; ++i) {
      double want = 0;
      for (size_t k = 0; k < context; ++k)
        want += weights[k] / sum * double(element(2, unsigned(k), i));
      const double difference = double(out[row * dim + i]) - want;
      errors += !(difference < 1e-5 && difference > -1e-5); // NaN is an error too
    }
  }
  free(weights);
  return errors;
}

int main(int argc, char **argv) {
  shmem_init();
  long rows_asked = 64, repeat = 3;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--rows")))
      rows_asked = parse_number("--rows", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--repeat")))
      repeat = parse_number("--repeat", value, 1, 1 << 20);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int npes = shmem_n_pes();
  const size_t rows = size_t(rows_asked), n = rows * dim, first = size_t(shmem_my_pe()) * rows;
  float *queries = on_device<float>(n, "the queries");
  Ring r = {rows,
            queries,
            {on_device<float>(2 * n, "a block"), on_device<float>(2 * n, "a block")},
            on_device<uint64_t>(1, "a signal"),
            on_device<uint64_t>(1, "the credit"),
            on_device<float>(rows, "the maxima"),
            on_device<float>(rows, "the sums"),
            on_device<float>(n, "the result")};
  auto *host = static_cast<float *>(private_memory(2 * n * sizeof(float), "a block"));
  for (size_t i = 0; i < n; ++i) host[i] = element(0, unsigned(first + i / dim), unsigned(i % dim));
  HIP(hipMemcpy(queries, host, n * sizeof(float), hipMemcpyHostToDevice));
  for (size_t i = 0; i < 2 * n; ++i)
    host[i] = element(i < n ? 1 : 2, unsigned(first + i % n / dim), unsigned(i % dim));

  double seconds = 0;
  uint64_t count = 0;
  const unsigned workgroups = unsigned(1 + (rows < 512 ? rows : 512));
  for (long k = 0; k < repeat; ++k) {
    shmem_barrier_all(); // the blocks of the last repeat have been used
    HIP(hipMemcpy(r.block[(count + 1) % 2], host, 2 * n * sizeof(float), hipMemcpyHostToDevice));
    seconds += timed([&] {
      for (int s = 0; s < npes; ++s)
        hipLaunchKernelGGL(step, dim3(workgroups), dim3(dim), 0, nullptr, r, ++count, s == 0,
                           s == npes - 1);
    });
  }
  HIP(hipMemcpy(host, r.weighted, n * sizeof(float), hipMemcpyDeviceToHost));
  const long errors = check(host, rows, first, rows * size_t(npes));
  if (shmem_my_pe() == 0)
    printf("%zu rows of %u on %d PEs: %.3f ms, %.2f GFLOP/s together\n", rows * size_t(npes), dim,
           npes, seconds / double(repeat) * 1e3,
           4e-9 * double(rows * size_t(npes)) * double(rows * size_t(npes)) * dim * double(repeat) /
               seconds);
  shmem_barrier_all();
  free(host);
  shmem_free(r.weighted);
  shmem_free(r.sum);
  shmem_free(r.largest);
  shmem_free(r.credit);
  shmem_free(r.arrived);
  for (float *block : r.block) shmem_free(block);
  shmem_free(queries);
  return finish("ring_attention_hip", errors);
}
