// SPDX-License-Identifier: MIT
// Records the calls of kernels that were compiled with SHMEM_TRACE_KERNELS, or by Triton for a
// program that is traced. They write records to a ring in device memory, which a thread reads while
// they run.
#include "../../device/runtime.hpp"
#include "../../device/trace.hpp"
#include "trace.hpp"
#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <hip/hip_runtime_api.h>
#include <mutex>
#include <sched.h>
#include <set>
#include <signal.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trace {

namespace {

using shmem::trace::Record, shmem::trace::Records, shmem::trace::Traced;

constexpr uint64_t us = 1000, ms = 1000 * us;
constexpr uint64_t look_every =
    5 * ms; // of a million places kernels fill 200 in a microsecond then
constexpr uint64_t write_every = 1000 * ms;
constexpr size_t most_read = 1 << 20;           // records, before they are written: 32 MiB
constexpr uint64_t records_at_a_time = 1 << 15; // that are copied: 1 MiB
constexpr uint64_t apart = 256; // places, which are copied as soon as a second copy begins

// The GPU's clock and the host's at one time, which may be wrong by error.
struct Sample {
  uint64_t host, ticks, error;
};

// In host memory, where the GPU copies to and kernels store their clock.
struct Shared {
  uint64_t clock, taken;
  Record records[records_at_a_time];
};

enum class Ask { nothing, begin, write, end, finish };

class Kernels {
  std::mutex mutex; // of what follows
  std::condition_variable changed;
  bool started = false;
  Ask asked = Ask::nothing;

  // Only the thread uses these, or threads that wait for it. No other thread calls HIP, so none
  // waits for a lock that is held in a call of the driver, which may wait for kernels.
  bool recording = false;
  int device = 0;
  hipStream_t copies = nullptr, clocks = nullptr;
  Shared *shared = nullptr;
  uint64_t *clock_there = nullptr;
  uint64_t next = 0;             // the first place that was not looked at
  std::vector<uint64_t> running; // ascending: those of calls that had not ended then
  // Calls that were read, and those of which a place was left: the other places that were taken are
  // lost.
  uint64_t accounted = 0, lost_calls = 0;
  Sample looked = {};  // host: when `taken` was read the last time; ticks: what it was
  Sample newest = {};  // the last call that ended: between two looks
  Sample written = {}; // what began before it is in the file
  std::vector<Record> read;
  std::vector<int> tracks;
  std::vector<uint64_t> until; // of each track, in ticks

  static bool tried(hipError_t error) {
    if (error == hipSuccess) return true;
    fprintf(stderr, "shmem: SHMEM_TRACE: %s; what kernels call is missing from here on\n",
            hipGetErrorString(error));
    (void)hipGetLastError();
    return false;
  }

  // The GPU's clock at some time between two of the host's: the quickest of some that a kernel
  // stores. Where kernels fill the GPU that may take for ever, and is given up.
  bool sample(Sample *best, int tries, uint64_t patience) {
    const uint64_t start = now();
    best->error = UINT64_MAX;
    for (int i = 0; i < tries; i++) {
      if (hipStreamQuery(clocks) != hipSuccess) { // an earlier one has not come
        (void)hipGetLastError();
        break;
      }
      __atomic_store_n(&shared->clock, 0, __ATOMIC_RELAXED);
      const uint64_t before = now();
      if (queue_clock(clock_there, clocks)) break;
      uint64_t ticks = 0, after = 0;
      do {
        ticks = __atomic_load_n(&shared->clock, __ATOMIC_RELAXED);
        after = now();
        if (!ticks) sched_yield();
      } while (!ticks && after - start < patience);
      const uint64_t half = (after - before) / 2;
      if (ticks && half < best->error) *best = {before + half, ticks, half};
    }
    return best->error != UINT64_MAX;
  }

  bool copy(void *to, const void *from, size_t bytes) {
    return !bytes || tried(hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToHost, copies));
  }

  bool open() {
    int least = 0, greatest = 0;
    // The highest priority: as in stream.cpp. Copies and clocks apart, because a clock may have to
    // wait until there is room for its kernel.
    if (!tried(hipSetDevice(device)) ||
        !tried(hipDeviceGetStreamPriorityRange(&least, &greatest)) ||
        !tried(hipStreamCreateWithPriority(&copies, hipStreamNonBlocking, greatest)) ||
        !tried(hipStreamCreateWithPriority(&clocks, hipStreamNonBlocking, greatest)))
      return false;
    if (records.first) return true;
    if (!tried(hipHostMalloc(reinterpret_cast<void **>(&shared), sizeof *shared,
                             hipHostMallocMapped)) ||
        !tried(hipHostGetDevicePointer(reinterpret_cast<void **>(&clock_there), &shared->clock, 0)))
      return false;
    // Fine-grained, because the host reads what a kernel has written that still runs.
    char *memory = nullptr;
    const unsigned places = unsigned(std::bit_width(records_wanted() - 1));
    const size_t bytes = 128 + (sizeof(Record) << places);
    if (!tried(shmem::runtime::malloc_flags(reinterpret_cast<void **>(&memory), bytes, device)) ||
        !tried(hipMemset(memory, 0, bytes)) || !tried(hipDeviceSynchronize()))
      return false;
    records = {reinterpret_cast<Record *>(memory + 128), places,
               reinterpret_cast<uint64_t *>(memory)};
    return true;
  }
  bool begin() {
    // A query of a stream would spoil another thread's capture: see stream.cpp.
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    (void)hipThreadExchangeStreamCaptureMode(&mode);
    if (!copies && !open()) return false;
    if (!sample(&written, 16, 10000 * ms)) return tried(hipErrorLaunchFailure);
    const std::lock_guard lock(modules_mutex);
    shown = true;
    const std::vector<void *> waiting = std::exchange(loaded, {});
    return std::all_of(modules.begin(), modules.end(),
                       [&](Traced *m) { return tried(hipError_t(m->show(&records))); }) &&
           std::all_of(waiting.begin(), waiting.end(), [&](void *to) { return show(to); });
  }

  bool look() {
    const uint64_t host = now();
    if (!copy(&shared->taken, records.taken, sizeof shared->taken) ||
        !tried(hipStreamSynchronize(copies)))
      return false;
    looked = {host, shared->taken, 0};
    return true;
  }
  uint64_t most_at_a_time() const { return std::min(records.room(), records_at_a_time); }
  // To shared->records. n: at most most_at_a_time(), so that no place is among them twice
  bool fetch(uint64_t from, uint64_t n) {
    const uint64_t place = records.place(from), first = std::min(n, records.room() - place);
    return copy(shared->records, records.first + place, first * sizeof(Record)) &&
           copy(shared->records + first, records.first, (n - first) * sizeof(Record)) &&
           tried(hipStreamSynchronize(copies));
  }
  // r: the record at that place. Keeps it if it is whole: one whose call runs, or that was
  // overwritten, is not.
  bool keep(const Record &r, uint64_t place) {
    const uint8_t lap = records.lap(place);
    if (r.lap0 != lap || r.lap1 != lap || r.lap2 != lap || r.lap3 != lap) return false;
    read.push_back(r);
    accounted += 1 + r.again;
    return true;
  }
  // A place that is taken again need not be stored to yet: the last ones may have their records.
  void skip(uint64_t until) {
    for (next = std::max(next, until - std::min(until, most_at_a_time())); next < until; next++)
      running.push_back(next);
  }
  // The places that were taken since the last time.
  bool take(bool all) {
    const Sample before = looked;
    if (!look()) return false;
    while (next != looked.ticks && (all || read.size() < most_read)) {
      if (looked.ticks - next > records.room()) skip(looked.ticks - records.room());
      const uint64_t n = std::min(looked.ticks - next, records_at_a_time);
      if (!fetch(next, n)) return false;
      const uint64_t host = now();
      for (uint64_t i = 0; i < n; i++) {
        const Record &r = shared->records[i];
        if (!keep(r, next + i))
          running.push_back(next + i);
        else if (next + i >= before.ticks)
          newest = {(before.host + host) / 2, r.begin + r.took, (host - before.host) / 2};
      }
      next += n;
      if (all && read.size() >= most_read) write(Ask::finish);
      if (!look()) return false;
    }
    return true;
  }
  // Calls that ended since their places were looked at.
  bool take_running() {
    auto left = running.begin();
    for (auto i = running.begin(); i != running.end();) {
      const uint64_t from = *i;
      auto end = i + 1;
      while (end != running.end() && *end - from < most_at_a_time() && *end - end[-1] <= apart)
        ++end;
      if (!fetch(from, end[-1] - from + 1)) return false;
      for (; i != end; ++i) {
        const Record &r = shared->records[*i - from];
        // A later lap may have taken the place and not come to store, so it has to be read.
        const bool overwritten = int8_t(r.lap0 - records.lap(*i)) > 0;
        if (!keep(r, *i) && !overwritten && looked.ticks - *i < 2 * records.room()) *left++ = *i;
      }
    }
    running.erase(left, running.end());
    return true;
  }

  // Ticks from a time to another one that is within 8 years, or with 100 MHz 80, by its low 56
  // bits.
  static int64_t since(uint64_t ticks, uint64_t low) { return int64_t((low - ticks) << 8) >> 8; }
  // Between two samples a clock runs evenly, so a time there is as wrong as the worse one at most.
  void write(Ask what) {
    const Sample from = written;
    Sample to;
    if (!sample(&to, 16, what == Ask::finish ? 1000 * ms : ms)) {
      // Kernels fill the GPU. There is time, unless there is much to write.
      if (what == Ask::nothing && read.size() < most_read) return;
      to = newest;
      to.ticks = from.ticks + uint64_t(since(from.ticks, to.ticks));
    }
    const double rate = to.ticks > from.ticks && to.host > from.host
                            ? double(to.host - from.host) / double(to.ticks - from.ticks)
                            : 1e9 / shmem::runtime::clock_rate;
    const auto error = int64_t(std::max(from.error, to.error));
    auto begun = [&](const Record &r) { return since(from.ticks, r.begin); };
    std::sort(read.begin(), read.end(),
              [&](const Record &a, const Record &b) { return begun(a) < begun(b); });
    // A track shows one call at a time: the lowest that is free.
    std::set<std::pair<uint64_t, size_t>> busy; // until when
    std::set<size_t> idle;
    for (size_t i = 0; i < until.size(); i++) busy.insert({until[i], i});
    std::vector<std::vector<Timed>> shown(until.size());
    for (const Record &r : read) {
      const uint64_t begin = from.ticks + uint64_t(begun(r)), end = begin + r.took;
      for (; !busy.empty() && busy.begin()->first <= begin; busy.erase(busy.begin()))
        idle.insert(busy.begin()->second);
      if (idle.empty()) {
        idle.insert(shown.size());
        shown.emplace_back();
        until.push_back(0);
      }
      const size_t track = *idle.begin();
      idle.erase(idle.begin());
      busy.insert({end, track});
      until[track] = end;
      auto host = [&](uint64_t ticks) {
        return uint64_t(int64_t(from.host) + int64_t(double(int64_t(ticks - from.ticks)) * rate));
      };
      // Names that the table does not have count from the top, as trace.cpp's.
      const uint32_t name = r.routine >= shmem::trace::sum ? ~uint32_t(UINT16_MAX) | r.routine
                                                           : first_of_kernels + r.routine;
      const int32_t pe = r.pe == 0xffffff ? -1 : int32_t(r.pe);
      shown[track].push_back(
          {{host(begin), host(end), r.bytes, pe, name}, error, int64_t(r.block), int(r.wave)});
    }
    for (size_t i = 0; i < shown.size(); i++) {
      if (i == tracks.size()) tracks.push_back(new_track("kernels " + std::to_string(i + 1)));
      write_timed(tracks[i], shown[i]);
    }
    read.clear();
    written = to;
  }

  bool work(Ask what) {
    if (what == Ask::begin) return begin();
    if (what == Ask::finish && !tried(hipDeviceSynchronize())) return false;
    if (!take(what == Ask::finish)) return false;
    const bool due = what != Ask::nothing || read.size() >= most_read ||
                     now() - written.host >= write_every,
               late = !running.empty() && looked.ticks - running.front() > records.room() / 4;
    if ((due || late) && !take_running()) return false;
    if (due) write(what);
    if (what == Ask::finish) {
      running.clear(); // no kernel runs
      lost_calls = looked.ticks - std::exchange(accounted, looked.ticks);
      close();
    }
    return what != Ask::end && what != Ask::finish;
  }
  // ROCr 6.4 counts the signals of streams that are there when a program ends, as leaked. Memory
  // that kernels write to stays: they may still run.
  void close() {
    const std::lock_guard lock(modules_mutex);
    shown = false;
    for (hipStream_t *stream : {&copies, &clocks})
      if (*stream) tried(hipStreamDestroy(std::exchange(*stream, nullptr)));
  }
  [[noreturn]] void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      auto is_asked = [&] { return asked != Ask::nothing; };
      if (recording)
        changed.wait_for(lock, std::chrono::nanoseconds(look_every), is_asked);
      else
        changed.wait(lock, is_asked);
      const Ask what = asked;
      lock.unlock();
      if (recording || what == Ask::begin) recording = work(what);
      lock.lock();
      if (what == Ask::nothing) continue;
      asked = Ask::nothing;
      changed.notify_all();
    }
  }

  // The null stream would wait for kernels, which may wait for the one that is being loaded.
  bool show(void *to) {
    return tried(hipMemcpyAsync(to, &records, sizeof records, hipMemcpyHostToDevice, copies)) &&
           tried(hipStreamSynchronize(copies));
  }

public:
  std::mutex modules_mutex; // of what follows, and of records while they are shown to a module
  std::vector<Traced *> modules;
  // Where modules that the program has loaded have their Records, until these are shown.
  std::vector<void *> loaded;
  bool expected = false; // such modules will come
  bool shown = false;    // the records, to all modules that there are
  Records records = {};

  void add(void *module) {
    void *to = nullptr;
    size_t bytes = 0;
    if (shmem::runtime::module_global(&to, &bytes, module, "shmemx_module_records")) {
      (void)hipGetLastError();
      return;
    }
    const std::lock_guard lock(modules_mutex);
    if (shown)
      show(to);
    else
      loaded.push_back(to);
  }

  void ask(Ask what) {
    std::unique_lock lock(mutex);
    if (!started) {
      if (what != Ask::begin) return;
      // Its own GPU is this thread's.
      if (!tried(hipGetDevice(&device))) return;
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before); // signals are the program's
      std::thread([this] { run(); }).detach();
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      started = true;
      // Before the runtime goes, whose end was registered before.
      atexit([] { ask_here(Ask::end); });
      pthread_atfork(nullptr, nullptr, [] { forked = true; });
    }
    auto free = [&] { return asked == Ask::nothing; };
    changed.wait(lock, free);
    asked = what;
    changed.notify_all();
    changed.wait(lock, free);
  }
  uint64_t lost() { return std::exchange(lost_calls, 0); }

  inline static bool forked = false; // the thread is the parent's
  static void ask_here(Ask what);
};
Kernels &kernels() {
  static Kernels *const k = new Kernels; // never destroyed: modules go at the end
  return *k;
}
void Kernels::ask_here(Ask what) {
  if (!forked) kernels().ask(what);
}

} // namespace

void begin_kernels() {
  Kernels &k = kernels();
  {
    const std::lock_guard lock(k.modules_mutex);
    if ((k.modules.empty() && !k.expected) || !records_wanted()) return;
  }
  Kernels::ask_here(Ask::begin);
}
void write_kernels() {
  Kernels::ask_here(Ask::write);
}
uint64_t finish_kernels() {
  Kernels::ask_here(Ask::finish);
  return kernels().lost();
}
bool expect_kernels() {
  Kernels &k = kernels();
  const std::lock_guard lock(k.modules_mutex);
  return !std::exchange(k.expected, true) && !k.shown;
}

} // namespace trace

#pragma GCC visibility push(default)
using trace::Traced;
extern "C" void shmemx_traced_add(Traced *module) {
  trace::Kernels &k = trace::kernels();
  const std::lock_guard lock(k.modules_mutex);
  k.modules.push_back(module);
  if (k.records.first && module->show(&k.records)) (void)hipGetLastError();
}
extern "C" void shmemx_traced_remove(Traced *module) {
  trace::Kernels &k = trace::kernels();
  const std::lock_guard lock(k.modules_mutex);
  k.modules.erase(std::remove(k.modules.begin(), k.modules.end(), module), k.modules.end());
}
extern "C" void shmemx_module_init(void *module) {
  static const auto next_init =
      reinterpret_cast<decltype(&shmemx_module_init)>(trace::next("shmemx_module_init"));
  next_init(module);
  trace::kernels().add(module);
}
#pragma GCC visibility pop
