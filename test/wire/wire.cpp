// SPDX-License-Identifier: MIT
// Collectives whose elements travel as fewer bits: errors against a model in double and the bound
// of each format, and the same bits on all PEs, by every way and in every run.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unistd.h>
#include <vector>

#include <hip/hip_runtime.h>

#include "../../device/number.hpp"
#include "../objects.hpp"
#include "../stream.hpp"

namespace {

using shmem::Bfloat16, shmem::Half, shmem::from_float, shmem::to_float;
using std::string;

constexpr shmemx_wire_format_t formats[] = {SHMEMX_WIRE_F8, SHMEMX_WIRE_INT8, SHMEMX_WIRE_INT6,
                                            SHMEMX_WIRE_INT4};
constexpr double largest_code[] = {448, 127, 31, 7};
constexpr int ways[] = {-1, 1, 3, 0};
enum Op { sum, scatter, gather, round_trip, ops };
const char *const op_names[] = {"sum_reduce", "sum_reduce_scatter", "fcollect", "round"};

uint16_t bits_of(shmemx_type_t t, float v) {
  return t == SHMEMX_F16 ? from_float<Half>(v).bits : from_float<Bfloat16>(v).bits;
}
double number(shmemx_type_t t, uint16_t bits) {
  return double(t == SHMEMX_F16 ? to_float(Half{bits}) : to_float(Bfloat16{bits}));
}
// The error of rounding x to the type.
double rounding(shmemx_type_t t, double x) {
  return t == SHMEMX_F16 ? std::fabs(x) * 0x1p-11 + 0x1p-25 : std::fabs(x) * 0x1p-8;
}
// Element i of a PE, of a content: 32 of them are of about one size, or 0.
uint16_t value(shmemx_type_t t, int pe, size_t content, size_t i) {
  uint32_t x = uint32_t(content * 2654435761u + i * 40503u) + uint32_t(pe * 977 + 5);
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  const uint32_t block = uint32_t(i / 32 + content) * 2246822519u >> 16;
  if (block % 7 == 3) return 0;
  return bits_of(t, std::ldexp(float(int32_t(x ^ x >> 16)), int(block % 12) - 36));
}

// The most that an element x of a block loses on its way. The scale is the largest element over the
// largest code, rounded up to 8 bits (1 + 2^-7), and at least 2^-100. An integer code is off by a
// half, and by 2 roundings of x / scale. E4M3 is off by a 16th of x, or by 2^-10 near 0.
double bound(shmemx_wire_format_t format, double x, double largest) {
  const double most = largest_code[format],
               scale = std::max(largest / most * (1 + 0x1p-7), 0x1p-100);
  return format == SHMEMX_WIRE_F8 ? std::fabs(x) * (0x1p-4 + 0x1p-20) + scale * 0x1p-10
                                  : scale * (0.5 + most * 0x1p-22);
}

struct Case {
  Op op = sum;
  shmemx_type_t type = SHMEMX_BF16;
  shmemx_wire_format_t format = SHMEMX_WIRE_INT8;
  size_t n = 100; // as the call has it
  int chunks = 0;
  bool in_place = false;
  size_t dest_off = 0, source_off = 0; // elements after a multiple of 16 bytes
  size_t content = 0;
};
string name_of(const Case &k) {
  return string(op_names[k.op]) + ", format " + std::to_string(k.format) + ", type " +
         std::to_string(k.type) + ", n " + std::to_string(k.n) + ", chunks " +
         std::to_string(k.chunks);
}

shmemx_wire_t make_wire(const struct pe_team &team, const Case &k, size_t elements) {
  shmemx_wire_shape_t shape = SHMEMX_WIRE_SHAPE_INITIALIZER;
  shape.type = k.type, shape.format = k.format, shape.chunks = k.chunks, shape.elements = elements;
  shmemx_wire_t wire;
  CHECK(shmemx_wire_create(team.me < 0 ? SHMEM_TEAM_INVALID : team.team, &shape, &wire) == 0,
        "create");
  return wire;
}
void call(shmemx_wire_t wire, Op op, void *dest, const void *source, size_t n) {
  const auto f = op == sum       ? shmemx_wire_sum_reduce_on_stream
                 : op == scatter ? shmemx_wire_sum_reduce_scatter_on_stream
                 : op == gather  ? shmemx_wire_fcollect_on_stream
                                 : shmemx_wire_round_on_stream;
  f(wire, dest, source, n, on_stream());
}

// A call that is tried, with its memory.
struct Job {
  static constexpr size_t margin = 32; // elements before and behind
  static constexpr uint16_t filler = 0x5a5a;
  Case k;
  struct pe_team team;
  size_t source_n, dest_n;
  uint16_t *memory[2], *source, *dest;
  shmemx_wire_t wire;

  Job(const Case &what, const struct pe_team &t) : k(what), team(t) {
    const auto members = size_t(team.n);
    source_n = k.n * (k.op == scatter ? members : 1);
    dest_n = k.n * (k.op == gather ? members : 1);
    const auto place = [&](int i, size_t n, size_t off) {
      memory[i] = static_cast<uint16_t *>(object_alloc(2 * (n + 2 * margin)));
      CHECK(memory[i], "no room for %zu elements", n);
      return memory[i] + margin / 2 + off;
    };
    dest = place(0, std::max(source_n, dest_n), k.dest_off);
    source = place(1, source_n, k.source_off);
    const size_t block = k.n * size_t(std::max(team.me, 0));
    if (k.in_place && k.op == scatter) dest = source + block;
    if (k.in_place && k.op != scatter) source = k.op == gather ? dest + block : dest;
    wire = make_wire(team, k, source_n);
    fill(k.content);
  }
  ~Job() {
    shmemx_wire_destroy(wire);
    object_free(memory[0]);
    object_free(memory[1]);
  }
  Job(const Job &) = delete;

  std::vector<uint16_t> vector(int pe, size_t content) const {
    std::vector<uint16_t> v(source_n);
    for (size_t i = 0; i < source_n; i++) v[i] = value(k.type, pe, content, i);
    return v;
  }
  void fill(size_t content) {
    k.content = content;
    const std::vector<uint16_t> none(dest_n + 2 * margin, filler);
    if (!k.in_place) to_device(memory[0], none.data(), 2 * none.size());
    const auto v = vector(me, content);
    if (source_n) to_device(source, v.data(), 2 * source_n);
  }
  void start() const {
    if (team.me >= 0) call(wire, k.op, dest, source, k.n);
  }
  std::vector<uint16_t> result() const {
    std::vector<uint16_t> got(dest_n);
    if (dest_n) to_host(got.data(), dest, 2 * dest_n);
    return got;
  }

  // The sums of the members' elements of a block of 32, and the largest error.
  struct Sums {
    double exact[32] = {}, error[32] = {};
  };
  // owner: adds its own elements; -1: none does.
  Sums add_up(const std::vector<std::vector<uint16_t>> &v, size_t from, size_t n, int owner) const {
    Sums s;
    for (int m = 0; m < int(v.size()); m++) {
      double largest = 0;
      const auto at = [&](size_t i) { return number(k.type, v[size_t(m)][from + i]); };
      for (size_t i = 0; i < n; i++) largest = std::max(largest, std::fabs(at(i)));
      for (size_t i = 0; i < n; i++) {
        const double lost = m == owner ? 0 : bound(k.format, at(i), largest);
        s.exact[i] += at(i);
        s.error[i] += lost + 0x1p-23 * (std::fabs(at(i)) + lost) * double(v.size());
      }
    }
    return s;
  }
  // The sums, as they are when they have travelled, too.
  void travel(Sums &s, size_t n) const {
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = std::max(largest, std::fabs(s.exact[i]) + s.error[i]);
    for (size_t i = 0; i < n; i++)
      s.error[i] += bound(k.format, std::fabs(s.exact[i]) + s.error[i], largest);
  }
  // Returns the largest error over its bound.
  double check() const {
    if (team.me < 0 || !k.n) return 0;
    const string what = name_of(k);
    std::vector<std::vector<uint16_t>> all;
    for (int i = 0; i < team.n; i++) all.push_back(vector(team.pe[i], k.content));
    const std::vector<uint16_t> got = result();
    const size_t tiles = (k.n + 1023) / 1024, own = (tiles + size_t(team.n) - 1) / size_t(team.n);
    double most = 0;
    for (size_t at = 0; at < dest_n;) {
      const size_t in = at % k.n, n = std::min(size_t(32), k.n - in);
      Sums s;
      if (k.op == sum || k.op == scatter) {
        const size_t from = k.op == scatter ? size_t(team.me) * k.n + at : at;
        s = add_up(all, from, n, k.op == scatter ? team.me : int(at / 1024 / own));
        if (k.op == sum) travel(s, n);
      } else {
        s = add_up({all[k.op == gather ? at / k.n : size_t(team.me)]}, in, n, -1);
      }
      for (size_t i = 0; i < n; i++) {
        const double v = number(k.type, got[at + i]), off = std::fabs(v - s.exact[i]),
                     may = s.error[i] + rounding(k.type, std::fabs(s.exact[i]) + s.error[i]);
        CHECK(off <= may, "%s, team %s: element %zu is %g, want %g, off by %g, may be %g",
              what.c_str(), team.name, at + i, v, s.exact[i], off, may);
        most = std::max(most, off / may);
      }
      at += n;
    }
    if (!k.in_place) {
      uint16_t beside[2];
      to_host(&beside[0], dest - 1, 2);
      to_host(&beside[1], dest + dest_n, 2);
      CHECK(beside[0] == filler && beside[1] == filler, "%s: beside dest: 0x%x 0x%x", what.c_str(),
            beside[0], beside[1]);
    }
    if (k.op == sum || k.op == gather) same_everywhere(got, what);
    return most;
  }
  // All members have the same bits.
  void same_everywhere(const std::vector<uint16_t> &got, const string &what) const {
    static uint64_t mine, theirs[PE_MAX];
    mine = 14695981039346656037u;
    for (uint16_t x : got) mine = (mine ^ x) * 1099511628211u;
    shmem_uint64_fcollect(team.team, theirs, &mine, 1);
    for (int i = 0; i < team.n; i++)
      CHECK(theirs[i] == mine, "%s, team %s: PE %d has other bits than PE %d", what.c_str(),
            team.name, team.pe[i], me);
  }
};

struct pe_team world() {
  struct pe_team t = {"world", SHMEM_TEAM_WORLD, npes, me, {}};
  for (int i = 0; i < npes; i++) t.pe[i] = i;
  return t;
}
double run(const Case &k, const struct pe_team &team) {
  Job job(k, team);
  shmem_barrier_all();
  job.start();
  HIP(hipStreamSynchronize(stream));
  const double most = job.check();
  shmem_barrier_all();
  return most;
}

// Every operation, format, type and way; numbers around a block, a tile and the segments.
void every_way(void) {
  const size_t n = size_t(npes),
               sizes[] = {0, 1, 31, 32, 33, 1000, 1024, 1024 * n + 5, 3000, 8 * 1024 * n + 40};
  size_t turn = 0;
  for (int op = 0; op < ops; op++)
    for (auto format : formats)
      for (auto type : {SHMEMX_F16, SHMEMX_BF16})
        for (int chunks : ways)
          for (int i = 0; i < 3; i++, turn++) {
            Case k;
            k.op = Op(op), k.format = format, k.type = type, k.chunks = chunks;
            k.n = sizes[turn % COUNT(sizes)], k.content = turn;
            if (op == scatter || op == gather) k.n = std::min(k.n, size_t(3000));
            k.in_place = turn % 4 == 1;
            k.dest_off = turn % 5 == 2 ? 3 : turn % 5 == 3 ? 8 : 0;
            k.source_off = turn % 7 == 2 ? 1 : 0;
            run(k, world());
          }
}
// The largest error is close to its bound. With more bits than a format has, the error would be
// much smaller.
void errors(void) {
  for (auto format : formats)
    for (int op : {sum, round_trip}) {
      Case k;
      k.op = Op(op), k.format = format, k.type = SHMEMX_F16, k.n = 4096;
      const double most = run(k, world());
      const double least = op == round_trip ? 0.9 : npes == 1 ? 0.9 : 0.1;
      CHECK(most >= least, "%s: at most %g of the bound is lost", name_of(k).c_str(), most);
    }
}
// The same bits by every way and grid, in place or not, aligned or not.
void same_bits(void) {
  for (int op = 0; op < ops; op++)
    for (auto format : formats) {
      std::vector<uint16_t> first;
      for (int chunks : ways)
        for (int i = 0; i < 3; i++) {
          Case k;
          k.op = Op(op), k.format = format, k.chunks = chunks, k.n = 2200 + 1024 * size_t(npes);
          k.in_place = i == 1, k.dest_off = k.source_off = i == 2 ? 1 : 0;
          Job job(k, world());
          shmem_barrier_all();
          job.start();
          HIP(hipStreamSynchronize(stream));
          const auto got = job.result();
          if (first.empty()) first = got;
          CHECK(got == first, "%s: other bits by another way", name_of(k).c_str());
          shmem_barrier_all();
        }
    }
}
// A whole block is NaN if one of its elements is NaN or infinite; largest and smallest numbers.
void special(void) {
  for (auto format : formats)
    for (auto type : {SHMEMX_F16, SHMEMX_BF16}) {
      Case k;
      k.op = round_trip, k.format = format, k.type = type, k.n = 200;
      Job job(k, world());
      auto v = job.vector(me, 0);
      for (size_t i = 0; i < 64; i++) v[i] = bits_of(type, 1);
      v[5] = bits_of(type, std::nanf("")), v[40] = bits_of(type, -INFINITY);
      const float huge = type == SHMEMX_F16 ? 64000 : 0x1.fp126f;
      for (size_t i = 64; i < 96; i++) v[i] = bits_of(type, i % 2 ? huge : -huge);
      for (size_t i = 96; i < 128; i++) v[i] = uint16_t(i % 3 + (i & 1) * 0x8000); // denormal
      for (size_t i = 128; i < 160; i++) v[i] = i % 2 * 0x8000;                    // zeros
      to_device(job.source, v.data(), 2 * v.size());
      job.start();
      HIP(hipStreamSynchronize(stream));
      const auto got = job.result();
      const string what = name_of(k);
      for (size_t i = 0; i < 160; i++) {
        const double was = number(type, v[i]), is = number(type, got[i]);
        if (i < 64) CHECK(std::isnan(is), "%s: element %zu is %g", what.c_str(), i, is);
        const double largest = i < 96 ? double(huge) : i < 128 ? number(type, 2) : 0;
        const double may = bound(format, was, largest) + rounding(type, was);
        if (i >= 64)
          CHECK(std::fabs(is - was) <= may, "%s: element %zu is %g, was %g", what.c_str(), i, is,
                was);
        if (i >= 128) CHECK(is == 0, "%s: a zero is %g", what.c_str(), is);
      }
      shmem_barrier_all();
    }
}
void every_team(void) {
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  for (size_t t = 0; t < n; t++)
    for (int op = 0; op < ops; op++) {
      Case k;
      k.op = Op(op), k.n = 1500 + t, k.format = formats[t % 4], k.chunks = ways[(t + op) % 4];
      run(k, teams[t]);
    }
}

// Calls one after the other on one wire with no barrier between, each with its own numbers, one PE
// late.
void repeated(void) {
  for (int chunks : ways) {
    constexpr size_t calls = 12, most = 6000;
    Case k;
    k.chunks = chunks, k.n = most;
    shmemx_wire_t wire = make_wire(world(), k, most * size_t(npes));
    std::vector<Job *> jobs;
    for (size_t i = 0; i < calls; i++) {
      k.op = Op(i % 3), k.n = i % 5 == 3 ? 40 : most - 700 * (i % 4), k.content = 10 * i;
      k.in_place = i % 4 == 1;
      jobs.push_back(new Job(k, world()));
    }
    shmem_barrier_all();
    if (me == npes - 1) usleep(50000);
    for (const Job *job : jobs) call(wire, job->k.op, job->dest, job->source, job->k.n);
    HIP(hipStreamSynchronize(stream));
    for (const Job *job : jobs) job->check();
    shmem_barrier_all();
    while (!jobs.empty()) delete jobs.back(), jobs.pop_back();
    shmemx_wire_destroy(wire);
  }
}

// A call has the same bits whatever calls before it have left in the wire's memory.
void after_others(void) {
  for (auto format : formats)
    for (int chunks : ways)
      for (Op op : {sum, scatter, gather}) {
        Case k;
        k.op = op, k.format = format, k.chunks = chunks, k.n = 1300; // the last 4 blocks have 20
        Job job(k, world());
        k.n = 2500, k.content = 7;
        Job other(k, world());
        shmem_barrier_all();
        std::vector<uint16_t> first;
        for (size_t i = 0; i < 3; i++) {
          call(other.wire, op, job.dest, job.source, job.k.n);
          HIP(hipStreamSynchronize(stream));
          const auto got = job.result();
          if (!i) first = got;
          CHECK(got == first, "%s: other bits after another call", name_of(job.k).c_str());
          other.fill(7 + i);
          shmem_barrier_all();
          other.start();
        }
        HIP(hipStreamSynchronize(stream));
        shmem_barrier_all();
      }
}

// A graph with each operation, replayed with changing sources and nothing between.
void graph(void) {
  constexpr size_t versions = 5;
  const auto rounds = size_t(pe_rounds(100));
  for (int chunks : {-1, 3}) {
    std::vector<Job *> jobs;
    for (Op op : {sum, scatter, gather}) {
      Case k;
      k.op = op, k.chunks = chunks, k.n = 1300;
      jobs.push_back(new Job(k, world()));
    }
    const hipGraphExec_t exec = captured([&] {
      for (const Job *job : jobs) job->start();
    });
    std::vector<uint16_t *> inputs, history;
    for (const Job *job : jobs) {
      uint16_t *in, *out;
      HIP(hipMalloc(&in, versions * 2 * job->source_n));
      HIP(hipMalloc(&out, rounds * 2 * job->dest_n));
      for (size_t v = 0; v < versions; v++)
        to_device(in + v * job->source_n, job->vector(me, 100 * v).data(), 2 * job->source_n);
      inputs.push_back(in), history.push_back(out);
    }
    shmem_barrier_all();
    for (size_t i = 0; i < rounds; i++) {
      for (size_t j = 0; j < jobs.size(); j++)
        HIP(hipMemcpyAsync(jobs[j]->source, inputs[j] + i % versions * jobs[j]->source_n,
                           2 * jobs[j]->source_n, hipMemcpyDeviceToDevice, stream));
      HIP(hipGraphLaunch(exec, stream));
      for (size_t j = 0; j < jobs.size(); j++)
        HIP(hipMemcpyAsync(history[j] + i * jobs[j]->dest_n, jobs[j]->dest, 2 * jobs[j]->dest_n,
                           hipMemcpyDeviceToDevice, stream));
    }
    HIP(hipStreamSynchronize(stream));
    for (size_t j = 0; j < jobs.size(); j++) {
      Job &job = *jobs[j];
      const size_t n = job.dest_n;
      std::vector<uint16_t> all(rounds * n);
      to_host(all.data(), history[j], 2 * all.size());
      for (size_t v = 0; v < std::min(versions, rounds); v++) {
        to_device(job.dest, &all[v * n], 2 * n);
        job.k.content = 100 * v;
        job.check();
      }
      for (size_t i = 0; i < rounds; i++) {
        const uint16_t *const got = &all[i * n], *const want = &all[i % versions * n];
        const auto at = size_t(std::mismatch(got, got + n, want).first - got);
        CHECK(at == n, "%s: replay %zu, element %zu: bits 0x%x, not 0x%x as in replay %zu",
              name_of(job.k).c_str(), i, at, got[at], want[at], i % versions);
      }
    }
    HIP(hipGraphExecDestroy(exec));
    for (uint16_t *p : inputs) HIP(hipFree(p));
    for (uint16_t *p : history) HIP(hipFree(p));
    shmem_barrier_all();
    while (!jobs.empty()) delete jobs.back(), jobs.pop_back();
  }
}

// One wrong call, whose line mistakes.py looks at.
int mistake(const char *what) {
  const string name = what;
  const auto is = [&](const char *n) { return name == n; };
  shmemx_wire_shape_t shape = SHMEMX_WIRE_SHAPE_INITIALIZER;
  shape.elements = 100;
  if (is("size")) shape.size = 8;
  if (is("type")) shape.type = SHMEMX_F32;
  if (is("format")) shape.format = shmemx_wire_format_t(4);
  if (is("chunks")) shape.chunks = 2;
  if (is("elements")) shape.elements = (size_t(1) << 30) + 1;
  if (is("differs")) shape.format = formats[me % 2];
  if (is("room")) shape.elements = size_t(1) << 30;
  shmemx_wire_t wire;
  shmemx_wire_create(is("no part") ? SHMEM_TEAM_INVALID : SHMEM_TEAM_WORLD,
                     is("null") ? nullptr : &shape, &wire);
  auto *const p = static_cast<char *>(shmem_malloc_with_hints(4096, SHMEMX_MALLOC_DEVICE));
  if (is("n")) call(wire, sum, p, p, 101);
  if (is("block")) call(wire, scatter, p, p + 2048, 51);
  if (is("nelems")) call(wire, gather, p, p + 2048, SIZE_MAX);
  if (is("dest")) call(wire, sum, nullptr, p, 1);
  if (is("source")) call(wire, round_trip, p, nullptr, 1);
  if (is("aligned")) call(wire, sum, p, p + 101, 1);
  if (is("overlap")) call(wire, sum, p, p + 2, 2);
  if (is("shifted")) call(wire, scatter, p + (me ? 0 : 20), p, 10);
  if (is("nil")) call(nullptr, sum, p, p, 1);
  if (is("late") && me == 1) sleep(30); // longer than SHMEM_WAIT_LIMIT
  call(wire, sum, p, p, 100);
  HIP(hipStreamSynchronize(stream));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  shmem_init();
  me = shmem_my_pe(), npes = shmem_n_pes();
  stream = make_stream();
  if (argc > 1) return mistake(argv[1]);
  struct pe_test tests[] = {{"every_way", every_way},       {"errors", errors},
                            {"same_bits", same_bits},       {"special", special},
                            {"every_team", every_team},     {"repeated", repeated},
                            {"after_others", after_others}, {"graph", graph}};
  struct pe_list lists[] = {PE_LIST("", tests)};
  if (pe_run_tests("wire", lists, COUNT(lists))) shmem_global_exit(1);
  (void)hipStreamDestroy(stream);
  shmem_finalize();
  return 0;
}
