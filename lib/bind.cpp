// SPDX-License-Identifier: MIT
// One core for each PE. Two PEs that the scheduler has put on one core, and that poll memory
// without a routine of the library that would yield, wait until it parts them (2 PEs on 2 cores of
// a busy machine, a round of flags, 2026-11: 34 to 826 us unbound, 0.33 to 7.4 us bound).
//
// The library binds, and not the launcher, because only the library sees whether the program has
// threads, which would share that one core: OpenMP counts the cores before main. Threads that the
// library has started by now keep all cores.
#include "bind.hpp"
#include "gpu/heap.hpp"
#include "log.hpp"
#include "state.hpp"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <sched.h>
#include <sys/stat.h>

namespace shmem {

namespace {

cpu_set_t all; // that this PE was given
bool bound, threaded;

bool has_openmp() {
  const char *threads = getenv("OMP_NUM_THREADS"); // the first level of a list
  if (threads && atoi(threads) > 1) return true;
  return dlsym(RTLD_DEFAULT, "omp_get_max_threads") != nullptr;
}

// The first of the hardware threads that make up the core of this one.
int first_of_core(int cpu) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  FILE *file = fopen(path, "re");
  if (!file) return cpu;
  int first = cpu;
  if (fscanf(file, "%d", &first) != 1) first = cpu;
  fclose(file);
  return first;
}

// The core of this PE: those that share its cores, as PEs of a NUMA node do, take one each in the
// order of their numbers. -1: there are not enough.
int own_core() {
  int before = 0, sharers = 0;
  const auto &mine = self.slots[self.local].cores;
  for (int pe = 0; pe < self.n_local; pe++) {
    bool same = true, apart = true;
    for (size_t i = 0; i < std::size(mine); i++) {
      const uint64_t theirs = self.slots[pe].cores[i].load();
      same = same && theirs == mine[i];
      apart = apart && !(theirs & mine[i]);
    }
    if (!same && !apart) return -1;
    sharers += same;
    before += same && pe < self.local;
  }
  int found = 0, core = -1;
  cpu_set_t seen;
  CPU_ZERO(&seen);
  for (int cpu = 0; cpu < CPU_SETSIZE && found < sharers; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    const int first = first_of_core(cpu);
    if (first >= 0 && first < CPU_SETSIZE && CPU_ISSET(first, &seen)) continue;
    if (first >= 0 && first < CPU_SETSIZE) CPU_SET(first, &seen);
    if (found++ == before) core = cpu;
  }
  return found == sharers ? core : -1;
}

} // namespace

void look_for_threads() {
  struct stat tasks; // a folder for each thread, beside . and ..
  threaded = stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3;
}

void show_cores() {
  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof all, &all) < 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all)) {
      self.slots[self.local].cores[cpu / 64].fetch_or(uint64_t(1) << cpu % 64);
      self.job->cores[cpu / 64].fetch_or(uint64_t(1) << cpu % 64);
    }
}

void bind(int thread_level) {
  if (!getenv("OSHRUN_BIND") || self.n_local == 1 || thread_level != SHMEM_THREAD_SINGLE ||
      threaded || has_openmp() || gpu::has_threads())
    return;
  const int core = own_core();
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  bound = sched_setaffinity(0, sizeof set, &set) == 0;
  debug(bound ? "bound to core %d" : "not bound to core %d", core);
}

void unbind() {
  if (bound) sched_setaffinity(0, sizeof all, &all);
  bound = false;
}

} // namespace shmem
