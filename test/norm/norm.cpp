// SPDX-License-Identifier: MIT
// All-reduce with RMSNorm: sums bit for bit as the loop over the members, norms against float64,
// and the same bits by every way, whatever the rows beside.
#include <map>

#include "finish.hpp"
#include "job.hpp"
extern "C" {
#include <unistd.h>
void numbers(void);
}

namespace {

struct pe_team world() {
  struct pe_team t = {"world", SHMEM_TEAM_WORLD, npes, me, {}};
  for (int i = 0; i < npes; i++) t.pe[i] = i;
  return t;
}
void run(const char *what, const Case &k, const struct pe_team &team) {
  Job job(k, team);
  shmem_barrier_all();
  job.start();
  HIP(hipStreamSynchronize(stream));
  job.check(what);
  shmem_barrier_all();
}
void built_in() {
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
}

// Every way with every set of outputs and each type; numbers of rows around the number of PEs.
void every_way(void) {
  const size_t n = size_t(npes), counts[] = {1, n, n + 1, 2 * n + 1, 0, 3};
  size_t turn = 0;
  for (const char *way : ways)
    for (auto type : {SHMEMX_F32, SHMEMX_F16, SHMEMX_BF16})
      for (unsigned set = 0; set < 16; set++, turn++) {
        Case k;
        k.type = type, k.rows = counts[turn % 6];
        k.columns = turn % 5 == 0 ? 264 : turn % 5 == 1 ? 8 : 128;
        k.out = set & 1, k.sum = set & 2, k.quantized = set & 4, k.residual = set & 8;
        k.small = turn & 1 ? SHMEMX_F8 : SHMEMX_F8_FNUZ, k.group = turn & 2 ? 128 : 0;
        k.in_place = k.sum && k.residual && turn % 3 == 0;
        k.scattered = (k.sum || k.residual) && turn % 4 == 3;
        k.gap = turn % 3 == 1 ? 16 : 0, k.weight = turn % 7 != 0, k.offset = turn % 2 ? 1 : 0;
        k.first = turn;
        choose(way, 1 + unsigned(turn % 2));
        run(way, k, world());
      }
  built_in();
}
// More workgroups than there are channels: the members meet in kernels of their own.
void many_rows(void) {
  if (npes > 4) return;
  for (const char *way : {"direct", "phases"})
    for (bool scattered : {false, true}) {
      Case k;
      k.type = SHMEMX_F32, k.rows = 66 * size_t(npes) + 1, k.columns = 264;
      k.scattered = scattered;
      choose(way, 66);
      run(way, k, world());
      run(way, k, world());
    }
  built_in();
}
// Rows that take one to eight packs of each thread, and those of messages longer than a round.
void long_rows(void) {
  for (const char *way : ways)
    for (size_t columns : {520, 5120, 8456, 16384, 32768}) {
      if (columns > 8456 && npes > 4) continue;
      Case k;
      k.columns = columns, k.rows = 2, k.quantized = true, k.group = columns == 5120 ? 128 : 0;
      choose(way, 2);
      run(way, k, world());
      k.type = SHMEMX_F32, k.group = 128;
      if (columns <= 16384 && npes <= 4) run(way, k, world());
    }
  built_in();
}
void every_team(void) {
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  for (size_t t = 0; t < n; t++) {
    Case k;
    k.rows = 2 + t % 4, k.quantized = t & 1, k.scattered = t % 3 == 2;
    choose(ways[(t + t / 4) % COUNT(ways)], 2);
    run("teams", k, teams[t]);
  }
  built_in();
}
void built_in_table(void) {
  for (size_t rows : {1, 2, 5, 40, 130}) {
    Case k;
    k.rows = rows, k.columns = 264;
    run("the built-in table", k, world());
  }
}

// The results of a content are the same bytes wherever it lies and whatever is beside.
void same_bits(void) {
  for (auto type : {SHMEMX_BF16, SHMEMX_F32}) {
    std::map<size_t, string> seen;
    for (const char *way : ways)
      for (size_t rows : {1, 2, 7, 40}) // by lines a workgroup has several of 40
        for (size_t first : {0, 3, 5})
          for (bool scattered : {false, true}) {
            Case k;
            k.type = type, k.rows = rows, k.columns = 776, k.first = first, k.quantized = true;
            k.group = 128, k.scattered = scattered;
            choose(way, 1 + unsigned(rows % 2));
            Job job(k, world());
            shmem_barrier_all();
            job.start();
            HIP(hipStreamSynchronize(stream));
            for (size_t r = 0; r < rows; r++) {
              // Of rows that others own the sum is not here.
              const string row = job.row(r).substr(scattered ? job.sum.row_bytes : 0);
              const string &want = seen.emplace(first + r, job.row(r)).first->second;
              CHECK(row == want.substr(want.size() - row.size()),
                    "%s: row %zu of %zu differs from what another call had for it", way, r, rows);
            }
            shmem_barrier_all();
          }
  }
  built_in();
}

// Calls one after the other with no barrier between, each with its own numbers, one PE late.
void repeated(void) {
  for (const char *way : ways) {
    choose(way, 2);
    std::vector<Job *> jobs;
    for (size_t i = 0; i < 12; i++) {
      Case k;
      k.rows = 1 + i % 5, k.columns = 72, k.first = 10 * i, k.quantized = i & 1;
      k.in_place = i % 3 == 0, k.scattered = i % 5 == 4;
      jobs.push_back(new Job(k, world()));
    }
    shmem_barrier_all();
    if (me == npes - 1) usleep(50000);
    for (const Job *job : jobs) job->start();
    HIP(hipStreamSynchronize(stream));
    for (const Job *job : jobs) job->check(way);
    shmem_barrier_all();
    while (!jobs.empty()) delete jobs.back(), jobs.pop_back();
  }
  built_in();
}

// A graph with a call of each way, replayed with changing inputs and nothing between: a PE changes
// its input when its call is over, so all members have read it.
void graph(void) {
  constexpr size_t versions = 5;
  const auto rounds = size_t(pe_rounds(1000));
  Case k;
  k.rows = 3, k.columns = 64;
  Job job(k, world());
  const size_t bytes = job.input.bytes, results = job.out.bytes;
  char *inputs, *history;
  HIP(hipMalloc(&inputs, versions * bytes));
  HIP(hipMalloc(&history, 3 * rounds * results));
  for (size_t v = 0; v < versions; v++) {
    const auto in = job.matrix(job.input, me, 100 * v);
    to_device(inputs + v * bytes, in.data(), bytes);
  }
  shmem_barrier_all();
  hipGraphExec_t execs[3];
  for (int w = 0; w < 3; w++) {
    choose(ways[w], 2);
    execs[w] = captured([&] { job.start(); });
  }
  for (size_t i = 0; i < 3 * rounds; i++) {
    HIP(hipMemcpyAsync(job.input.at, inputs + i % versions * bytes, bytes, hipMemcpyDeviceToDevice,
                       stream));
    HIP(hipGraphLaunch(execs[i / 2 % 3], stream));
    HIP(hipMemcpyAsync(history + i * results, job.out.at, results, hipMemcpyDeviceToDevice,
                       stream));
  }
  HIP(hipStreamSynchronize(stream));
  std::vector<char> all(3 * rounds * results);
  to_host(all.data(), history, all.size());
  // The residual stays that of content 0, so the first round of a version says what others have.
  for (size_t i = versions; i < 3 * rounds; i++)
    CHECK(!memcmp(&all[i * results], &all[i % versions * results], results),
          "replay %zu has not what replay %zu has", i, i % versions);
  for (size_t v = 1; v < versions; v++)
    CHECK(memcmp(&all[0], &all[v * results], results), "version %zu is that of version 0", v);
  HIP(hipMemcpyAsync(job.input.at, inputs, bytes, hipMemcpyDeviceToDevice, stream));
  HIP(hipGraphLaunch(execs[0], stream));
  HIP(hipStreamSynchronize(stream));
  job.check("graph");
  for (hipGraphExec_t exec : execs) HIP(hipGraphExecDestroy(exec));
  HIP(hipFree(history));
  HIP(hipFree(inputs));
  shmem_barrier_all();
  built_in();
}

// By the template, with a finish that knows the row's number.
void own_finish(void) {
  const auto one = [](const char *way, const Case &k) {
    choose(way, 2);
    Job job(k, world());
    shmem_barrier_all();
    layer_norm(SHMEM_TEAM_WORLD, job.call, 0.125f, stream);
    HIP(hipStreamSynchronize(stream));
    std::vector<char> y(job.out.bytes);
    to_host(y.data(), job.out.at, y.size());
    for (size_t r = 0; r < k.rows; r++) {
      double mean = 0, squares = 0;
      for (size_t c = 0; c < k.columns; c++) mean += double(job.sum_of(r, c)) / double(k.columns);
      for (size_t c = 0; c < k.columns; c++)
        squares += std::pow(double(job.sum_of(r, c)) - mean, 2) / double(k.columns);
      for (size_t c = 0; c < k.columns; c++) {
        const double want =
            (double(job.sum_of(r, c)) - mean) / std::sqrt(squares + 1e-5) + double(r) * 0.125;
        const double got = double(get(k.type, y.data() + r * job.out.pitch, c));
        CHECK(std::fabs(got - want) <=
                  (k.type == SHMEMX_F32 ? 1e-5 : 0x1p-7) * (1 + std::fabs(want)),
              "%s: row %zu, column %zu: %g, want %g", way, r, c, got, want);
      }
    }
    shmem_barrier_all();
  };
  for (const char *way : ways) {
    Case k;
    k.rows = 4, k.columns = 264;
    one(way, k);
    k.type = SHMEMX_F32, k.sum = false;
    one(way, k);
  }
  built_in();
}

// One wrong call, whose line mistakes.py looks at.
int mistake(const char *what) {
  Case k;
  k.rows = 2, k.columns = 128, k.quantized = true;
  Job job(k, world());
  shmemx_norm_t &c = job.call;
  const string name = what;
  const auto is = [&](const char *n) { return name == n; };
  if (is("size")) c.size = 8;
  if (is("type")) c.type = SHMEMX_F8;
  if (is("quantized_type")) c.quantized_type = SHMEMX_BF16;
  if (is("group")) c.group = 64;
  if (is("scales")) c.scales = nullptr;
  if (is("columns")) c.columns = 127;
  if (is("long")) c.columns = 32776;
  if (is("eps")) c.eps = -1;
  if (is("scattered")) c.residual_scattered = 1, c.residual = nullptr, c.residual_out = nullptr;
  if (is("stride")) c.out_stride = 120;
  if (is("ragged")) c.quantized_stride = 130;
  if (is("input")) c.input = nullptr;
  if (is("misaligned")) c.input = job.input.at + 8;
  if (is("heap")) c.out = job.weight;
  if (is("end")) c.rows = SIZE_MAX / 3;
  if (is("overlap")) c.out = job.input.at;
  if (is("shifted")) c.residual_out = job.residual.at + 16;
  if (is("version")) other_version(SHMEM_TEAM_WORLD, c, stream);
  if (is("team")) shmemx_all_reduce_norm_on_stream(SHMEM_TEAM_INVALID, &c, on_stream());
  if (is("null")) shmemx_all_reduce_norm_on_stream(SHMEM_TEAM_WORLD, nullptr, on_stream());
  if (is("late") && shmem_my_pe() == 1) sleep(30); // longer than SHMEM_WAIT_LIMIT
  shmemx_all_reduce_norm_on_stream(SHMEM_TEAM_WORLD, &c, on_stream());
  HIP(hipStreamSynchronize(stream));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  shmem_init();
  me = shmem_my_pe(), npes = shmem_n_pes();
  stream = make_stream();
  if (argc > 1) return mistake(argv[1]);
  struct pe_test tests[] = {{"numbers", numbers},
                            {"every_way", every_way},
                            {"many_rows", many_rows},
                            {"long_rows", long_rows},
                            {"every_team", every_team},
                            {"same_bits", same_bits},
                            {"built_in_table", built_in_table},
                            {"repeated", repeated},
                            {"graph", graph},
                            {"own_finish", own_finish}};
  struct pe_list lists[] = {PE_LIST("", tests)};
  if (pe_run_tests("norm", lists, COUNT(lists))) shmem_global_exit(1);
  (void)hipStreamDestroy(stream);
  shmem_finalize();
  return 0;
}
