// SPDX-License-Identifier: MIT
// C = A B with the inner dimension split over the PEs: every PE multiplies its columns of A with
// its rows of B, and an all-reduce over the team adds the partial products, so that every PE ends
// with the whole C. All matrices are on the symmetric heap.
//
// matrix_market.h reads the files, matmul_typed.h has the job itself for float and for double:
// fill (read), multiply, the call of the reduction (in run), verify.
#include "matrix_market.h"

#include <float.h>

static const char help[] =
    "usage: matmul_all_reduce [options]\n"
    "  --a FILE, --b FILE   read A (m x k) and B (k x n) from Matrix Market files; both or none\n"
    "  --m N --n N --k N    sizes of generated matrices (default 384 each)\n"
    "  --fill real|integer  generated elements: in [-1, 1) or whole numbers in [-4, 4]\n"
    "                       (default real)\n"
    "  --type double|float  element type (default double)\n"
    "  --repeat N           times it is done; the fastest counts (default 3)\n"
    "  --seed N             of the generated matrices (default 1)\n"
    "  --output FILE        write C as a Matrix Market file\n";

struct options {
  const char *a, *b, *output;
  long m, n, k, repeat, seed;
  bool integers, single;
};

// A matrix as the program is given it: elements of a file (values on PE 0 only) or of a formula.
struct source {
  const char *path;
  struct mtx file;
  uint64_t seed;
  bool integers;
};

struct problem {
  size_t m, n, k;
  struct source a, b;
};

struct times { // of the slowest PE, in the fastest repetition
  double multiply, reduce;
  bool any;
};

static double element(const struct source *s, size_t row, size_t col) {
  if (s->path) return s->file.value[row * s->file.cols + col];
  const uint64_t bits = random_bits(s->seed, (uint64_t)row << 32 | col) >> 11;
  if (s->integers) return (double)(bits % 9) - 4;
  return (double)bits * 0x1p-52 - 1; // 53 bits: [0, 2) - 1
}

// The proof that C is right: a random vector r, A (B r) from the full matrices, and for each row
// the size that rounding errors are relative to, sqrt(sum_k A_ik^2 sum_j (B_kj r_j)^2).
struct proof {
  double *vector;         // n
  double *product, *size; // symmetric, m
  bool exact;             // nothing is rounded: all elements are small whole numbers
};

#define VECTOR_LIMIT 8 // elements of r are whole numbers in [-8, 8]: exact if A and B are

// True if the elements are whole numbers; *largest gets the greatest absolute value.
static bool whole_numbers(const struct source *s, size_t rows, size_t cols, double *largest) {
  *largest = 0;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) {
      const double value = fabs(element(s, i, j));
      if (value != floor(value)) return false;
      if (value > *largest) *largest = value;
    }
  }
  return true;
}

static void proof_begin(struct proof *proof, const struct problem *p, int digits) {
  static int exact; // PE 0 alone may have the matrices
  if (shmem_my_pe() == 0) {
    double a = 0, b = 0;
    exact = whole_numbers(&p->a, p->m, p->k, &a) && whole_numbers(&p->b, p->k, p->n, &b) &&
            (double)p->k * a * b <= ldexp(1, digits) &&
            (double)p->k * a * b * (double)p->n * VECTOR_LIMIT <= 0x1p53 && a <= ldexp(1, digits) &&
            b <= ldexp(1, digits);
  }
  shmem_barrier_all();
  proof->exact = shmem_int_g(&exact, 0) != 0;
  proof->vector = private_memory(p->n * sizeof(double), "a vector");
  proof->product = symmetric(p->m * sizeof(double), "a vector");
  proof->size = symmetric(p->m * sizeof(double), "a vector");
}

static void proof_end(struct proof *proof) {
  shmem_free(proof->size);
  shmem_free(proof->product);
  free(proof->vector);
}

static void proof_round(struct proof *proof, const struct problem *p, int round) {
  for (size_t j = 0; j < p->n; ++j) {
    const uint64_t bits = random_bits(1000003 + (uint64_t)round, j);
    proof->vector[j] = (double)(bits % (2 * VECTOR_LIMIT + 1)) - VECTOR_LIMIT;
  }
  shmem_barrier_all(); // no PE reads the last round's product any more
  if (shmem_my_pe() == 0) {
    double *b_r = private_memory(p->k * sizeof *b_r, "a vector");
    double *b_size = private_memory(p->k * sizeof *b_size, "a vector");
    for (size_t k = 0; k < p->k; ++k) {
      double sum = 0, squares = 0;
      for (size_t j = 0; j < p->n; ++j) {
        const double term = element(&p->b, k, j) * proof->vector[j];
        sum += term;
        squares += term * term;
      }
      b_r[k] = sum;
      b_size[k] = squares;
    }
    for (size_t i = 0; i < p->m; ++i) {
      double sum = 0, squares = 0;
      for (size_t k = 0; k < p->k; ++k) {
        const double a = element(&p->a, i, k);
        sum += a * b_r[k];
        squares += a * a * b_size[k];
      }
      proof->product[i] = sum;
      proof->size[i] = sqrt(squares);
    }
    free(b_size);
    free(b_r);
  }
  shmem_barrier_all();
  if (shmem_my_pe() != 0) {
    shmem_getmem(proof->product, proof->product, p->m * sizeof(double), 0);
    shmem_getmem(proof->size, proof->size, p->m * sizeof(double), 0);
  }
}

// The slowest PE's times count; of all repetitions the fastest.
static void add_times(struct times *t, double multiply, double reduce) {
  static double mine[2];
  mine[0] = multiply;
  mine[1] = reduce;
  shmem_barrier_all();
  double slowest[2] = {0, 0};
  for (int pe = 0; pe < shmem_n_pes(); ++pe) {
    double theirs[2];
    shmem_getmem(theirs, mine, sizeof theirs, pe);
    for (int i = 0; i < 2; ++i)
      if (theirs[i] > slowest[i]) slowest[i] = theirs[i];
  }
  if (!t->any || slowest[0] < t->multiply) t->multiply = slowest[0];
  if (!t->any || slowest[1] < t->reduce) t->reduce = slowest[1];
  t->any = true;
  shmem_barrier_all();
}

static void report(const struct problem *p, const struct times *t, size_t element_bytes) {
  if (shmem_my_pe() != 0) return;
  const double flop = 2 * (double)p->m * (double)p->n * (double)p->k;
  const double bytes = (double)p->m * (double)p->n * (double)element_bytes;
  const double n_pes = shmem_n_pes();
  printf("%zu x %zu x %zu, %s, %d PEs\n", p->m, p->n, p->k,
         element_bytes == sizeof(float) ? "float" : "double", shmem_n_pes());
  printf("multiply    %10.3f ms  %8.3f GFLOP/s, all PEs together\n", t->multiply * 1e3,
         flop / t->multiply * 1e-9);
  printf("all-reduce  %10.3f ms  %8.3f GB/s of C, %.3f GB/s moved by each PE\n", t->reduce * 1e3,
         bytes / t->reduce * 1e-9, bytes / t->reduce * 1e-9 * 2 * (n_pes - 1) / n_pes);
  printf("together    %10.3f ms  %8.3f GFLOP/s\n", (t->multiply + t->reduce) * 1e3,
         flop / (t->multiply + t->reduce) * 1e-9);
}

// The register tile is compiled for plain x86-64 and for AVX2 with FMA, and chosen when the program
// loads. The sanitizers' start comes too late for that.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && __GNUC__ >= 12 &&            \
    !defined(__clang__) && !defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) &&                 \
    !defined(__SANITIZE_THREAD__)
#define MULTIVERSION __attribute__((target_clones("arch=x86-64-v3", "default"), noinline))
#define VECTOR_BYTES 32
#else
#define MULTIVERSION __attribute__((noinline))
#ifdef __AVX__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#endif

#define REAL float
#define REAL_EPSILON FLT_EPSILON
#define REAL_DIGITS FLT_MANT_DIG
#define REAL_DECIMALS FLT_DECIMAL_DIG
#define TYPED(name) float_##name
#define float_shmem shmem_float_sum_reduce
#include "matmul_typed.h"
#undef REAL
#undef REAL_EPSILON
#undef REAL_DIGITS
#undef REAL_DECIMALS
#undef TYPED

#define REAL double
#define REAL_EPSILON DBL_EPSILON
#define REAL_DIGITS DBL_MANT_DIG
#define REAL_DECIMALS DBL_DECIMAL_DIG
#define TYPED(name) double_##name
#define double_shmem shmem_double_sum_reduce
#include "matmul_typed.h"

static bool choose(const char *option, const char *value, const char *no, const char *yes) {
  if (strcmp(value, yes) != 0 && strcmp(value, no) != 0)
    usage_error("%s: '%s' is neither '%s' nor '%s'", option, value, no, yes);
  return strcmp(value, yes) == 0;
}

static struct options parse(int argc, char **argv) {
  struct options o = {.m = 384, .n = 384, .k = 384, .repeat = 3, .seed = 1};
  bool sizes = false;
  const long most = 1 << 30;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--a")))
      o.a = value;
    else if ((value = option_value(argc, argv, &i, "--b")))
      o.b = value;
    else if ((value = option_value(argc, argv, &i, "--output")))
      o.output = value;
    else if ((value = option_value(argc, argv, &i, "--m")))
      sizes = true, o.m = parse_number("--m", value, 1, most);
    else if ((value = option_value(argc, argv, &i, "--n")))
      sizes = true, o.n = parse_number("--n", value, 1, most);
    else if ((value = option_value(argc, argv, &i, "--k")))
      sizes = true, o.k = parse_number("--k", value, 1, most);
    else if ((value = option_value(argc, argv, &i, "--repeat")))
      o.repeat = parse_number("--repeat", value, 1, most);
    else if ((value = option_value(argc, argv, &i, "--seed")))
      o.seed = parse_number("--seed", value, 0, LONG_MAX / 2);
    else if ((value = option_value(argc, argv, &i, "--fill")))
      o.integers = choose("--fill", value, "real", "integer");
    else if ((value = option_value(argc, argv, &i, "--type")))
      o.single = choose("--type", value, "double", "float");
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  if (!o.a != !o.b) usage_error("--a and --b go together");
  if (o.a && sizes) usage_error("the sizes come from the files: no --m, --n or --k");
  return o;
}

// PE 0 reads the files; all PEs learn the sizes.
static struct problem read_problem(const struct options *o) {
  static uint64_t size[3];
  struct problem p = {.m = (size_t)o->m, .n = (size_t)o->n, .k = (size_t)o->k};
  p.a = (struct source){.path = o->a, .seed = (uint64_t)o->seed * 2, .integers = o->integers};
  p.b = (struct source){.path = o->b, .seed = (uint64_t)o->seed * 2 + 1, .integers = o->integers};
  if (!o->a) return p;
  if (shmem_my_pe() == 0) {
    p.a.file = mtx_read(o->a);
    p.b.file = mtx_read(o->b);
    if (p.a.file.cols != p.b.file.rows)
      fatal("%s has %zu columns, but %s has %zu rows", o->a, p.a.file.cols, o->b, p.b.file.rows);
    size[0] = p.a.file.rows;
    size[1] = p.b.file.cols;
    size[2] = p.a.file.cols;
  }
  shmem_barrier_all();
  uint64_t got[3];
  shmem_getmem(got, size, sizeof size, 0);
  p.m = got[0];
  p.n = got[1];
  p.k = got[2];
  return p;
}

int main(int argc, char **argv) {
  shmem_init();
  const struct options o = parse(argc, argv);
  const struct problem p = read_problem(&o);
  const long errors = o.single ? float_run(&p, &o) : double_run(&p, &o);
  free(p.b.file.value);
  free(p.a.file.value);
  return finish("matmul_all_reduce", errors);
}
