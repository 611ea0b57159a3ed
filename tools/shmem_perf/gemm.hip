// SPDX-License-Identifier: MIT
// shmem_perf --gemm: products of matrices in bf16, of one PE and of all together, and in the same
// run the vendor's product and collectives one after the other. Each is checked before it is timed.
#include <hip/hip_runtime.h>
#include <shmem/device/gemm/number.hpp>
#include <shmemx.h>

#include "device.h"
#include "plot.h"
#include "vendor.hpp"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#define HIP(call)                                                                                  \
  do {                                                                                             \
    const hipError_t error_ = (call);                                                              \
    if (error_ != hipSuccess) {                                                                    \
      fprintf(stderr, "error: PE %d: %s: %s\n", shmem_my_pe(), #call, hipGetErrorString(error_));  \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

namespace {

using shmem::gemm::Bfloat16;

enum Op { whole, part, reduce_scatter, all_reduce, all_gather, gather_matmul, ops };
const char *const names[] = {"matmul",
                             "matmul of a shard",
                             "matmul_reduce_scatter",
                             "matmul_all_reduce",
                             "matmul_all_gather",
                             "all_gather_matmul"};
const char *const algorithms[] = {"", "  fused", "  streams", "  bulk"};

// A kind of timed call: each operation as the library chooses, as the vendor's, and by each
// algorithm.
struct Kind {
  Op op;
  shmemx_matmul_algorithm_t algorithm;
  bool theirs;
};

struct Shape {
  size_t m, n, k;
};

// Element i of a matrix, in [-1, 1); each PE has its own matrices. A check computes the element
// again.
__host__ __device__ inline Bfloat16 element(unsigned matrix, int pe, size_t i) {
  uint32_t x =
      uint32_t(i) * 2654435761u + uint32_t(i >> 32) + matrix * 40503u + uint32_t(pe) * 977u;
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return shmem::gemm::from_float<Bfloat16>(float(int32_t(x ^ x >> 16)) * 0x1p-31f);
}
__global__ void fill(Bfloat16 *to, size_t n, unsigned matrix, int pe) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += size_t(gridDim.x) * blockDim.x)
    to[i] = element(matrix, pe, i);
}

struct Bench {
  const struct gemm_options &o;
  int me = shmem_my_pe(), npes = shmem_n_pes();
  hipStream_t stream;
  hipEvent_t begin, end;
  hipDeviceProp_t prop;
  Vendor vendor;
  int calls; // in a timed run

  // Of a shape
  Shape s;
  size_t rows, first, own; // of a shard, this PE's first one, and how many it has
  size_t sets;             // of matrices, which take turns, so that none is in the L2
  std::vector<Bfloat16 *> a, b;
  Bfloat16 *c, *gathered, *out; // c: sets of m x n, symmetric; the vendor's A, and its shard
  shmemx_matmul_workspace_t workspace[ops];

  explicit Bench(const struct gemm_options &options) : o(options) {
    int device = 0;
    HIP(hipGetDevice(&device));
    HIP(hipGetDeviceProperties(&prop, device));
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipEventCreate(&begin));
    HIP(hipEventCreate(&end));
    calls = calls_in_a_row(o.calls);
    if (shmem::runtime::hardware) vendor.find(stream);
  }
  ~Bench() {
    HIP(hipEventDestroy(end));
    HIP(hipEventDestroy(begin));
    HIP(hipStreamDestroy(stream));
  }

  Bfloat16 *allocate(size_t n) {
    Bfloat16 *p;
    HIP(hipMalloc(&p, (n + 1) * sizeof *p));
    return p;
  }
  // False, with a note, if the heap has no room.
  bool make(const Shape &shape) {
    s = shape;
    shmemx_matmul_shard(s.m, npes, 0, &first, &rows);
    shmemx_matmul_shard(s.m, npes, me, &first, &own);
    const size_t bytes = 2 * (s.m * s.k + s.k * s.n + s.m * s.n);
    sets = std::min({size_t(8), size_t(calls), 2 + size_t(prop.l2CacheSize) / bytes});
    // The workspaces as well, which would end the job: three times the sum, twice, and the rows of
    // A.
    const size_t all_rows = rows * size_t(npes),
                 room = sets * s.m * s.n * 2 + 65536 + all_rows * (12 * (s.n + 8) + 2 * (s.k + 8));
    void *trial = shmem_malloc_with_hints(room, SHMEMX_MALLOC_DEVICE);
    if (!trial) {
      if (me == 0)
        fprintf(stderr,
                "note: %zu x %zu x %zu left out: no %zu bytes in the device heap (is there a GPU? "
                "SHMEM_DEVICE_SIZE)\n",
                s.m, s.n, s.k, room);
      return false;
    }
    shmem_free(trial);
    c = static_cast<Bfloat16 *>(
        shmem_malloc_with_hints(sets * s.m * s.n * 2, SHMEMX_MALLOC_DEVICE));
    shmemx_matmul_t call = product(0);
    for (int op = reduce_scatter; op < ops; op++)
      workspace[op] = shmemx_matmul_workspace_create(
          SHMEM_TEAM_WORLD, shmemx_matmul_op_t(op - reduce_scatter), &call);
    for (size_t i = 0; i < sets; i++) {
      a.push_back(allocate(s.m * s.k));
      b.push_back(allocate(s.k * s.n));
      hipLaunchKernelGGL(fill, dim3(256), dim3(256), 0, stream, a[i], s.m * s.k, 1, me);
      hipLaunchKernelGGL(fill, dim3(256), dim3(256), 0, stream, b[i], s.k * s.n, 2, me);
      HIP(hipGetLastError());
    }
    gathered = allocate(rows * size_t(npes) * s.k);
    out = allocate(rows * s.n);
    HIP(hipStreamSynchronize(stream));
    return true;
  }
  void clear() {
    HIP(hipStreamSynchronize(stream));
    for (Bfloat16 *p : a) HIP(hipFree(p));
    for (Bfloat16 *p : b) HIP(hipFree(p));
    HIP(hipFree(gathered));
    HIP(hipFree(out));
    a.clear(), b.clear();
    for (int op = reduce_scatter; op < ops; op++) shmemx_matmul_workspace_destroy(workspace[op]);
    shmem_free(c);
  }

  Bfloat16 *c_of(size_t set) const { return c + set * s.m * s.n; }
  shmemx_matmul_t product(size_t set) const {
    shmemx_matmul_t call = {};
    call.type = call.out = SHMEMX_BF16;
    call.m = s.m, call.n = s.n, call.k = s.k;
    call.lda = s.k, call.ldb = call.ldc = s.n;
    if (set < a.size()) call.a = a[set], call.b = b[set];
    call.c = c_of(set);
    return call;
  }
  bool has(Kind kind) const {
    const Op op = kind.op;
    if (!kind.theirs) return op != gather_matmul || kind.algorithm != SHMEMX_MATMUL_FUSED;
    if (!vendor.product || s.m > INT32_MAX || s.n > INT32_MAX || s.k > INT32_MAX) return false;
    // Shards of the vendor's collectives are of one size.
    return op < reduce_scatter ||
           (vendor.collectives && (op == all_reduce || s.m % size_t(npes) == 0));
  }
  void enqueue(Kind kind, size_t set) {
    const Op op = kind.op;
    if (kind.theirs) return enqueue_vendor(op, set);
    shmemx_matmul_t call = product(set);
    call.algorithm = kind.algorithm;
    const auto on = reinterpret_cast<shmemx_stream_t>(stream);
    if (op == part) call.m = own;
    if (op <= part) shmemx_matmul_on_stream(&call, on);
    if (op == reduce_scatter) shmemx_matmul_reduce_scatter_on_stream(workspace[op], &call, on);
    if (op == all_reduce) shmemx_matmul_all_reduce_on_stream(workspace[op], &call, on);
    if (op == all_gather) shmemx_matmul_all_gather_on_stream(workspace[op], &call, on);
    if (op == gather_matmul) shmemx_all_gather_matmul_on_stream(workspace[op], &call, on);
  }
  void enqueue_vendor(Op op, size_t set) {
    const size_t m = op == part || op == all_gather ? own : s.m;
    Bfloat16 *to = c_of(set) + (op == all_gather ? first * s.n : 0);
    const Nccl &nccl = vendor.nccl;
    if (op == gather_matmul)
      vendor.must("ncclAllGather", nccl.all_gather(a[set], gathered, rows * s.k, Nccl::bf16_type,
                                                   nccl.comm, stream));
    vendor.multiply(m, s.n, s.k, op == gather_matmul ? gathered : a[set], b[set], to);
    if (op == reduce_scatter)
      vendor.must("ncclReduceScatter",
                  nccl.reduce_scatter(c_of(set), out, rows * s.n, Nccl::bf16_type, Nccl::sum,
                                      nccl.comm, stream));
    if (op == all_reduce)
      vendor.must("ncclAllReduce", nccl.all_reduce(c_of(set), c_of(set), s.m * s.n, Nccl::bf16_type,
                                                   Nccl::sum, nccl.comm, stream));
    if (op == all_gather)
      vendor.must("ncclAllGather",
                  nccl.all_gather(to, c_of(set), rows * s.n, Nccl::bf16_type, nccl.comm, stream));
  }

  // Some elements in double, the corners among them.
  void check(Kind kind) {
    const Op op = kind.op;
    const bool theirs = kind.theirs;
    HIP(hipMemsetAsync(c, 0xff, s.m * s.n * 2, stream)); // NaN
    HIP(hipMemsetAsync(out, 0xff, rows * s.n * 2, stream));
    HIP(hipStreamSynchronize(stream));
    shmem_barrier_all(); // before a peer writes to C
    enqueue(kind, 0);
    HIP(hipStreamSynchronize(stream));
    const size_t high = op == part || op == reduce_scatter ? own : s.m;
    const Bfloat16 *result = theirs && op == reduce_scatter ? out : c;
    for (size_t i = 0; i < 16 && high; i++) {
      const size_t row = i < 4 ? i / 2 * (high - 1) : i * 7919 * 131 % high,
                   col = i < 4 ? i % 2 * (s.n - 1) : i * 104729 % s.n;
      Bfloat16 got;
      HIP(hipMemcpyAsync(&got, result + row * s.n + col, 2, hipMemcpyDeviceToHost, stream));
      HIP(hipStreamSynchronize(stream));
      check(op, theirs, row, col, double(shmem::gemm::to_float(got)));
    }
    shmem_barrier_all(); // no PE poisons C before all have looked
  }
  void check(Op op, bool theirs, size_t row, size_t col, double got) {
    const bool sums = op == reduce_scatter || op == all_reduce,
               shards = op == all_gather || op == gather_matmul;
    const int owner = shards ? int(row / rows) : me;
    const size_t a_row = shards ? row % rows : op == reduce_scatter ? first + row : row;
    double want = 0, parts = 0, size = 0;
    for (int p = sums ? 0 : owner; p < (sums ? npes : owner + 1); p++) {
      double sum = 0;
      for (size_t k = 0; k < s.k; k++) {
        const double x =
            double(shmem::gemm::to_float(element(1, p, a_row * s.k + k))) *
            double(shmem::gemm::to_float(element(2, op == gather_matmul ? me : p, k * s.n + col)));
        sum += x, size += std::fabs(x);
      }
      want += sum, parts += std::fabs(sum);
    }
    // A vendor's sum may be rounded wherever it comes by.
    const double bound =
        0x1p-8 * (std::fabs(want) + (sums ? parts * (theirs ? npes : 1) : 0)) + 0x1p-18 * size;
    if (std::fabs(got - want) <= bound) return;
    fprintf(stderr,
            "WRONG: PE %d: %s%s, %zu x %zu x %zu: row %zu column %zu is %.9g, not %.9g +- %.2g\n",
            me, theirs ? "the vendor's " : "", names[op], s.m, s.n, s.k, row, col, got, want,
            bound);
    shmem_global_exit(1);
  }

  // Of one call in us, on this PE. All begin at the same time.
  double time(Kind kind) {
    shmem_barrier_all();
    HIP(hipEventRecord(begin, stream));
    for (int i = 0; i < calls; i++) enqueue(kind, size_t(i) % sets);
    HIP(hipEventRecord(end, stream));
    HIP(hipEventSynchronize(end));
    float ms = 0;
    HIP(hipEventElapsedTime(&ms, begin, end));
    return double(ms) * 1e3 / calls;
  }
  void measure() {
    constexpr int each = 5, kinds = each * ops;
    const int warm_ups = std::min(2, o.runs);
    std::vector<double> us[kinds];
    static double median[kinds], slowest[kinds]; // symmetric
    const auto kind = [](int i) {
      return Kind{Op(i / each), shmemx_matmul_algorithm_t(i % each < 2 ? 0 : i % each - 1),
                  i % each == 1};
    };
    const auto timed = [&](int i) {
      return has(kind(i)) && (i % each < 2 || i / each >= reduce_scatter);
    };
    for (int i = 0; i < kinds; i++)
      if (timed(i)) check(kind(i));
    // Each time in another order: a GPU at its limit of power is slower after what took more.
    constexpr int strides[] = {1, 7, 11, 13, 17, 19};
    static_assert(kinds % 7 * (kinds % 11) * (kinds % 13) * (kinds % 17) * (kinds % 19) != 0);
    for (int run = -warm_ups; run < o.runs; run++)
      for (int at = 0; at < kinds; at++) {
        const int i = (at + 1) * strides[(run + warm_ups) % 6] % kinds;
        if (!timed(i)) continue;
        const double t = time(kind(i));
        if (run >= 0) us[i].push_back(t);
      }
    for (int i = 0; i < kinds; i++) {
      std::sort(us[i].begin(), us[i].end());
      median[i] = us[i].empty() ? 0 : us[i][us[i].size() / 2];
    }
    shmem_barrier_all();
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, slowest, median, kinds);
    if (me == 0)
      for (int i = 0; i < kinds; i++)
        if (!kind(i).theirs && slowest[i] > 0)
          row(kind(i), slowest[i], slowest[i / each * each + 1], slowest + each * whole, each);
    shmem_barrier_all();
  }
  // alone: the products' times.
  void row(Kind kind, double ours, double theirs, const double *alone, int each) const {
    const Op op = kind.op;
    // Against the product that is in it, the faster one of ours and the vendor's.
    if (op == part || op == all_gather) alone += each;
    const double gemm = alone[1] > 0 ? std::min(alone[0], alone[1]) : alone[0];
    const char *const name = kind.algorithm ? algorithms[kind.algorithm] : names[op];
    const double rate =
        2e-6 * double(op == part || op == all_gather ? rows : s.m) * double(s.n) * double(s.k);
    if (!kind.algorithm) plot(names[op], false, rate / ours);
    if (!kind.algorithm && theirs > 0) plot("vendor", true, rate / theirs);
    if (o.json) {
      printf("{\"test\": \"%s\", \"algorithm\": \"%s\", \"m\": %zu, \"n\": %zu, \"k\": %zu, "
             "\"us\": %.5g, \"tflops\": %.4g, \"x_gemm\": %.4g, \"percent_of_gemm\": %.4g",
             names[op], kind.algorithm ? algorithms[kind.algorithm] + 2 : "best", s.m, s.n, s.k,
             ours, rate / ours, ours / gemm, 100 * gemm / ours);
      if (theirs > 0)
        printf(", \"vendor_us\": %.5g, \"vendor_tflops\": %.4g, \"vendor_percent_of_gemm\": %.4g, "
               "\"x_vendor\": %.4g",
               theirs, rate / theirs, 100 * gemm / theirs, ours / theirs);
      puts("}");
    } else {
      printf("%-22s %6zu %6zu %6zu %10.5g %9.4g %6.1f", name, s.m, s.n, s.k, ours, rate / ours,
             100 * gemm / ours);
      if (theirs > 0)
        printf(" %10.5g %9.4g %6.1f %8.3f\n", theirs, rate / theirs, 100 * gemm / theirs,
               ours / theirs);
      else
        printf(" %10s %9s %6s %8s\n", "-", "-", "-", "-");
    }
    fflush(stdout);
  }
  // A panel for each shape: the vendor's bar is below ours.
  void plot(const char *name, bool other, double tflops) const {
    char panel[96];
    snprintf(panel, sizeof panel, "M x N x K = %zu x %zu x %zu, each PE", s.m, s.n, s.k);
    struct plot_point point = {};
    point.panel = panel, point.name = name, point.other = other;
    point.value = tflops, point.unit = "TFLOP/s";
    plot_add(&point);
  }
};

} // namespace

extern "C" void gemm_perf(const struct gemm_options *options) {
  Bench b(*options);
  const size_t n = size_t(b.npes);
  plot_title("shmem_perf --gemm: %d PEs, %s, bf16; vendor: %s, %s", b.npes, b.prop.name,
             b.vendor.product ? b.vendor.blas : "no BLAS",
             b.vendor.collectives ? b.vendor.nccl.file : "no collectives");
  if (b.me == 0 && !options->json)
    printf("# %d PEs, %s, bf16; vendor: %s, %s\n"
           "# %% gemm: share of the peak of the product alone of the same shape in this run, the "
           "faster one of\n# ours and the vendor's; TFLOP/s are of a PE\n"
           "%-22s %6s %6s %6s %10s %9s %6s %10s %9s %6s %8s\n",
           b.npes, b.prop.name, b.vendor.product ? b.vendor.blas : "no BLAS",
           b.vendor.collectives ? b.vendor.nccl.file : "no collectives", "test", "M", "N", "K",
           "us", "TFLOP/s", "% gemm", "vendor us", "TFLOP/s", "% gemm", "x vendor");
  // Those of tensor-parallel layers; K is that of a PE.
  const Shape table[] = {{512, 8192, 3584},  {2048, 8192, 3584}, {8192, 8192, 3584},
                         {4096, 4096, 4096}, {8192, 8192, 1024}, {8192, 28672 / n, 8192}},
              small[] = {{96, 80, 32}, {64 * n, 64, 64}},
              asked[] = {{options->m, options->n, options->k}};
  const Shape *at = options->m ? asked : shmem::runtime::hardware ? table : small;
  const size_t count = options->m ? 1 : shmem::runtime::hardware ? 6 : 2;
  for (size_t i = 0; i < count; i++) {
    if (!b.make(at[i])) continue;
    b.measure();
    b.clear();
  }
}
