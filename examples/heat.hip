// SPDX-License-Identifier: MIT
// heat.c on GPUs: Jacobi iterations of the 2-D Laplace equation, rows split over the PEs. Each
// iteration is one kernel, and the host only launches: the workgroups that own the edge rows wait
// for the neighbours' rows of the iteration before, and send their own with a signal as soon as
// they are done, while the others relax the inner rows.
//
// The fields alternate. A neighbour writes into the halo that the last iteration read only after it
// got the row that was computed from it, by the same workgroup, so a signal in each direction is
// all the synchronization there is.
#include "gpu.hpp"

static const char help[] = "usage: heat_hip [--width N] [--height N] [--iterations N]\n"
                           "  (defaults 512, 512, 100)\n";

// The part of this PE: rows [first, first + rows), and a halo row above and below.
struct Plate {
  size_t width, height, first, rows, rows_above; // of the PE above
  double *field[2];                              // symmetric, (most rows of a PE + 2) x width
  uint64_t *above, *below; // symmetric: iterations whose row has come in from there
};

__device__ void relax_row(const Plate &p, int from, size_t row) {
  const size_t y = p.first + row - 1, w = p.width;
  if (y == 0 || y + 1 == p.height) return; // the border stays as it is
  const double *mid = p.field[from] + row * w;
  double *out = p.field[!from] + row * w;
  for (size_t x = 1 + threadIdx.x; x + 1 < w; x += blockDim.x)
    out[x] = 0.25 * ((mid[x - w] + mid[x + w]) + (mid[x - 1] + mid[x + 1]));
}

// Workgroup 0 takes the first row, the next the last row if that is another, the others the rest.
__global__ void iterate(Plate p, int from, uint64_t i) {
  const bool first = blockIdx.x == 0, last = blockIdx.x == (p.rows > 1 ? 1 : 0);
  if (!first && !last) {
    for (size_t row = blockIdx.x; row < p.rows; row += gridDim.x - 2) relax_row(p, from, row);
    return;
  }
  const bool has_above = first && p.first > 0, has_below = last && p.first + p.rows < p.height;
  if (threadIdx.x == 0) {
    if (has_above) shmem_signal_wait_until(p.above, SHMEM_CMP_GE, i - 1);
    if (has_below) shmem_signal_wait_until(p.below, SHMEM_CMP_GE, i - 1);
  }
  __syncthreads();
  relax_row(p, from, first ? 1 : p.rows);
  __syncthreads();
  double *out = p.field[!from];
  const size_t w = p.width, bytes = w * sizeof(double);
  if (has_above) // my first row is the lower halo of the PE above
    shmemx_putmem_signal_wg(out + (p.rows_above + 1) * w, out + w, bytes, p.below, i,
                            SHMEM_SIGNAL_SET, shmem_my_pe() - 1);
  if (has_below)
    shmemx_putmem_signal_wg(out, out + p.rows * w, bytes, p.above, i, SHMEM_SIGNAL_SET,
                            shmem_my_pe() + 1);
}

// A hot disk and a hot left border.
static double start_value(size_t x, size_t y, size_t width, size_t height) {
  const double dx = (double(x) + 0.5) / double(width) - 0.6;
  const double dy = (double(y) + 0.5) / double(height) - 0.4;
  return x == 0 || dx * dx + dy * dy < 0.04 ? 255 : 0;
}

static size_t rows_of(size_t height, int pe) {
  const size_t n = size_t(shmem_n_pes());
  return split_begin(height, n, size_t(pe) + 1) - split_begin(height, n, size_t(pe));
}

static long check(const Plate &p, int last, long iterations) {
  const size_t w = p.width, h = p.height;
  auto *a = static_cast<double *>(private_memory(w * h * sizeof(double), "the serial field"));
  auto *b = static_cast<double *>(private_memory(w * h * sizeof(double), "the serial field"));
  for (size_t i = 0; i < w * h; ++i) a[i] = b[i] = start_value(i % w, i / w, w, h);
  for (long k = 0; k < iterations; ++k) {
    for (size_t y = 1; y + 1 < h; ++y)
      for (size_t x = 1; x + 1 < w; ++x) {
        const double *m = a + y * w + x;
        b[y * w + x] = (m[-ptrdiff_t(w)] + m[w] + m[-1] + m[1]) / 4;
      }
    double *swap = a;
    a = b, b = swap;
  }
  HIP(hipMemcpy(b, p.field[last] + w, p.rows * w * sizeof(double), hipMemcpyDeviceToHost));
  long errors = 0;
  for (size_t i = 0; i < p.rows * w; ++i) {
    const double difference = b[i] - a[p.first * w + i];
    errors += !(difference <= 1e-10 && difference >= -1e-10); // NaN is an error too
  }
  free(b);
  free(a);
  return errors;
}

int main(int argc, char **argv) {
  shmem_init();
  long width = 512, height = 512, iterations = 100;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--width")))
      width = parse_number("--width", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--height")))
      height = parse_number("--height", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--iterations")))
      iterations = parse_number("--iterations", value, 0, 1L << 30);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  Plate p = {};
  p.width = size_t(width), p.height = size_t(height);
  p.first = split_begin(p.height, size_t(npes), size_t(me));
  p.rows = rows_of(p.height, me);
  p.rows_above = me > 0 ? rows_of(p.height, me - 1) : 0;
  const size_t most = (p.height + size_t(npes) - 1) / size_t(npes), cells = (most + 2) * p.width;
  for (auto &field : p.field) field = on_device<double>(cells, "the field");
  p.above = on_device<uint64_t>(1, "a signal");
  p.below = on_device<uint64_t>(1, "a signal");

  auto *start = static_cast<double *>(private_memory(cells * sizeof(double), "the start"));
  for (size_t row = 0; row < p.rows + 2; ++row)
    for (size_t x = 0; x < p.width; ++x)
      start[row * p.width + x] = start_value(x, p.first + row - 1, p.width, p.height);
  for (auto &field : p.field)
    HIP(hipMemcpy(field, start, (p.rows + 2) * p.width * sizeof(double), hipMemcpyHostToDevice));
  free(start);

  const unsigned workgroups = unsigned(p.rows < 3 ? p.rows : 2 + (p.rows < 512 ? p.rows - 2 : 510));
  const double seconds = timed([&] {
    for (long i = 1; i <= iterations && p.rows; ++i)
      hipLaunchKernelGGL(iterate, dim3(workgroups), dim3(256), 0, nullptr, p, int((i - 1) & 1),
                         uint64_t(i));
  });
  const long errors = p.rows ? check(p, int(iterations & 1), iterations) : 0;
  if (me == 0) {
    const double inner =
        width > 2 && height > 2 ? double(width - 2) * double(height - 2) * double(iterations) : 0;
    printf("%ld x %ld, %ld iterations on %d PEs: %.3f ms, %.1f million updates per second\n", width,
           height, iterations, npes, seconds * 1e3, inner / seconds * 1e-6);
  }
  shmem_barrier_all();
  shmem_free(p.below);
  shmem_free(p.above);
  for (auto field : p.field) shmem_free(field);
  return finish("heat_hip", errors);
}
