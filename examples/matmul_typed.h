// SPDX-License-Identifier: MIT
// The part of matmul_all_reduce.c that depends on the element type. Included once for each type:
// REAL is the type, TYPED(name) makes a name for it, REAL_EPSILON and REAL_DIGITS describe it.

#ifndef REAL
#error "included by matmul_all_reduce.c, which defines REAL"
#endif

// A register tile of MR x NR: MR rows, two vectors wide. Six by two is what 16 vector registers
// hold beside a row of B and an element of A.
#define LANES (VECTOR_BYTES / sizeof(REAL))
#define MR 6
#define NR (2 * LANES)
#define BLOCK_K 256 // a MR x BLOCK_K panel of A and a BLOCK_K x NR panel of B stay in L1
#define BLOCK_M (16 * (size_t)MR) // a BLOCK_M x BLOCK_K block of A stays in L2
#define BLOCK_N 1024              // a BLOCK_K x BLOCK_N block of B stays in L3

typedef REAL TYPED(vector) __attribute__((vector_size(VECTOR_BYTES)));

struct TYPED(job) {
  const struct problem *problem;
  size_t k_begin, k_count; // this PE's slice of K
  REAL *a;                 // symmetric, m x k_count
  REAL *b;                 // symmetric, k_count x n
  REAL *partial;           // symmetric, m x n: A_k B_k
  REAL *c;                 // symmetric, m x n: their sum over the PEs
};

// --- read -------------------------------------------------------------------------------------

// Generated matrices are made where they are needed. One from a file is known to PE 0 only, which
// puts every PE its slice, a row at a time.
static void TYPED(fill)(struct TYPED(job) * job) {
  const struct problem *p = job->problem;
  const size_t n_pes = (size_t)shmem_n_pes();
  const bool root = shmem_my_pe() == 0;
  const size_t longest = p->n > p->k ? p->n : p->k;
  REAL *row = private_memory(longest * sizeof *row, "a row");

  if (!p->a.path)
    for (size_t i = 0; i < p->m; ++i)
      for (size_t k = 0; k < job->k_count; ++k)
        job->a[i * job->k_count + k] = (REAL)element(&p->a, i, job->k_begin + k);
  else if (root)
    for (size_t i = 0; i < p->m; ++i) {
      for (size_t k = 0; k < p->k; ++k) row[k] = (REAL)element(&p->a, i, k);
      for (size_t pe = 0; pe < n_pes; ++pe) {
        const size_t begin = split_begin(p->k, n_pes, pe);
        const size_t count = split_begin(p->k, n_pes, pe + 1) - begin;
        if (count) shmem_putmem(job->a + i * count, row + begin, count * sizeof *row, (int)pe);
      }
    }

  if (!p->b.path)
    for (size_t k = 0; k < job->k_count; ++k)
      for (size_t j = 0; j < p->n; ++j)
        job->b[k * p->n + j] = (REAL)element(&p->b, job->k_begin + k, j);
  else if (root)
    for (size_t pe = 0; pe < n_pes; ++pe) {
      const size_t begin = split_begin(p->k, n_pes, pe), end = split_begin(p->k, n_pes, pe + 1);
      for (size_t k = begin; k < end; ++k) {
        for (size_t j = 0; j < p->n; ++j) row[j] = (REAL)element(&p->b, k, j);
        shmem_putmem(job->b + (k - begin) * p->n, row, p->n * sizeof *row, (int)pe);
      }
    }
  shmem_barrier_all();
  free(row);
}

// --- multiply ---------------------------------------------------------------------------------

// sum = panel of A times panel of B; both packed, `depth` steps of MR and of NR elements.
MULTIVERSION static void TYPED(kernel)(size_t depth, const REAL *restrict a, const REAL *restrict b,
                                       REAL *restrict sum) {
  TYPED(vector) s[MR][2] = {{{0}}};
  for (size_t k = 0; k < depth; ++k) {
    TYPED(vector) b0, b1;
    memcpy(&b0, b + k * NR, VECTOR_BYTES);
    memcpy(&b1, b + k * NR + LANES, VECTOR_BYTES);
#pragma GCC unroll 6
    for (int i = 0; i < MR; ++i) {
      s[i][0] += a[k * MR + (size_t)i] * b0;
      s[i][1] += a[k * MR + (size_t)i] * b1;
    }
  }
#pragma GCC unroll 6
  for (size_t i = 0; i < MR; ++i) { // one by one: a copy of the whole array would keep it in memory
    memcpy(sum + i * NR, &s[i][0], VECTOR_BYTES);
    memcpy(sum + i * NR + LANES, &s[i][1], VECTOR_BYTES);
  }
}

// Copies a rows x depth block (element (i, k) at from[i * row_step + k * depth_step]) into panels
// of `width` rows, each stored depth by depth; the last panel is filled up with zeros.
static void TYPED(pack)(const REAL *from, size_t row_step, size_t depth_step, size_t rows,
                        size_t depth, size_t width, REAL *restrict to) {
  for (size_t first = 0; first < rows; first += width) {
    const size_t here = rows - first < width ? rows - first : width;
    for (size_t k = 0; k < depth; ++k, to += width) {
      for (size_t i = 0; i < here; ++i) to[i] = from[(first + i) * row_step + k * depth_step];
      for (size_t i = here; i < width; ++i) to[i] = 0;
    }
  }
}

// C = A B, all stored row by row without gaps; A is m x depth, B is depth x n.
static void TYPED(multiply)(size_t m, size_t n, size_t depth, const REAL *a, const REAL *b,
                            REAL *restrict c, REAL *a_packed, REAL *b_packed) {
  memset(c, 0, m * n * sizeof *c);
  for (size_t n0 = 0; n0 < n; n0 += BLOCK_N) {
    const size_t nb = n - n0 < BLOCK_N ? n - n0 : BLOCK_N;
    for (size_t k0 = 0; k0 < depth; k0 += BLOCK_K) {
      const size_t kb = depth - k0 < BLOCK_K ? depth - k0 : BLOCK_K;
      TYPED(pack)(b + k0 * n + n0, 1, n, nb, kb, NR, b_packed);
      for (size_t m0 = 0; m0 < m; m0 += BLOCK_M) {
        const size_t mb = m - m0 < BLOCK_M ? m - m0 : BLOCK_M;
        TYPED(pack)(a + m0 * depth + k0, depth, 1, mb, kb, MR, a_packed);
        for (size_t j = 0; j < nb; j += NR) {
          for (size_t i = 0; i < mb; i += MR) {
            REAL sum[MR * NR];
            TYPED(kernel)(kb, a_packed + i * kb, b_packed + j * kb, sum);
            const size_t rows = mb - i < MR ? mb - i : MR, cols = nb - j < NR ? nb - j : NR;
            for (size_t y = 0; y < rows; ++y)
              for (size_t x = 0; x < cols; ++x) c[(m0 + i + y) * n + n0 + j + x] += sum[y * NR + x];
          }
        }
      }
    }
  }
}

// --- verify -----------------------------------------------------------------------------------

// Row by row, A B computed the plain way must be C to the bit. Called when every sum is an integer
// that the type holds exactly. PE 0 does the sums, the others compare their C with that of PE 0.
static long TYPED(check_exactly)(const struct TYPED(job) * job) {
  const struct problem *p = job->problem;
  REAL *row = private_memory(p->n * sizeof *row, "a row");
  double *sum = private_memory(p->n * sizeof *sum, "a row");
  long errors = 0;
  for (size_t i = 0; i < p->m; ++i) {
    if (shmem_my_pe() == 0) {
      for (size_t j = 0; j < p->n; ++j) sum[j] = 0;
      for (size_t k = 0; k < p->k; ++k) {
        const double a = element(&p->a, i, k);
        for (size_t j = 0; j < p->n; ++j) sum[j] += a * element(&p->b, k, j);
      }
      for (size_t j = 0; j < p->n; ++j) row[j] = (REAL)sum[j];
    } else {
      shmem_getmem(row, job->c + i * p->n, p->n * sizeof *row, 0);
    }
    for (size_t j = 0; j < p->n; ++j) errors += job->c[i * p->n + j] != row[j];
  }
  free(sum);
  free(row);
  return errors;
}

// Freivalds: C r must be A (B r) for a random vector r. PE 0 computes the right side from the full
// matrices, every PE the left side from its own C, so a PE with a wrong copy is found too.
static long TYPED(check_by_vector)(const struct TYPED(job) * job, const struct proof *proof) {
  const struct problem *p = job->problem;
  long errors = 0;
  for (size_t i = 0; i < p->m; ++i) {
    double sum = 0;
    for (size_t j = 0; j < p->n; ++j) sum += (double)job->c[i * p->n + j] * proof->vector[j];
    const double tolerance =
        proof->exact ? 0 : 8 * REAL_EPSILON * (double)(p->k + p->n) * proof->size[i];
    errors += !(fabs(sum - proof->product[i]) <= tolerance);
  }
  return errors;
}

static long TYPED(verify)(const struct TYPED(job) * job) {
  const struct problem *p = job->problem;
  struct proof proof;
  proof_begin(&proof, p, REAL_DIGITS);
  long errors = 0;
  for (int round = 0; round < 3; ++round) {
    proof_round(&proof, p, round);
    errors += TYPED(check_by_vector)(job, &proof);
  }
  const double work = (double)p->m * (double)p->n * (double)p->k;
  const bool in_full = proof.exact && work <= 2e7; // the plain product takes its time
  if (in_full) errors += TYPED(check_exactly)(job);
  if (shmem_my_pe() == 0)
    printf("check: A (B r) = C r on every PE, %s%s\n",
           proof.exact ? "without rounding" : "within rounding",
           in_full ? "; every element of C equal to the plain product" : "");
  proof_end(&proof);
  return errors;
}

static void TYPED(write)(const struct TYPED(job) * job, const char *path) {
  const struct problem *p = job->problem;
  FILE *file = fopen(path, "w");
  if (!file) fatal("%s: %s", path, strerror(errno));
  fprintf(file, "%%%%MatrixMarket matrix array real general\n%zu %zu\n", p->m, p->n);
  for (size_t j = 0; j < p->n; ++j)
    for (size_t i = 0; i < p->m; ++i)
      fprintf(file, "%.*g\n", REAL_DECIMALS, (double)job->c[i * p->n + j]);
  const bool failed = ferror(file) != 0;
  if (fclose(file) != 0 || failed) fatal("%s: writing failed: %s", path, strerror(errno));
}

// --- the whole job ----------------------------------------------------------------------------

static long TYPED(run)(const struct problem *p, const struct options *o) {
  const size_t n_pes = (size_t)shmem_n_pes(), me = (size_t)shmem_my_pe();
  const size_t most_k = (p->k + n_pes - 1) / n_pes, elements = p->m * p->n;
  struct TYPED(job) job = {.problem = p, .k_begin = split_begin(p->k, n_pes, me)};
  job.k_count = split_begin(p->k, n_pes, me + 1) - job.k_begin;
  job.a = symmetric(p->m * most_k * sizeof(REAL), "A");
  job.b = symmetric(most_k * p->n * sizeof(REAL), "B");
  job.partial = symmetric(elements * sizeof(REAL), "the partial product");
  job.c = symmetric(elements * sizeof(REAL), "C");
  REAL *a_packed = private_memory(BLOCK_M * BLOCK_K * sizeof(REAL), "a block of A");
  REAL *b_packed = private_memory((BLOCK_N + NR) * BLOCK_K * sizeof(REAL), "a block of B");
  TYPED(fill)(&job);

  struct times times = {0};
  for (long i = 0; i < o->repeat; ++i) {
    shmem_barrier_all();
    const double start = now();
    TYPED(multiply)(p->m, p->n, job.k_count, job.a, job.b, job.partial, a_packed, b_packed);
    const double multiplied = now();
    shmem_barrier_all(); // so that waiting for the slowest product is not counted below
    const double reduce_start = now();
    const int failed = TYPED(shmem)(SHMEM_TEAM_WORLD, job.c, job.partial, elements);
    const double reduced = now();
    if (failed) fatal("the reduction returned %d on PE %zu", failed, me);
    add_times(&times, multiplied - start, reduced - reduce_start);
  }
  report(p, &times, sizeof(REAL));

  const long errors = TYPED(verify)(&job);
  if (o->output && errors == 0 && me == 0) TYPED(write)(&job, o->output);
  shmem_barrier_all(); // the others read C of PE 0 until here
  free(b_packed);
  free(a_packed);
  shmem_free(job.c);
  shmem_free(job.partial);
  shmem_free(job.b);
  shmem_free(job.a);
  return errors;
}

#undef LANES
#undef MR
#undef NR
#undef BLOCK_K
#undef BLOCK_M
#undef BLOCK_N
