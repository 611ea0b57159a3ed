// SPDX-License-Identifier: MIT
// shmem_perf --engine: the common part of the families of rows. A family is a function that makes
// its memory, checks each kind of call, and times the kinds in turns.
#pragma once
#include <hip/hip_runtime.h>

#include "device.h"
#include "plot.h"
#include <algorithm>
#include <cstdio>
#include <functional>
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

struct Engine {
  const struct engine_options &o;
  int me = shmem_my_pe(), npes = shmem_n_pes();
  hipStream_t stream;
  hipEvent_t begin, end;
  hipDeviceProp_t prop;

  explicit Engine(const struct engine_options &options) : o(options) {
    int device = 0;
    HIP(hipGetDevice(&device));
    HIP(hipGetDeviceProperties(&prop, device));
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipEventCreate(&begin));
    HIP(hipEventCreate(&end));
  }
  ~Engine() {
    HIP(hipEventDestroy(end));
    HIP(hipEventDestroy(begin));
    HIP(hipStreamDestroy(stream));
  }
  Engine(const Engine &) = delete;

  // The sizes in bytes that were asked for, or else those of the table.
  std::vector<size_t> sizes(std::vector<size_t> table) const {
    if (!o.smallest) return table;
    table.clear();
    for (size_t bytes = o.smallest; bytes <= o.largest; bytes *= o.step) table.push_back(bytes);
    return table;
  }
  shmemx_stream_t on() const { return reinterpret_cast<shmemx_stream_t>(stream); }
  // Null, with a note, if the heap has no room.
  void *room(const char *what, size_t bytes) const {
    void *p = shmem_malloc_with_hints(bytes, SHMEMX_MALLOC_DEVICE);
    if (!p && me == 0)
      fprintf(stderr,
              "note: %s left out: no %zu bytes in the device heap (is there a GPU? "
              "SHMEM_DEVICE_SIZE)\n",
              what, bytes);
    return p;
  }

  // Of one call of each kind in us: calls(i) of a kind in a graph, medians of runs that take turns,
  // on the slowest PE. start enqueues call `i` of kind k.
  std::vector<double> time(int kinds, const std::function<void(int k, int i)> &start) const {
    const int calls = calls_in_a_row(o.calls);
    std::vector<hipGraphExec_t> graphs(size_t(kinds), nullptr);
    for (int k = 0; k < kinds; k++) {
      hipGraph_t graph;
      HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
      for (int i = 0; i < calls; i++) start(k, i);
      HIP(hipStreamEndCapture(stream, &graph));
      HIP(hipGraphInstantiate(&graphs[size_t(k)], graph, nullptr, nullptr, 0));
      HIP(hipGraphDestroy(graph));
    }
    std::vector<std::vector<double>> us(static_cast<size_t>(kinds));
    constexpr int warm_ups = 2;
    for (int run = -warm_ups; run < o.runs; run++)
      for (int at = 0; at < kinds; at++) {
        const auto k = size_t(run % 2 ? at : kinds - 1 - at); // each time in another order
        shmem_barrier_all();
        HIP(hipEventRecord(begin, stream));
        HIP(hipGraphLaunch(graphs[k], stream));
        HIP(hipEventRecord(end, stream));
        HIP(hipEventSynchronize(end));
        float ms = 0;
        HIP(hipEventElapsedTime(&ms, begin, end));
        if (run >= 0) us[k].push_back(double(ms) * 1e3 / calls);
      }
    static double mine[16], slowest[16]; // symmetric
    for (size_t k = 0; k < size_t(kinds); k++) {
      std::sort(us[k].begin(), us[k].end());
      mine[k] = us[k][us[k].size() / 2];
    }
    shmem_barrier_all();
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, slowest, mine, size_t(kinds));
    for (hipGraphExec_t graph : graphs) HIP(hipGraphExecDestroy(graph));
    return {slowest, slowest + kinds};
  }
  void wrong(const char *what, size_t row, size_t column, double got, double want) const {
    fprintf(stderr, "WRONG: PE %d: %s: row %zu, column %zu is %.9g, not %.9g\n", me, what, row,
            column, got, want);
    shmem_global_exit(1);
  }
  void point(const std::string &panel, const char *name, bool other, double us) const {
    struct plot_point p = {};
    p.panel = panel.c_str(), p.name = name, p.other = other, p.value = us, p.unit = "us";
    plot_add(&p);
  }
};

// The families.
void engine_norm(Engine &engine);
void engine_moe(Engine &engine);
void engine_copy(Engine &engine);
void engine_wire(Engine &engine);
