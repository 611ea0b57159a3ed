// SPDX-License-Identifier: MIT
// Products of several PEs against float64. Every PE knows the matrices of all, by their formula.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unistd.h>
#include <vector>

#include <hip/hip_runtime.h>

#include "../../device/gemm/matmul.hpp"
#include "../../device/gemm/number.hpp"
#include "../objects.hpp"
#include "../stream.hpp"
#include "finish.hpp"

extern "C" hipError_t occupy(unsigned blocks, unsigned threads, const unsigned *end,
                             hipStream_t stream);

namespace {

using namespace shmem::gemm;

const struct {
  size_t bytes;
  double unit;
} facts[] = {{4, 0x1p-24}, {2, 0x1p-11}, {2, 0x1p-8}, {1, 0x1p-4}};

float rounded(shmemx_type_t t, float v) {
  return t == SHMEMX_F32    ? v
         : t == SHMEMX_F16  ? to_float(from_float<Half>(v))
         : t == SHMEMX_BF16 ? to_float(from_float<Bfloat16>(v))
                            : to_float(from_float<Float8>(v));
}
void put(shmemx_type_t t, void *p, size_t i, float v) {
  if (t == SHMEMX_F32) static_cast<float *>(p)[i] = v;
  if (t == SHMEMX_F16) static_cast<Half *>(p)[i] = from_float<Half>(v);
  if (t == SHMEMX_BF16) static_cast<Bfloat16 *>(p)[i] = from_float<Bfloat16>(v);
  if (t == SHMEMX_F8) static_cast<Float8 *>(p)[i] = from_float<Float8>(v);
}
double get(shmemx_type_t t, const void *p, size_t i) {
  return double(t == SHMEMX_F32    ? static_cast<const float *>(p)[i]
                : t == SHMEMX_F16  ? to_float(static_cast<const Half *>(p)[i])
                : t == SHMEMX_BF16 ? to_float(static_cast<const Bfloat16 *>(p)[i])
                                   : to_float(static_cast<const Float8 *>(p)[i]));
}
// Element (r, c) of matrix `which` of a member in a call, in [-1, 1).
float value(int member, int which, size_t r, size_t c, int call) {
  uint32_t x =
      uint32_t(r * 2654435761u + c * 40503u) + uint32_t(member * 977 + which * 31 + call * 131);
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return float(int32_t(x ^ x >> 16)) * 0x1p-31f;
}

constexpr auto op_rs = SHMEMX_MATMUL_REDUCE_SCATTER, op_ar = SHMEMX_MATMUL_ALL_REDUCE,
               op_ag = SHMEMX_MATMUL_ALL_GATHER, op_gm = SHMEMX_ALL_GATHER_MATMUL;

struct Job {
  shmem_team_t team;
  shmemx_matmul_op_t op;
  shmemx_matmul_t shape; // what does not change from call to call
  int i, n;              // of the team
  size_t first, own;     // rows of this member's shard
  shmemx_matmul_workspace_t workspace;
  char *a, *b, *c, *bias;
  float *residual; // NULL: the library's finish
  size_t c_rows, c_bytes;

  size_t a_rows() const { return op == op_ag || op == op_gm ? own : shape.m; }
  size_t a_first() const { return op == op_ag || op == op_gm ? first : 0; }
};

// B is the same for the gather of C, each member's own otherwise.
float b_value(const Job &j, int member, size_t r, size_t c, int call) {
  return rounded(j.shape.type, value(j.op == op_ag ? 0 : member, 2, r, c, call));
}
float a_value(const Job &j, int member, size_t r, size_t c, int call) {
  const bool shared = j.op == op_ag || j.op == op_gm; // one matrix, whose rows they share
  return rounded(j.shape.type, value(shared ? 0 : member, 1, r, c, call));
}

Job make(shmem_team_t team, shmemx_matmul_op_t op, shmemx_type_t type, size_t m, size_t n, size_t k,
         bool trans_b, bool extra, shmemx_matmul_algorithm_t algorithm = SHMEMX_MATMUL_BEST,
         size_t c_bytes = 0) {
  if (!stream) stream = make_stream();
  Job j{};
  j.team = team;
  j.op = op;
  j.i = shmem_team_my_pe(team);
  j.n = shmem_team_n_pes(team);
  const size_t rows = (m + size_t(j.n) - 1) / size_t(j.n);
  j.first = rows * size_t(j.i) < m ? rows * size_t(j.i) : m;
  j.own = m - j.first < rows ? m - j.first : rows;
  j.shape.type = j.shape.out = type;
  j.shape.m = m, j.shape.n = n, j.shape.k = k;
  j.shape.lda = k, j.shape.ldb = trans_b ? k : n, j.shape.ldc = n + 8;
  j.shape.trans_b = trans_b;
  j.shape.activation = extra ? SHMEMX_ACTIVATION_GELU : SHMEMX_ACTIVATION_NONE;
  j.shape.algorithm = algorithm;
  // All of a workspace has been written to before.
  const size_t used = 3 * (m + 8) * (n + 8) * 4 + (m + 8) * (k + 8) * 4 + 65536;
  void *waste = shmem_malloc_with_hints(c_bytes ? c_bytes : used, SHMEMX_MALLOC_DEVICE);
  if (waste) {
    HIP(hipMemsetAsync(waste, 0xff, c_bytes ? c_bytes : used, stream));
    HIP(hipStreamSynchronize(stream));
  }
  shmem_free(waste);
  j.workspace = shmemx_matmul_workspace_create(team, op, &j.shape);
  const size_t bytes = facts[type].bytes;
  HIP(hipMalloc(&j.a, (m * k + 1) * bytes));
  HIP(hipMalloc(&j.b, (n * k + 1) * bytes));
  HIP(hipMalloc(&j.bias, (n + 1) * bytes));
  j.c_rows = op == op_rs ? j.own : m;
  j.c_bytes = c_bytes ? c_bytes : (m + 1) * j.shape.ldc * bytes; // as much on all PEs
  j.c = static_cast<char *>(object_alloc(j.c_bytes));
  CHECK(j.workspace && j.c, "no memory");
  if (extra) {
    std::vector<char> host(n * bytes);
    for (size_t c = 0; c < n; c++) put(type, host.data(), c, value(0, 3, 0, c, 0));
    to_device(j.bias, host.data(), host.size());
    j.shape.bias = j.bias;
  }
  j.shape.a = j.a, j.shape.b = j.b, j.shape.c = j.c;
  return j;
}
void destroy(Job &j) {
  HIP(hipFree(j.a));
  HIP(hipFree(j.b));
  HIP(hipFree(j.bias));
  if (j.residual) HIP(hipFree(j.residual));
  object_free(j.c);
  shmemx_matmul_workspace_destroy(j.workspace);
}

// Before a peer writes to C.
void poison(const Job &j) {
  HIP(hipMemsetAsync(j.c, 0x5a, j.c_bytes, stream));
  HIP(hipStreamSynchronize(stream));
  shmem_barrier_all();
}
// A finish of the test's own, with numbers like C's, and just so many.
float residual_value(const Job &j, size_t row, size_t col) {
  return value(j.op == op_rs || j.op == op_gm ? j.i : 0, 4, row, col, 0);
}
void finish(Job &j) {
  std::vector<float> host(j.c_rows * j.shape.n);
  for (size_t i = 0; i < host.size(); i++)
    host[i] = residual_value(j, i / j.shape.n, i % j.shape.n);
  HIP(hipMalloc(&j.residual, (host.size() + 1) * sizeof(float)));
  to_device(j.residual, host.data(), host.size() * sizeof(float));
}
// The matrices of a call.
void fill(const Job &j, int call) {
  const shmemx_matmul_t &s = j.shape;
  const size_t bytes = facts[s.type].bytes;
  std::vector<char> a(j.a_rows() * s.k * bytes), b(s.n * s.k * bytes);
  for (size_t r = 0; r < j.a_rows(); r++)
    for (size_t c = 0; c < s.k; c++)
      put(s.type, a.data(), r * s.k + c, a_value(j, j.i, j.a_first() + r, c, call));
  for (size_t r = 0; r < s.k; r++)
    for (size_t c = 0; c < s.n; c++)
      put(s.type, b.data(), s.trans_b ? c * s.k + r : r * s.n + c, b_value(j, j.i, r, c, call));
  to_device(j.a, a.data(), a.size());
  to_device(j.b, b.data(), b.size());
}

void enqueue(const Job &j, hipStream_t stream) {
  if (j.residual) return enqueue_finished(j.op, j.workspace, j.shape, j.residual, stream);
  const auto s = reinterpret_cast<shmemx_stream_t>(stream);
  if (j.op == op_rs) shmemx_matmul_reduce_scatter_on_stream(j.workspace, &j.shape, s);
  if (j.op == op_ar) shmemx_matmul_all_reduce_on_stream(j.workspace, &j.shape, s);
  if (j.op == op_ag) shmemx_matmul_all_gather_on_stream(j.workspace, &j.shape, s);
  if (j.op == op_gm) shmemx_all_gather_matmul_on_stream(j.workspace, &j.shape, s);
}

void check(const Job &j, int call) {
  const shmemx_matmul_t &s = j.shape;
  std::vector<char> host(j.c_bytes);
  to_host(host.data(), j.c, host.size());
  const bool sums = j.op == op_rs || j.op == op_ar;
  const double unit = facts[s.out].unit, step = s.type == SHMEMX_F8 ? 0x1p-13 : 0x1p-23;
  for (size_t r = 0; r < j.c_rows; r++)
    for (size_t c = 0; c < s.n; c++) {
      const size_t row = j.op == op_rs ? j.first + r : r;
      double sum = 0, parts = 0, size = 0;
      for (int p = sums ? 0 : j.i; p < (sums ? j.n : j.i + 1); p++) {
        double part = 0;
        for (size_t k = 0; k < s.k; k++) {
          const double x = double(a_value(j, p, row, k, call)) * double(b_value(j, p, k, c, call));
          part += x, size += std::fabs(x);
        }
        sum += part, parts += std::fabs(part);
      }
      if (s.bias) sum += double(rounded(s.out, value(0, 3, 0, c, 0)));
      if (j.residual) {
        sum = sum * double(scale_of(r)) + double(residual_value(j, r, c));
        size *= 1.75, parts *= 1.75;
      }
      const double want = s.activation ? 0.5 * sum * (1 + std::erf(sum / std::sqrt(2))) : sum;
      const double bound =
          1.13 * ((double(s.k) + 10) * step * (size + 1) + (sums ? unit * parts * 1.01 : 0)) +
          unit * std::fabs(want) * 1.01 + 0x1p-20 * std::fabs(want) + 0x1p-25;
      const double got = get(s.out, host.data(), r * s.ldc + c);
      CHECK(
          std::fabs(got - want) <= bound,
          "op %d algorithm %d type %d m %zu n %zu k %zu, member %d of %d, call %d: row %zu column "
          "%zu is "
          "%.9g, not %.9g +- %.2g",
          j.op, s.algorithm, s.type, s.m, s.n, s.k, j.i, j.n, call, r, c, got, want, bound);
    }
  // Nothing beside C: between its rows and after its last.
  for (size_t r = 0; r <= j.c_rows; r++)
    for (size_t c = r < j.c_rows ? s.n : 0; c < s.ldc; c++)
      for (size_t b = 0; b < facts[s.out].bytes; b++)
        CHECK(host[(r * s.ldc + c) * facts[s.out].bytes + b] == 0x5a,
              "op %d: row %zu column %zu beside C written", j.op, r, c);
}

void run(shmemx_matmul_op_t op, shmemx_type_t type, size_t m, size_t n, size_t k, bool trans_b,
         bool extra, shmemx_matmul_algorithm_t algorithm) {
  Job j = make(SHMEM_TEAM_WORLD, op, type, m, n, k, trans_b, extra, algorithm);
  fill(j, 0);
  poison(j);
  enqueue(j, stream);
  HIP(hipStreamSynchronize(stream));
  check(j, 0);
  destroy(j);
}

const shmemx_matmul_op_t ops[] = {op_rs, op_ar, op_ag, op_gm};
const shmemx_matmul_algorithm_t algorithms[] = {SHMEMX_MATMUL_FUSED, SHMEMX_MATMUL_STREAMS,
                                                SHMEMX_MATMUL_BULK};

void types(void) {
  for (auto op : ops)
    for (auto type : {SHMEMX_F32, SHMEMX_F16, SHMEMX_BF16, SHMEMX_F8})
      for (auto algorithm : algorithms) run(op, type, 96, 80, 32, true, false, algorithm);
}
void shapes(void) {
  const size_t list[][3] = {{1, 1, 1},      {2, 75, 33}, {131, 67, 5}, {200, 130, 40},
                            {192, 130, 40}, {64, 64, 0}, {0, 5, 5},    {5, 0, 5}};
  for (auto op : ops)
    for (auto &s : list)
      for (auto algorithm : algorithms)
        run(op, SHMEMX_BF16, s[0], s[1], s[2], false, false, algorithm);
}
void epilogues(void) {
  for (auto op : ops) run(op, SHMEMX_F32, 70, 50, 20, true, true, SHMEMX_MATMUL_BEST);
}

// By templates, with a finish that knows the row. Of all_gather's C each PE finishes its shard, and
// so has the same residual as the others.
void own_finish(void) {
  const size_t list[][3] = {{70, 50, 20}, {131, 67, 5}, {64, 128, 16}, {2, 9, 3}};
  for (auto op : ops)
    for (auto &s : list)
      for (auto algorithm : algorithms) {
        Job j = make(SHMEM_TEAM_WORLD, op, SHMEMX_BF16, s[0], s[1], s[2], true, false, algorithm);
        fill(j, 0);
        finish(j);
        poison(j);
        for (int call = 0; call < 2; call++) enqueue(j, stream);
        HIP(hipStreamSynchronize(stream));
        check(j, 0);
        if (npes == 1) { // the same of a product of one PE
          poison(j);
          enqueue_finished(j.shape, j.residual, stream);
          HIP(hipStreamSynchronize(stream));
          check(j, 0);
        }
        destroy(j);
      }
}

// Calls one after the other with no barrier between, each with its own numbers, one PE late; the
// sums of all calls are looked at.
void repeated(void) {
  for (auto op : ops)
    for (auto algorithm : algorithms) {
      Job j = make(SHMEM_TEAM_WORLD, op, SHMEMX_F32, 70, 40, 24, true, false, algorithm);
      poison(j);
      for (int call = 0; call < 4; call++) {
        if (me == call % npes) usleep(10000);
        fill(j, call);
        enqueue(j, stream);
        HIP(hipStreamSynchronize(stream));
        check(j, call);
        // A peer may be a call ahead, and all_reduce and all_gather write into this C in it only
        // when this stream has come there: what was checked was this call's.
      }
      destroy(j);
    }
}

// More tiles than find room at once, so that a pool of workgroups sends while others multiply, and
// a finish of the test's own, whose sums all members store at all others: each call with its own
// numbers.
void pool(void) {
  const int calls = pe_rounds(100) / 100 + 1;
  for (auto op : {op_rs, op_ar, op_ag}) {
    Job j = make(SHMEM_TEAM_WORLD, op, SHMEMX_BF16, size_t(npes) * 130, 1032, 8, true, false,
                 SHMEMX_MATMUL_FUSED);
    finish(j);
    poison(j);
    for (int call = 0; call < calls; call++) {
      fill(j, call);
      enqueue(j, stream);
      HIP(hipStreamSynchronize(stream));
      check(j, call);
    }
    destroy(j);
  }
}

// The same launches again, from a graph: epochs go on.
void graph(void) {
  for (int i = 0; i < 12; i++) {
    Job j =
        make(SHMEM_TEAM_WORLD, ops[i / 3], SHMEMX_F32, 40, 24, 16, true, false, algorithms[i % 3]);
    fill(j, 0);
    poison(j);
    const hipGraphExec_t exec = captured([&] { enqueue(j, stream); });
    for (int replay = 0; replay < 20; replay++) HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    check(j, 0);
    HIP(hipGraphExecDestroy(exec));
    destroy(j);
  }
}

// As many rows as make whole rounds of tiles on this GPU: those of the others then come while the
// own ones are multiplied. With gaps between rows in bf16; new rows for each call; and in a graph.
void beside(void) {
  int device, units;
  HIP(hipGetDevice(&device));
  HIP(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device));
  for (auto type : {SHMEMX_F32, SHMEMX_BF16}) {
    Job j = make(SHMEM_TEAM_WORLD, op_gm, type, size_t(npes * units * 256 - 5), 8, 12, true, true);
    poison(j);
    for (int call = 0; call < 3; call++) {
      fill(j, call);
      enqueue(j, stream);
      HIP(hipStreamSynchronize(stream));
      check(j, call);
    }
    const hipGraphExec_t exec = captured([&] { enqueue(j, stream), enqueue(j, stream); });
    fill(j, 3);
    for (int i = 0; i < 5; i++) HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    check(j, 3);
    HIP(hipGraphExecDestroy(exec));
    destroy(j);
  }
}

// All compute units but one belong to another kernel until the products are there: a workgroup
// without room waits for those that have it, and none of these waits for one without. Where two PEs
// share a GPU, their kernels that take units would take the last one, too: then no PE does this,
// also not one that has a GPU for itself (3 PEs on 2 GPUs), because all PEs take part in the rest.
void few_units(void) {
  hipDeviceProp_t prop;
  int device;
  HIP(hipGetDevice(&device));
  HIP(hipGetDeviceProperties(&prop, device));
  static long bus, buses[PE_MAX];
  bus = long(prop.pciDomainID) << 16 | prop.pciBusID << 8 | prop.pciDeviceID;
  shmem_long_fcollect(SHMEM_TEAM_WORLD, buses, &bus, 1);
  std::sort(buses, buses + npes);
  if (strcmp(prop.gcnArchName, "cpu") && std::unique(buses, buses + npes) != buses + npes) return;
  const unsigned blocks = unsigned(prop.multiProcessorCount) - 1,
                 threads = strcmp(prop.gcnArchName, "cpu") ? 1024 : 1; // there a unit has one block
  unsigned *end;
  HIP(hipMalloc(&end, sizeof *end));
  const hipStream_t other = make_stream();
  for (auto op : ops)
    for (auto algorithm : algorithms) {
      // Several rounds of tiles, so that there is a pool.
      Job j = make(SHMEM_TEAM_WORLD, op, SHMEMX_BF16, size_t(npes) * 200, 264, 16, true, false,
                   algorithm);
      fill(j, 0);
      poison(j);
      const unsigned zero = 0, one = 1;
      to_device(end, &zero, sizeof zero);
      if (blocks) HIP(occupy(blocks, threads, end, other));
      enqueue(j, stream), enqueue(j, stream);
      HIP(hipStreamSynchronize(stream));
      to_device(end, &one, sizeof one);
      HIP(hipStreamSynchronize(other));
      check(j, 0);
      destroy(j);
    }
  HIP(hipStreamDestroy(other));
  HIP(hipFree(end));
}

// Bit for bit the same on every PE, and in every call.
void equal(void) {
  Job j = make(SHMEM_TEAM_WORLD, SHMEMX_MATMUL_ALL_REDUCE, SHMEMX_BF16, 96, 80, 32, true, false);
  static unsigned long sum, sums[PE_MAX];
  fill(j, 0);
  for (int call = 0; call < 3; call++) {
    poison(j);
    enqueue(j, stream);
    std::vector<unsigned char> host(j.c_bytes);
    to_host(host.data(), j.c, host.size());
    const unsigned long before = sum;
    sum = 14695981039346656037u;
    for (unsigned char x : host) sum = (sum ^ x) * 1099511628211u;
    shmem_barrier_all();
    shmem_ulong_fcollect(SHMEM_TEAM_WORLD, sums, &sum, 1);
    for (int p = 0; p < npes; p++) CHECK(sums[p] == sum, "the sums of PE %d differ", p);
    CHECK(!call || sum == before, "the sums of call %d differ", call);
  }
  destroy(j);
}

void all_operations(shmem_team_t team, size_t m) {
  for (auto op : ops) {
    Job j = make(team, op, SHMEMX_F32, m, 40, 24, true, false, SHMEMX_MATMUL_BEST, 128 * 64 * 4);
    fill(j, 0);
    poison(j);
    for (int call = 0; call < 3; call++) enqueue(j, stream);
    HIP(hipStreamSynchronize(stream));
    check(j, 0);
    destroy(j);
  }
}
// Two teams at once, of the even and of the odd PEs, with sizes of their own; and one of a list.
void teams(void) {
  const int odd = me % 2;
  shmem_team_t halves[2] = {SHMEM_TEAM_INVALID, SHMEM_TEAM_INVALID};
  for (int h = 0; h < 2 && h < npes; h++)
    shmem_team_split_strided(SHMEM_TEAM_WORLD, h, 2, (npes - h + 1) / 2, nullptr, 0, &halves[h]);
  all_operations(halves[odd], odd ? 50 : 90);
  for (shmem_team_t half : halves)
    if (half != SHMEM_TEAM_INVALID) shmem_team_destroy(half);
  const shmem_team_t turned = turned_world();
  all_operations(turned, 90);
  shmem_team_destroy(turned);
}

// Two operations of a team on two streams, of several rounds of tiles.
void two_streams(void) {
  const hipStream_t first = make_stream(), second = make_stream();
  for (auto algorithm : algorithms)
    for (int pair = 0; pair < 2; pair++) {
      const size_t m = size_t(npes) * 140;
      Job x = make(SHMEM_TEAM_WORLD, pair ? op_ag : op_rs, SHMEMX_F32, m, 72, 16, true, false,
                   algorithm),
          y = make(SHMEM_TEAM_WORLD, pair ? op_gm : op_ar, SHMEMX_F32, m, 72, 16, true, false,
                   algorithm);
      fill(x, 0), fill(y, 1);
      poison(x), poison(y);
      for (int call = 0; call < 4; call++) enqueue(x, first), enqueue(y, second);
      HIP(hipDeviceSynchronize());
      check(x, 0), check(y, 1);
      destroy(x), destroy(y);
    }
  HIP(hipStreamDestroy(first));
  HIP(hipStreamDestroy(second));
}

// As shmemx.h has it: ceil(m / n) rows each, as far as there are any. On the host, and some in a
// kernel.
void shards(void) {
  size_t *at, seen[2];
  HIP(hipMalloc(&at, sizeof seen));
  for (size_t m : {size_t(0), size_t(1), size_t(7), size_t(8), size_t(9), size_t(100), ~size_t(0)})
    for (int n = 1; n <= 8; n++) {
      size_t next = 0;
      for (int i = 0; i < n; i++) {
        size_t first, rows, most = m / size_t(n) + (m % size_t(n) != 0);
        shmemx_matmul_shard(m, n, i, &first, &rows);
        CHECK(first == next && (rows == most || first + rows == m), "%zu rows, %d of %d: %zu + %zu",
              m, i, n, first, rows);
        next = first + rows;
        if (i != n / 2) continue;
        enqueue_shard(m, n, i, at, stream);
        to_host(seen, at, sizeof seen);
        CHECK(seen[0] == first && seen[1] == rows, "in a kernel: %zu rows, %d of %d", m, i, n);
      }
      CHECK(next == m, "%zu rows, %d members: %zu", m, n, next);
    }
  HIP(hipFree(at));
}

// One wrong call by a template, whose line mistakes.py looks at.
int mistake(const char *what) {
  shmem_init();
  Job j = make(SHMEM_TEAM_WORLD, op_ar, strcmp(what, "type") ? SHMEMX_BF16 : SHMEMX_F32, 8, 16, 24,
               true, false);
  finish(j);
  if (!strcmp(what, "op")) j.op = op_ag;
  if (!strcmp(what, "shape")) j.shape.m = 9;
  if (!strcmp(what, "heap")) j.shape.c = j.a;
  if (!strcmp(what, "row")) j.shape.lda = 23;
  if (!strcmp(what, "null")) j.workspace = nullptr;
  if (!strcmp(what, "version"))
    shmemx_matmul_launch(
        "shmem::gemm::matmul", shmem::gemm::shared_bytes + 8, shmem::gemm::Fused::none, nullptr,
        &j.shape, on_stream(), [](auto...) { return hipSuccess; }, nullptr);
  if (!strcmp(what, "alone")) j.shape.ldc = 15, enqueue_finished(j.shape, j.residual, stream);
  if (!strcmp(what, "late") && shmem_my_pe() == 1) sleep(30); // longer than SHMEM_WAIT_LIMIT
  enqueue(j, stream);
  return hipStreamSynchronize(stream) != hipSuccess;
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2) return mistake(argv[1]);
  const pe_test tests[] = {
      {"types", types},           {"shapes", shapes},           {"epilogues", epilogues},
      {"own finish", own_finish}, {"repeated", repeated},       {"pool", pool},
      {"graph", graph},           {"beside", beside},           {"few units", few_units},
      {"equal", equal},           {"two streams", two_streams}, {"teams", teams},
      {"shards", shards}};
  const pe_list list = PE_LIST("", tests);
  return pe_run("fused", &list, 1);
}
