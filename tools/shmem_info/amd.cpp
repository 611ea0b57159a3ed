// SPDX-License-Identifier: MIT
// shmem_info doctor --amd: the first run on a machine with such GPUs, and a file to send back.
#include "built.h"
#include "info.hpp"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <hip/hip_runtime_api.h>
#include <shmem.h>

namespace info {

namespace {

// The kernel driver's version and its view of the GPUs: all that tells machines apart, but no
// names.
constexpr const char *driver =
    "uname -srm; cat /sys/module/amdgpu/version /opt/rocm/.info/version 2>/dev/null; "
    "grep -H . /sys/class/kfd/kfd/topology/nodes/*/properties "
    "/sys/class/kfd/kfd/topology/nodes/*/*_links/*/properties 2>/dev/null | "
    "sed 's|/sys/class/kfd/kfd/topology/nodes/||' | grep -v unique_id; true";

struct Run {
  const char *what;
  std::vector<std::string> words;
};

std::vector<Run> runs(int gpus) {
  const auto job = [](int pes, std::vector<std::string> words) {
    words[0] = beside(words[0].c_str());
    words.insert(words.begin(), {beside("oshrun"), "--oversubscribe", "-n", std::to_string(pes)});
    return words;
  };
  // Few sizes and repetitions, because all of it ends within minutes.
  const auto perf = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"shmem_perf", "--step", "8", "--repetitions", "5"});
    return words;
  };
  const int all = gpus > 2 ? gpus : 2;
  return {
      {"what is here", {beside("shmem_info"), "--json"}},
      {"what usually goes wrong", {beside("shmem_info"), "doctor"}},
      {"the kernel driver", {"/bin/sh", "-c", driver}},
      // The figures of test/amdgpu/clock.txt: the GPUs, their memory and their links.
      {"GPUs and links alone", job(all, perf({"--machine", "--sizes", "8:256m"}))},
      {"the host alone, 2 PEs", job(2, perf({"--sizes", "8:4m", "--time", "0.01"}))},
      {"kernels of 2 PEs", job(2, perf({"--device", "--sizes", "8:16m"}))},
      {"kernels, a PE a GPU", job(all, perf({"--device", "--sizes", "8:16m"}))},
      {"kernels, two PEs a GPU", job(2 * all, perf({"--device", "--sizes", "8:64k"}))},
      {"collectives on streams", job(all, perf({"--stream"}))},
      {"products of matrices", job(all, perf({"--gemm"}))},
      {"the table of algorithms", job(all, {"shmem_tune", "-l", "16m"})},
  };
}

} // namespace

int doctor_amd(const char *path, unsigned seconds) {
  FILE *file = fopen(path, "we");
  if (!file) {
    fprintf(stderr, "shmem_info: %s: %s\n", path, strerror(errno));
    return 2;
  }
  int gpus = 0, number = 0, bad = 0;
  if (hipGetDeviceCount(&gpus) != hipSuccess) gpus = 0;
  const time_t now = time(nullptr);
  char date[32] = "";
  strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
  fprintf(file, "libshmem %s, gpu %s, %s, %d GPUs\n", SHMEM_LIBRARY_VERSION, SHMEM_GPU, date, gpus);
  setenv("SHMEM_WAIT_LIMIT", "60", 0); // a PE that waits in vain says so
  std::string table;
  const auto seconds_now = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
  };
  const double start = seconds_now();
  const auto list = runs(gpus);
  for (const Run &r : list) {
    std::string output, command;
    for (const std::string &word : r.words) command += (command.empty() ? "" : " ") + word;
    // Twice its share of what is left: most need less, and one that hangs leaves time for the
    // others.
    const double from = seconds_now(), left = start + double(seconds) - from,
                 share = 2 * left / double(list.size() - size_t(number));
    const int status = run(r.words, &output, unsigned(std::max(1.0, std::min(left, share))));
    char line[160];
    const std::string end = status < 0 ? "was stopped" : "status " + std::to_string(status);
    snprintf(line, sizeof line, "%-5s %2d of %zu  %-24s %5.0f s, %s\n", status ? "FAIL" : "ok",
             ++number, list.size(), r.what, seconds_now() - from, end.c_str());
    fputs(line, stdout);
    fflush(stdout);
    table += line;
    bad += status != 0;
    fprintf(file, "\n== %d. %s: %s\n%s", number, r.what, command.c_str(), output.c_str());
  }
  fprintf(file, "\n== all\n%s", table.c_str());
  if (fclose(file) != 0) {
    fprintf(stderr, "shmem_info: %s: %s\n", path, strerror(errno));
    return 2;
  }
  printf("%s has it all: please send it with what you saw\n", path);
  return bad != 0;
}

} // namespace info
