// SPDX-License-Identifier: MIT
// shmem_tune: measures the fastest algorithm of each collective, on a stream or with --net between
// nodes, on the PEs that it is started with, and writes the table for SHMEM_TUNE_FILE. It uses the
// public API alone. A candidate whose result is wrong ends it.
#include "../device/runtime.hpp"
#include <hip/hip_runtime.h>
#include <shmemx.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <string>
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

const char help[] =
    "usage: oshrun -n N shmem_tune [--net] [-o file] [-l bytes] [-c calls]\n"
    "Writes the fastest algorithms of collectives on streams for N PEs on this machine's GPUs.\n"
    "  --net     of collectives between the nodes that the N PEs are on\n"
    "  -o file   the file for the table; default: stdout\n"
    "  -l bytes  the largest message; default: 64m, with --net 4m. The device heap\n"
    "            (SHMEM_DEVICE_SIZE), with --net the symmetric heap, must hold two\n"
    "  -c calls  the calls in a row of one measurement; default: 50\n"
    "Then: SHMEM_TUNE_FILE=file oshrun ...; files for other N, and of --net, may be put together "
    "into one, small N first.\n";

enum Kind { reduce, reduce_scatter, scan, broadcast, fcollect, alltoall, norm, kinds };
const char *const names[kinds] = {"reduce",   "reduce_scatter", "scan", "broadcast",
                                  "fcollect", "alltoall",       "norm"};
constexpr unsigned most_threads = shmem::runtime::hardware ? 512 : 64; // fibers cost
constexpr size_t most_columns = 4096;                                  // of a norm's rows, 16 KiB

int me, n, nodes;
bool net;
hipStream_t stream;
hipEvent_t begin, end;
float *source, *dest;
size_t largest;
int calls = 50;

#define CALL(name, ...)                                                                            \
  net ? void(shmem_float_##name(SHMEM_TEAM_WORLD, dest, source, __VA_ARGS__))                      \
      : void(shmemx_float_##name##_on_stream(SHMEM_TEAM_WORLD, dest, source, __VA_ARGS__, stream))
void call(int kind, size_t count, int root) {
  switch (kind) {
  case reduce:
    CALL(sum_reduce, count);
    break;
  case reduce_scatter:
    shmemx_float_sum_reduce_scatter_on_stream(SHMEM_TEAM_WORLD, dest, source, count, stream);
    break;
  case scan:
    CALL(sum_inscan, count);
    break;
  case broadcast:
    CALL(broadcast, count, root);
    break;
  case fcollect:
    CALL(fcollect, count);
    break;
  case alltoall:
    CALL(alltoall, count);
    break;
  case norm: {
    shmemx_norm_t c = SHMEMX_NORM_INITIALIZER;
    c.type = SHMEMX_F32, c.input = source, c.residual_out = dest; // the sums
    c.columns = std::min(count, most_columns), c.rows = count / c.columns;
    shmemx_all_reduce_norm_on_stream(SHMEM_TEAM_WORLD, &c,
                                     reinterpret_cast<shmemx_stream_t>(stream));
    break;
  }
  }
}
// The value of source, and so of dest.
float value(int pe, size_t i) {
  return float((i * 7 + size_t(pe) * 3) % 32);
}
float expected(int kind, size_t count, size_t i) {
  float sum = 0;
  switch (kind) {
  case broadcast:
    return value(n - 1, i);
  case fcollect:
    return value(int(i / count), i % count);
  case alltoall:
    return value(int(i / count), size_t(me) * count + i % count);
  default:
    for (int pe = 0; pe < (kind == scan ? me + 1 : n); pe++)
      sum += value(pe, kind == reduce_scatter ? size_t(me) * count + i : i);
    return sum;
  }
}
// The first and last elements, and some between.
void check(int kind, size_t count, const char *row) {
  const size_t all = kind == fcollect || kind == alltoall ? count * size_t(n) : count;
  std::vector<float> got(all);
  if (net) {
    memset(dest, 0xff, all * 4);
    shmem_barrier_all();
    call(kind, count, n - 1);
    memcpy(got.data(), dest, all * 4);
  } else {
    HIP(hipMemset(dest, 0xff, all * 4));
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
    call(kind, count, n - 1);
    HIP(hipStreamSynchronize(stream));
    HIP(hipMemcpy(got.data(), dest, all * 4, hipMemcpyDeviceToHost));
  }
  for (size_t i = 0; i < all; i += i < 1000 || i + 1000 > all ? 1 : 61)
    if (got[i] != expected(kind, count, i)) {
      fprintf(stderr, "error: PE %d: %s by \"%s\": element %zu of %zu is %g, not %g\n", me,
              names[kind], row, i, all, double(got[i]), double(expected(kind, count, i)));
      shmem_global_exit(1);
    }
  shmem_barrier_all();
}
double time_on_stream(int kind, size_t count, int row) {
  shmemx_barrier_all_on_stream(stream);
  HIP(hipEventRecord(begin, stream));
  for (int k = 0; k < row; k++) call(kind, count, n - 1);
  HIP(hipEventRecord(end, stream));
  HIP(hipEventSynchronize(end));
  float ms = 0;
  HIP(hipEventElapsedTime(&ms, begin, end));
  return double(ms) * 1e3 / row;
}
// The root goes round, so that none runs ahead.
double time_between_nodes(int kind, size_t count, int row) {
  shmem_barrier_all();
  const double start = shmemx_wtime();
  for (int k = 0; k < row; k++) call(kind, count, k % n);
  return (shmemx_wtime() - start) * 1e6 / row;
}
double measure(int kind, size_t count) {
  static double mine, worst;
  std::vector<double> us;
  const int row = count * 4 > size_t(1) << 20 ? std::max(calls / 10, 1) : calls;
  for (int run = 0; run < 6; run++) {
    const double one =
        net ? time_between_nodes(kind, count, row) : time_on_stream(kind, count, row);
    if (run) us.push_back(one);
  }
  std::sort(us.begin(), us.end());
  mine = us[us.size() / 2];
  shmem_double_max_reduce(SHMEM_TEAM_WORLD, &worst, &mine, 1);
  shmem_barrier_all();
  return worst;
}

struct Candidate {
  const char *algorithm;
  unsigned blocks, threads; // between nodes: bytes of a segment, segments in flight
};
// Whether a call of `count` elements differs by this candidate from those before it.
bool is_new(const Candidate &c, int kind, size_t count) {
  const size_t bytes = count * 4;
  if (net) {
    const bool first = c.blocks == 4 << 10;
    // All are told less than 8 KiB each, and in one piece. Others differ by the parts that do not
    // go at once.
    if (kind != broadcast && !strcmp(c.algorithm, "tree")) return first && bytes < 8192;
    return (first || c.blocks / 4 < bytes) && (c.threads == 4 || size_t(c.blocks) * 4 < bytes);
  }
  // From 65 on the members meet in other kernels, which a short message does not outweigh.
  const bool apart = c.blocks > 64;
  if (!strcmp(c.algorithm, "lines") && (apart || bytes > size_t(1) << 20)) return false;
  if (apart && (c.threads != most_threads || bytes < size_t(1) << 20)) return false;
  if (!strcmp(c.algorithm, "results")) // a workgroup for 2 KiB of a row, and at most 2 for each PE
    return kind == norm && n >= 4 && !apart && c.threads == most_threads && c.blocks >= 8 &&
           c.blocks / 8 * most_columns <= count;
  if (!strcmp(c.algorithm, "oneshot") && (kind != reduce || n != 2)) return false;
  if (kind == norm) // a workgroup for a row, at most, of as many threads as that takes
    return c.threads == most_threads && (c.blocks == 1 || c.blocks * most_columns <= count);
  if (!strcmp(c.algorithm, "phases") && (kind != reduce || bytes < size_t(1) << 20)) return false;
  return c.blocks == 1 || size_t(c.blocks) * 256 <= bytes;
}

void tune(FILE *out, const char *arch, const std::vector<Candidate> &candidates) {
  for (int kind = 0; kind < kinds; kind++) {
    if (net && kind != broadcast && kind != reduce && kind != scan) continue;
    const int pes = net ? nodes : n;
    char last[64] = "";
    size_t last_bytes = 0;
    auto flush = [&](bool all) {
      if (!*last || !out) return;
      fprintf(out, "%s %s %d %zu %s\n", names[kind], arch, pes, all ? SIZE_MAX : last_bytes, last);
      fflush(out);
    };
    for (size_t bytes = 8; bytes <= largest; bytes *= 4) {
      const bool blocked = kind == reduce_scatter || kind == fcollect || kind == alltoall;
      const size_t count =
          std::max(bytes / 4 / (blocked ? size_t(n) : 1), size_t(kind == norm ? 4 : 1));
      double best = 1e30;
      char winner[64] = "";
      for (const Candidate &c : candidates) {
        if (!is_new(c, kind, count)) continue;
        char text[64], row[160];
        snprintf(text, sizeof text, "%s %u %u", c.algorithm, c.blocks, c.threads);
        snprintf(row, sizeof row, "* %s %d %zu %s\n", net ? arch : "*", pes, SIZE_MAX, text);
        if (shmemx_tune(row)) {
          fprintf(stderr, "error: a row that the library does not take: %s", row);
          shmem_global_exit(1);
        }
        shmem_barrier_all();
        check(kind, count, text);
        const double us = measure(kind, count);
        if (us < best) best = us, memcpy(winner, text, sizeof winner);
      }
      if (me == 0)
        fprintf(stderr, "%-15s %12zu bytes %10.2f us  %s\n", names[kind], count * 4, best, winner);
      if (strcmp(last, winner) != 0) flush(false);
      memcpy(last, winner, sizeof last);
      // Of sums a row between nodes has what a node's members give together.
      last_bytes = count * 4;
      if (net && kind != broadcast) last_bytes = last_bytes * size_t(n) / size_t(nodes);
    }
    flush(true);
  }
}

} // namespace

// PE 0 says why, or how to use the program, and the job ends.
[[noreturn]] void leave(const char *wrong) {
  if (me == 0 && wrong)
    fprintf(stderr, "shmem_tune: wrong argument '%s' (shmem_tune --help tells more)\n", wrong);
  else if (me == 0)
    fputs(help, stdout);
  shmem_finalize();
  exit(wrong ? 2 : 0);
}

// Reads the options; gives the file.
const char *parse(int argc, char **argv) {
  static const option options[] = {
      {"help", no_argument, nullptr, 'h'}, {"net", no_argument, nullptr, 'n'}, {}};
  const char *path = nullptr;
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, "hc:l:o:", options, nullptr)) != -1;) {
    char *rest = nullptr;
    if (c == 'h') leave(nullptr);
    if (c == 'n') net = true;
    if (c == 'o') path = optarg;
    if (c == 'c') calls = atoi(optarg);
    if (c == 'l') largest = strtoull(optarg, &rest, 10);
    if (rest) largest <<= *rest == 'k' ? 10 : *rest == 'm' ? 20 : *rest == 'g' ? 30 : 0;
    if (c == '?' || calls <= 0) leave(argv[optind - 1]);
  }
  if (optind < argc) leave(argv[optind]);
  return path;
}

// The candidates between nodes, and the first line of the table.
std::vector<Candidate> between_nodes(FILE *out) {
  std::vector<Candidate> candidates;
  for (const char *algorithm : {"tree", "chain"})
    for (unsigned segment = 4 << 10; segment <= 1 << 20; segment *= 4)
      for (unsigned in_flight : {4u, 8u}) candidates.push_back({algorithm, segment, in_flight});
  if (out)
    fprintf(out,
            "# shmem_tune --net, %d PEs on %d nodes: collective net nodes bytes algorithm segment "
            "in-flight\n",
            n, nodes);
  return candidates;
}

// The same on streams, for the GPU whose architecture this tells.
std::vector<Candidate> on_streams(FILE *out, std::string *arch) {
  std::vector<Candidate> candidates;
  HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  HIP(hipEventCreate(&begin));
  HIP(hipEventCreate(&end));
  int device = 0;
  hipDeviceProp_t prop;
  HIP(hipGetDevice(&device));
  HIP(hipGetDeviceProperties(&prop, device));
  *arch = std::string(prop.gcnArchName, std::min<size_t>(strcspn(prop.gcnArchName, ":"), 60));
  const bool fibers = !shmem::runtime::hardware; // every thread costs there
  for (const char *algorithm : {"lines", "direct", "phases", "oneshot", "results"})
    for (unsigned blocks = 1; blocks <= (fibers ? 2 : 512); blocks *= 2)
      for (unsigned threads : {64u, 256u, 512u})
        if (!fibers || threads == 64) candidates.push_back({algorithm, blocks, threads});
  if (out)
    fprintf(out,
            "# shmem_tune, %d PEs, %s: collective architecture PEs bytes algorithm workgroups "
            "threads\n",
            n, prop.name);
  return candidates;
}

int main(int argc, char **argv) {
  shmem_init();
  me = shmem_my_pe(), n = shmem_n_pes();
  const char *const path = parse(argc, argv);
  static int first, firsts;
  first = shmem_team_my_pe(SHMEM_TEAM_SHARED) == 0;
  shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &firsts, &first, 1);
  nodes = firsts;
  if (net && nodes == 1) {
    if (me == 0) fprintf(stderr, "error: all %d PEs are on one node: --net needs several\n", n);
    shmem_global_exit(2);
  }
  if (!largest) largest = size_t(net ? 4 : 64) << 20;
  const size_t room = std::max(largest, size_t(4096) * size_t(n));
  const long hints = net ? SHMEMX_MALLOC_HOST : SHMEMX_MALLOC_DEVICE;
  source = static_cast<float *>(shmem_malloc_with_hints(room, hints));
  dest = static_cast<float *>(shmem_malloc_with_hints(room, hints));
  if (!source || !dest) {
    if (me == 0)
      fprintf(stderr, "error: no room for 2 x %zu bytes in the %s_SIZE, -l)\n", room,
              net ? "symmetric heap (SHMEM_SYMMETRIC" : "device heap (SHMEM_DEVICE");
    shmem_global_exit(2);
  }
  std::vector<float> x(room / 4);
  for (size_t i = 0; i < x.size(); i++) x[i] = value(me, i);
  FILE *out = me ? nullptr : path ? fopen(path, "w") : stdout;
  if (me == 0 && !out) {
    perror(path);
    shmem_global_exit(1);
  }
  std::string arch = "net";
  const std::vector<Candidate> candidates = net ? between_nodes(out) : on_streams(out, &arch);
  if (net)
    memcpy(source, x.data(), room);
  else
    HIP(hipMemcpy(source, x.data(), room, hipMemcpyHostToDevice));
  shmem_barrier_all();
  tune(out, arch.c_str(), candidates);
  shmemx_tune(nullptr);
  if (out && path) fclose(out);
  if (!net) (void)hipStreamDestroy(stream);
  shmem_barrier_all();
  shmem_free(dest);
  shmem_free(source);
  shmem_finalize();
  return 0;
}
