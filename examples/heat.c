// SPDX-License-Identifier: MIT
// Heat in a plate: Jacobi iterations of the 2-D Laplace equation, the border held at its start
// value. The rows are split over the PEs. After its edge rows are done a PE sends each to the
// neighbour's halo with shmem_putmem_signal and relaxes its inner rows while they travel; it waits
// for the neighbours' rows at the start of the next iteration.
//
// The fields alternate: an iteration reads one and writes the other, halos included. A neighbour
// can write into the halo that the last iteration read only after it got the row computed from it,
// so one signal in each direction is all the synchronization there is.
#include "pgm.h"

static const char help[] =
    "usage: heat [--input FILE] [--output FILE] [--width N] [--height N] [--iterations N]\n"
    "  --input FILE    start from this PGM image (P2 or P5, 8 or 16 bits)\n"
    "  --output FILE   write the field as a PGM image at the end\n"
    "  --width N       columns of the field made without --input (default 384)\n"
    "  --height N      rows of it (default 384)\n"
    "  --iterations N  (default 200)\n";

struct options {
  const char *input, *output;
  long width, height, iterations;
};

// The part of this PE: rows [first, first + rows) of the field, and a halo row above and below.
struct plate {
  size_t width, height, first, rows;
  double *field[2]; // symmetric, (most rows on any PE + 2) x width
  uint64_t *above;  // symmetric: iterations whose row has come in from the PE above
  uint64_t *below;
};

static struct options parse(int argc, char **argv) {
  struct options o = {.width = 384, .height = 384, .iterations = 200};
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--input")))
      o.input = value;
    else if ((value = option_value(argc, argv, &i, "--output")))
      o.output = value;
    else if ((value = option_value(argc, argv, &i, "--width")))
      o.width = parse_number("--width", value, 1, 1 << 30);
    else if ((value = option_value(argc, argv, &i, "--height")))
      o.height = parse_number("--height", value, 1, 1 << 30);
    else if ((value = option_value(argc, argv, &i, "--iterations")))
      o.iterations = parse_number("--iterations", value, 0, 1L << 40);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  return o;
}

// A hot disk, a hot left border and a warm gradient along the bottom.
static struct pgm generate(size_t width, size_t height) {
  struct pgm image = {.width = width, .height = height, .max = 255};
  image.sample = private_memory(width * height * sizeof *image.sample, "the image");
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      const double dx = ((double)x + 0.5) / (double)width - 0.6;
      const double dy = ((double)y + 0.5) / (double)height - 0.4;
      const bool hot = x == 0 || dx * dx + dy * dy < 0.04;
      const size_t warm = y + 1 == height ? 200 * x / width : 0;
      image.sample[y * width + x] = (uint16_t)(hot ? 255 : warm);
    }
  }
  return image;
}

static size_t rows_of(const struct plate *p, int pe) {
  const size_t n = (size_t)shmem_n_pes(), i = (size_t)pe;
  return split_begin(p->height, n, i + 1) - split_begin(p->height, n, i);
}

// PE 0 has the image; every PE learns its size, then gets its own rows.
static struct plate distribute(const struct pgm *image) {
  static uint64_t size[2];
  if (shmem_my_pe() == 0) {
    size[0] = image->width;
    size[1] = image->height;
  }
  shmem_barrier_all();
  uint64_t got[2];
  shmem_getmem(got, size, sizeof size, 0);

  const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe();
  struct plate p = {.width = got[0], .height = got[1]};
  p.first = split_begin(p.height, n_pes, me);
  p.rows = rows_of(&p, (int)me);
  const size_t most = (p.height + n_pes - 1) / n_pes;
  for (int i = 0; i < 2; ++i)
    p.field[i] = symmetric((most + 2) * p.width * sizeof(double), "the field");
  p.above = symmetric(sizeof *p.above, "a signal");
  p.below = symmetric(sizeof *p.below, "a signal");

  if (me == 0) {
    double *row = private_memory(p.width * sizeof *row, "a row");
    for (size_t pe = 0; pe < n_pes; ++pe) {
      const size_t begin = split_begin(p.height, n_pes, pe), rows = rows_of(&p, (int)pe);
      if (rows == 0) continue;
      const size_t low = begin > 0 ? begin - 1 : 0; // with the halos, where there are rows for them
      const size_t high = begin + rows < p.height ? begin + rows + 1 : p.height;
      for (size_t y = low; y < high; ++y) {
        for (size_t x = 0; x < p.width; ++x) row[x] = image->sample[y * p.width + x];
        for (int f = 0; f < 2; ++f)
          shmem_double_put(p.field[f] + (y + 1 - begin) * p.width, row, p.width, (int)pe);
      }
    }
    shmem_quiet();
    free(row);
  }
  shmem_barrier_all();
  return p;
}

// One row, from the three rows around it. The first and the last column are border.
static void relax_row(double *restrict out, const double *restrict up, const double *restrict mid,
                      const double *restrict down, size_t width) {
  for (size_t x = 1; x + 1 < width; ++x)
    out[x] = 0.25 * ((up[x] + down[x]) + (mid[x - 1] + mid[x + 1]));
}

// Row `row` (1 is the first of this PE) of one iteration; border rows stay as they are.
static void relax(const struct plate *p, int from, size_t row) {
  const size_t y = p->first + row - 1, w = p->width;
  if (y == 0 || y + 1 == p->height) return;
  const double *mid = p->field[from] + row * w;
  relax_row(p->field[!from] + row * w, mid - w, mid, mid + w, w);
}

// All iterations. Returns the field that holds the last one.
static int solve(const struct plate *p, uint64_t iterations) {
  if (p->rows == 0) return (int)(iterations & 1);
  const int me = shmem_my_pe();
  const bool has_above = p->first > 0, has_below = p->first + p->rows < p->height;
  const size_t w = p->width, bytes = w * sizeof(double);
  int from = 0;
  for (uint64_t i = 1; i <= iterations; ++i, from = !from) {
    double *out = p->field[!from];
    if (has_above) shmem_signal_wait_until(p->above, SHMEM_CMP_GE, i - 1);
    if (has_below) shmem_signal_wait_until(p->below, SHMEM_CMP_GE, i - 1);
    relax(p, from, 1);
    if (p->rows > 1) relax(p, from, p->rows);
    if (has_above) // my first row is the lower halo of the PE above
      shmem_putmem_signal(out + (rows_of(p, me - 1) + 1) * w, out + w, bytes, p->below, i,
                          SHMEM_SIGNAL_SET, me - 1);
    if (has_below)
      shmem_putmem_signal(out, out + p->rows * w, bytes, p->above, i, SHMEM_SIGNAL_SET, me + 1);
    for (size_t row = 2; row < p->rows; ++row) relax(p, from, row);
  }
  return from;
}

// The same on one PE, in the plainest way: whole image, no halo, no split.
static double *solve_serially(const struct pgm *image, long iterations) {
  const size_t w = image->width, h = image->height;
  double *a = private_memory(w * h * sizeof *a, "the serial field");
  double *b = private_memory(w * h * sizeof *b, "the serial field");
  for (size_t i = 0; i < w * h; ++i) a[i] = b[i] = image->sample[i];
  for (long i = 0; i < iterations; ++i) {
    for (size_t y = 1; y + 1 < h; ++y)
      for (size_t x = 1; x + 1 < w; ++x)
        b[y * w + x] =
            (a[(y - 1) * w + x] + a[(y + 1) * w + x] + a[y * w + x - 1] + a[y * w + x + 1]) / 4;
    double *swap = a;
    a = b;
    b = swap;
  }
  free(b);
  return a;
}

// PE 0 fetches all rows, compares them with the serial solve and leaves them in the image.
static long check_and_collect(const struct plate *p, int last, struct pgm *image, long iterations) {
  double *serial = solve_serially(image, iterations);
  double *row = private_memory(p->width * sizeof *row, "a row");
  const size_t n_pes = (size_t)shmem_n_pes();
  const double tolerance = 1e-12 * image->max; // the order of the additions differs
  long errors = 0;
  for (size_t pe = 0; pe < n_pes; ++pe) {
    const size_t begin = split_begin(p->height, n_pes, pe), rows = rows_of(p, (int)pe);
    for (size_t i = 0; i < rows; ++i) {
      const size_t y = begin + i;
      shmem_double_get(row, p->field[last] + (i + 1) * p->width, p->width, (int)pe);
      for (size_t x = 0; x < p->width; ++x) {
        const double difference = row[x] - serial[y * p->width + x];
        errors += !(difference <= tolerance && difference >= -tolerance); // NaN is an error too
        image->sample[y * p->width + x] = (uint16_t)(row[x] + 0.5);
      }
    }
  }
  free(row);
  free(serial);
  return errors;
}

int main(int argc, char **argv) {
  shmem_init();
  const struct options o = parse(argc, argv);
  const int me = shmem_my_pe();
  struct pgm image = {0};
  if (me == 0) image = o.input ? pgm_read(o.input) : generate((size_t)o.width, (size_t)o.height);
  const struct plate p = distribute(&image);

  const double start = now();
  const int last = solve(&p, (uint64_t)o.iterations);
  shmem_barrier_all();
  const double seconds = now() - start;

  long errors = 0;
  if (me == 0) {
    const double inner =
        p.width > 2 && p.height > 2 ? (double)(p.width - 2) * (double)(p.height - 2) : 0;
    const double updates = inner * (double)o.iterations;
    printf("%zu x %zu, %ld iterations on %d PEs: %.3f ms, %.1f million updates per second\n",
           p.width, p.height, o.iterations, shmem_n_pes(), seconds * 1e3, updates / seconds * 1e-6);
    errors = check_and_collect(&p, last, &image, o.iterations);
    if (o.output && errors == 0) pgm_write(o.output, &image);
    free(image.sample);
  }
  shmem_barrier_all(); // PE 0 reads the fields of the others until here
  shmem_free(p.below);
  shmem_free(p.above);
  for (int i = 0; i < 2; ++i) shmem_free(p.field[i]);
  return finish("heat", errors);
}
