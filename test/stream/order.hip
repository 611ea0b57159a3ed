// SPDX-License-Identifier: MIT
// Collectives on streams that follow each other with nothing between, in graphs, late, in two teams
// and on two streams at once, in teams that come and go.
#include <shmem/device/shmem.hpp> // before cmocka.h, which has a macro fail

#include "stream.hpp"
#include <atomic>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t n = 3000;
int host[8 * n];

__global__ void step(int *x, const int *sum, size_t count, int by) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) x[i] = sum[i] % 1000 + by;
}

// x = (sum of all x) % 1000 + my number + 1, so that every PE's part of every round counts.
void model(int *x, int pes, int rounds) {
  // x of PE p in round 0 is p + 1 for all elements, from then on a function of the sum alone
  long sum = 0;
  for (int p = 0; p < pes; p++) sum += p + 1;
  for (int r = 0; r < rounds; r++) {
    const long s = sum % 1000;
    sum = 0;
    for (int p = 0; p < pes; p++) sum += s + p + 1;
    *x = int(s);
  }
}
void start(int *x, size_t count) {
  for (size_t i = 0; i < count; i++) host[i] = me + 1;
  to_device(x, host, count * sizeof(int));
  finish_all();
}
void check(const int *x, size_t count, int rounds, const char *what) {
  int s = 0;
  model(&s, npes, rounds);
  from_device(host, x, count * sizeof(int));
  for (size_t i = 0; i < count; i++)
    CHECK(host[i] == s + me + 1, "%s: element %zu is %d, want %d", what, i, host[i], s + me + 1);
}
void round_on(int *x, int *sum, size_t count, hipStream_t s) {
  shmemx_int_sum_reduce_on_stream(SHMEM_TEAM_WORLD, sum, x, count, s);
  hipLaunchKernelGGL(step, dim3(1), dim3(64), 0, s, x, static_cast<const int *>(sum), count,
                     me + 1);
}

void back_to_back(void) {
  int *x = reinterpret_cast<int *>(device_alloc(n * sizeof(int), 0)),
      *sum = reinterpret_cast<int *>(device_alloc(n * sizeof(int), 0));
  // Small, large, by turns; the host is ahead of the device.
  for (int mode = 0; mode < 3; mode++) {
    start(x, n);
    constexpr int rounds = 60;
    for (int r = 0; r < rounds; r++) {
      const bool direct = mode == 1 || (mode == 2 && r % 3 == 1);
      choose(direct ? "direct" : "lines", 1 + unsigned(r + mode) % 2, 64);
      round_on(x, sum, n, stream);
      // One PE comes late.
      if (r % 20 == 7 && me == r / 20 % npes) {
        HIP(hipStreamSynchronize(stream));
        usleep(10000);
      }
    }
    HIP(hipStreamSynchronize(stream));
    check(x, n, rounds, "back to back");
    finish_all();
  }
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(sum);
  object_free(x);
}

// In place, of every algorithm.
void in_place(void) {
  int *x = reinterpret_cast<int *>(device_alloc(n * sizeof(int), 0));
  for (const char *algorithm : {"lines", "direct"}) {
    start(x, n);
    choose(algorithm, 2, 64);
    shmemx_int_max_reduce_on_stream(SHMEM_TEAM_WORLD, x, x, n, stream);     // npes
    shmemx_int_sum_inscan_on_stream(SHMEM_TEAM_WORLD, x, x, n, stream);     // npes * (me + 1)
    shmemx_int_sum_exscan_on_stream(SHMEM_TEAM_WORLD, x, x, n - 1, stream); // npes * (0 + ... + me)
    HIP(hipStreamSynchronize(stream));
    from_device(host, x, n * sizeof(int));
    for (size_t i = 0; i < n - 1; i++)
      CHECK(host[i] == npes * (me * (me + 1) / 2), "%s: %zu: %d", algorithm, i, host[i]);
    CHECK(host[n - 1] == npes * (me + 1), "%s: %d", algorithm, host[n - 1]);
    finish_all();
  }
  // By oneshot a member would add what the other has stored.
  auto *const y = reinterpret_cast<float *>(x), *const sums = reinterpret_cast<float *>(host);
  for (size_t i = 0; i < n; i++) sums[i] = 1;
  to_device(y, sums, n * sizeof(float));
  finish_all();
  choose("oneshot", 2, 64);
  float want = 1;
  for (int round = 0; round < 8; round++, want *= float(npes))
    shmemx_float_sum_reduce_on_stream(SHMEM_TEAM_WORLD, y, y, n, stream);
  HIP(hipStreamSynchronize(stream));
  from_device(sums, y, n * sizeof(float));
  for (size_t i = 0; i < n; i++)
    CHECK(sums[i] == want, "oneshot: %zu: %g, not %g", i, double(sums[i]), double(want));
  finish_all();
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(x);
}

// The root of a broadcast may run ahead of the others, but not over data that they have not read.
void broadcasts(void) {
  constexpr int rounds = 100;
  auto *v = reinterpret_cast<uint64_t *>(device_alloc(64, 0));
  auto *all = reinterpret_cast<uint64_t *>(device_alloc(rounds * 64, 0));
  auto *values = reinterpret_cast<uint64_t *>(host);
  for (int r = 0; r < rounds; r++) values[8 * r] = uint64_t(me) * 1000000 + uint64_t(r) + 1;
  to_device(all, values, rounds * 64);
  finish_all();
  choose("lines", 1, 64);
  if (me == npes - 1) usleep(10000);
  for (int r = 0; r < rounds; r++)
    shmemx_uint64_broadcast_on_stream(SHMEM_TEAM_WORLD, all + 8 * r, all + 8 * r, 1, r / 7 % npes,
                                      stream);
  HIP(hipStreamSynchronize(stream));
  from_device(values, all, rounds * 64);
  for (int r = 0; r < rounds; r++)
    CHECK(values[8 * r] == uint64_t(r / 7 % npes) * 1000000 + uint64_t(r) + 1, "round %d: %llu", r,
          (unsigned long long)values[8 * r]);
  finish_all();
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(all);
  object_free(v);
}

// A graph of collectives of both kinds, one by copy engines, a put with signal and a kernel, many
// times, with other work between.
void graphs(void) {
  const int replays = getenv("TEST_REPLAYS") ? atoi(getenv("TEST_REPLAYS")) : 60;
  const bool mapped = shmem_team_n_pes(SHMEM_TEAM_SHARED) == npes;
  constexpr size_t few = 200;
  int *x = reinterpret_cast<int *>(device_alloc(few * sizeof(int), 0)),
      *sum = reinterpret_cast<int *>(device_alloc(few * sizeof(int), 0));
  int *other = reinterpret_cast<int *>(device_alloc(few * sizeof(int), 0)),
      *gathered = reinterpret_cast<int *>(device_alloc(64 * sizeof(int), 0));
  auto *sig = reinterpret_cast<uint64_t *>(device_alloc(8, 0, true));
  start(x, few);
  hipGraph_t graph;
  hipGraphExec_t exec;
  if (mapped) CHECK(shmemx_team_copy_engines(SHMEM_TEAM_WORLD, 1) == 0, "copy engines");
  HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  choose("lines", 1, 64);
  round_on(x, sum, few, stream);
  choose("direct", 2, 64);
  round_on(x, sum, few, stream);
  shmemx_int_fcollect_on_stream(SHMEM_TEAM_WORLD, gathered, x, 1, stream);
  shmemx_signal_add_on_stream(sig, 1, (me + 1) % npes, stream);
  shmemx_barrier_all_on_stream(stream);
  HIP(hipStreamEndCapture(stream, &graph));
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  finish_all();
  int rounds = 0;
  for (int r = 0; r < replays; r++, rounds += 2) {
    HIP(hipGraphLaunch(exec, stream));
    if (r % 5 == 3) { // not of the graph, on the same team
      choose(r & 1 ? "lines" : "direct", 1, 64);
      shmemx_int_max_reduce_on_stream(SHMEM_TEAM_WORLD, other, x, few, stream);
      round_on(x, sum, few, stream);
      rounds++;
    }
    if (r % 50 == 49) HIP(hipStreamSynchronize(stream));
  }
  HIP(hipStreamSynchronize(stream));
  check(x, few, rounds, "replays");
  uint64_t signals;
  from_device(&signals, sig, 8);
  CHECK(signals == uint64_t(replays), "%llu signals", (unsigned long long)signals);
  HIP(hipGraphExecDestroy(exec));
  HIP(hipGraphDestroy(graph));
  finish_all();
  if (mapped) shmemx_team_copy_engines(SHMEM_TEAM_WORLD, 0);
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  if (replays % 5 != 4) { // x is what the last replay gathered
    int last[64], again[64];
    from_device(last, gathered, size_t(npes) * sizeof(int));
    shmemx_int_fcollect_on_stream(SHMEM_TEAM_WORLD, gathered, x, 1, stream);
    HIP(hipStreamSynchronize(stream));
    from_device(again, gathered, size_t(npes) * sizeof(int));
    for (int pe = 0; pe < npes; pe++)
      CHECK(last[pe] == again[pe], "of PE %d the graph gathered %d, not %d", pe, last[pe],
            again[pe]);
    finish_all();
  }
  object_free(sig);
  object_free(gathered);
  object_free(other);
  object_free(sum);
  object_free(x);
}

// Two teams of the same PEs, each on its stream, started in another order on every other PE.
void two_at_once(void) {
  shmem_team_t team = SHMEM_TEAM_INVALID;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, npes, NULL, 0, &team) == 0, "split");
  int *a = reinterpret_cast<int *>(device_alloc(n * sizeof(int), 0)),
      *b = reinterpret_cast<int *>(device_alloc(n * sizeof(int), 0));
  for (const char *algorithm : {"lines", "direct"}) {
    for (size_t i = 0; i < n; i++) host[i] = 1;
    to_device(a, host, n * sizeof(int));
    to_device(b, host, n * sizeof(int));
    finish_all();
    choose(algorithm, 1, 64);
    constexpr int rounds = 12;
    for (int r = 0; r < rounds; r++)
      for (int k = 0; k < 2; k++) {
        const bool first = (k + me + r) % 2;
        shmemx_int_sum_reduce_on_stream(first ? SHMEM_TEAM_WORLD : team, first ? a : b,
                                        first ? a : b, first ? n : n / 2, first ? stream : second);
      }
    HIP(hipStreamSynchronize(stream));
    HIP(hipStreamSynchronize(second));
    unsigned want = 1;
    for (int r = 0; r < rounds; r++) want *= unsigned(npes);
    from_device(host, a, n * sizeof(int));
    for (size_t i = 0; i < n; i++) CHECK(unsigned(host[i]) == want, "first, %s: %zu", algorithm, i);
    from_device(host, b, n * sizeof(int));
    for (size_t i = 0; i < n; i++)
      CHECK(unsigned(host[i]) == (i < n / 2 ? want : 1), "second, %s: %zu", algorithm, i);
    finish_all();
  }
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(b);
  object_free(a);
  shmem_team_destroy(team);
}

// A team's number is used again by another one, with other members.
void new_teams(void) {
  int *x = reinterpret_cast<int *>(device_alloc(64, 0));
  for (int r = 0; r < 20; r++) {
    const int size = 1 + r % npes, first = (r * 5) % (npes - size + 1);
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, first, 1, size, NULL, 0, &team);
    if (team == SHMEM_TEAM_INVALID) continue;
    int one = 1;
    to_device(x, &one, sizeof one);
    CHECK(shmem_team_sync(team) == 0, "sync");
    for (int k = 0; k < 3; k++) {
      choose(k == 1 ? "direct" : "lines", 1, 64);
      CHECK(shmemx_int_sum_reduce_on_stream(team, x, x, 1, stream) == 0, "sum");
      CHECK(shmemx_int_broadcast_on_stream(team, x, x, 1, r % size, stream) == 0, "broadcast");
    }
    HIP(hipStreamSynchronize(stream));
    from_device(&one, x, sizeof one);
    CHECK(one == size * size * size, "team %d of %d: %d", r, size, one);
    shmem_team_destroy(team);
  }
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  finish_all();
  object_free(x);
}

void tables(void) {
  CHECK(shmemx_tune("# nothing\n\nreduce * 8 4096 lines 4 256 # a row\n") == 0, "a table");
  for (const char *wrong :
       {"reduce * 8 4096 lines 4", "reduce * 8 4096 tree 4 64", "sort * 8 4096 lines 4 64",
        "* * 8 4096 lines 0 64", "* * 8 4096 lines 4 1024", "* * 8 4096 lines 4 64 extra"})
    CHECK(shmemx_tune(wrong) != 0, "%s", wrong);
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
}

// An error that the program's own call left behind is no launch's, and stays for the program; the
// library's own calls that may fail, in init say, leave none. Runs first.
void own_errors(void) {
  CHECK(hipPeekAtLastError() == hipSuccess, "init leaves an error: %s",
        hipGetErrorString(hipPeekAtLastError()));
  int *x = reinterpret_cast<int *>(device_alloc(2 * sizeof(int), 0, true));
  const hipError_t error = hipSetDevice(12345);
  CHECK(error != hipSuccess, "a device 12345");
  int device;
  HIP(hipGetDevice(&device));
  const bool kept =
      hipPeekAtLastError() == error; // before HIP 7 any call that succeeds takes its place
  const int right = (me + 1) % npes;
  shmemx_int_put_on_stream(x + 1, x, 1, right, stream);
  shmemx_int_sum_reduce_on_stream(SHMEM_TEAM_WORLD, x, x, 1, stream);
  shmemx_barrier_all_on_stream(stream);
  shmem_int_atomic_add(x, 1, right);
  CHECK(hipGetLastError() == (kept ? error : hipSuccess), "the program's error is gone");
  finish_all();
  object_free(x);
}

// As a program's kernel waits for its host. `over` ends a wait that would not end.
__global__ void hold(const int *flag, const int *over) {
  while (!shmem::arch::load(flag) && !shmem::arch::load(over)) shmem::arch::pause();
}
// More streams than a GPU has queues wait for the host's calls, by kernels and by copies: AMD's
// runtime gives streams of one priority four queues to share, and work behind a kernel that waits
// in the same one waits with it.
void many_waiting(void) {
  constexpr int count = 6;
  hipStream_t waiting[count];
  int *flags = reinterpret_cast<int *>(device_alloc((count + 1) * sizeof(int), 0)), *over,
      *over_there;
  HIP(hipHostMalloc(reinterpret_cast<void **>(&over), sizeof *over, hipHostMallocMapped));
  HIP(hipHostGetDevicePointer(reinterpret_cast<void **>(&over_there), over, 0));
  *over = 0;
  const int one = 1;
  to_device(flags + count, &one, sizeof one);
  for (hipStream_t &s : waiting) HIP(hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
  for (int k = 0; k < count; k++)
    hipLaunchKernelGGL(hold, dim3(1), dim3(1), 0, waiting[k], static_cast<const int *>(flags + k),
                       static_cast<const int *>(over_there));
  std::atomic<bool> done{false}, late{false};
  std::thread alarm([&] {
    for (int k = 0; k < 1000 && !done; k++) usleep(10000);
    late = !done;
    if (late) __atomic_store_n(over, 1, __ATOMIC_SEQ_CST);
  });
  for (int k = 0; k < count; k += 2) {
    shmem_int_atomic_add(flags + k, 1, me);
    shmem_int_put(flags + k + 1, flags + count, 1, me);
  }
  for (hipStream_t s : waiting) HIP(hipStreamSynchronize(s));
  done = true;
  alarm.join();
  CHECK(!late, "calls of the host wait for kernels that wait for them");
  for (hipStream_t s : waiting) HIP(hipStreamDestroy(s));
  HIP(hipHostFree(over));
  finish_all();
  object_free(flags);
}

// A kernel stores, here or at the peer, and the stream's next operation tells the peer, whose
// stream waits and then looks, by many workgroups.
__global__ void fill(unsigned *p, unsigned r) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  p[i] = r * 10000 + i;
}
__global__ void compare(const unsigned *p, unsigned r, unsigned *bad) {
  const unsigned i = gridDim.x * blockDim.x - 1 - (blockIdx.x * blockDim.x + threadIdx.x);
  if (p[i] != r * 10000 + i) *bad = r;
}
void telling(void) {
  constexpr unsigned blocks = 20, count = blocks * 64;
  const auto rounds = unsigned(pe_rounds(60));
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  auto *source = reinterpret_cast<unsigned *>(device_alloc(count * 4, 0)),
       *dest = reinterpret_cast<unsigned *>(device_alloc(count * 4, 0)),
       *all = reinterpret_cast<unsigned *>(device_alloc(size_t(npes) * count * 4, 0)),
       *bad = reinterpret_cast<unsigned *>(device_alloc(4, 0));
  auto *sig = reinterpret_cast<uint64_t *>(device_alloc(16, 0));
  auto *const there = static_cast<unsigned *>(shmem_ptr(dest, right)); // or it is not mapped
  for (unsigned r = 1; r <= rounds; r++) {
    hipLaunchKernelGGL(fill, dim3(blocks), dim3(64), 0, stream,
                       r % 4 == 2 && there ? there : source, r);
    if (r % 4 == 3) {
      choose("direct", 2, 256);
      shmemx_uint32_fcollect_on_stream(SHMEM_TEAM_WORLD, all, source, count, stream);
      hipLaunchKernelGGL(compare, dim3(blocks), dim3(64), 0, stream,
                         static_cast<const unsigned *>(all + size_t(left) * count), r, bad);
      continue;
    }
    if (r % 4 == 0) {
      shmemx_putmem_signal_on_stream(dest, source, count * 4, sig, r, SHMEM_SIGNAL_SET, right,
                                     stream);
    } else {
      if (r % 4 == 1 || !there) shmemx_putmem_on_stream(dest, source, count * 4, right, stream);
      shmemx_quiet_on_stream(stream);
      shmemx_signal_set_on_stream(sig, r, right, stream);
    }
    shmemx_signal_wait_until_on_stream(sig, SHMEM_CMP_GE, r, stream);
    hipLaunchKernelGGL(compare, dim3(blocks), dim3(64), 0, stream,
                       static_cast<const unsigned *>(dest), r, bad);
    // The PE that fills dest has seen that it was looked at.
    shmemx_signal_set_on_stream(sig + 1, r, left, stream);
    shmemx_signal_wait_until_on_stream(sig + 1, SHMEM_CMP_GE, r, stream);
  }
  HIP(hipStreamSynchronize(stream));
  unsigned failed;
  from_device(&failed, bad, sizeof failed);
  CHECK(!failed, "stores and signals on a stream: the forbidden was seen in round %u", failed);
  finish_all();
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(sig);
  object_free(bad);
  object_free(all);
  object_free(dest);
  object_free(source);
}

// A reduction in two phases, whose results are read in packs by other threads than those that
// stored them element by element, because source is not aligned as dest is.
void two_phases(void) {
  constexpr unsigned blocks = 20, count = blocks * 64;
  const auto rounds = unsigned(pe_rounds(60));
  auto *source = reinterpret_cast<unsigned *>(device_alloc((count + 1) * 4, 0)),
       *dest = reinterpret_cast<unsigned *>(device_alloc(count * 4, 0)),
       *bad = reinterpret_cast<unsigned *>(device_alloc(4, 0));
  choose("phases", 2, 256);
  for (unsigned r = 1; r <= rounds; r++) {
    hipLaunchKernelGGL(fill, dim3(blocks), dim3(64), 0, stream, source + 1, r);
    shmemx_uint32_max_reduce_on_stream(SHMEM_TEAM_WORLD, dest, source + 1, count, stream);
    hipLaunchKernelGGL(compare, dim3(blocks), dim3(64), 0, stream,
                       static_cast<const unsigned *>(dest), r, bad);
  }
  HIP(hipStreamSynchronize(stream));
  unsigned failed;
  from_device(&failed, bad, sizeof failed);
  CHECK(!failed, "a reduction in two phases: the forbidden was seen in round %u", failed);
  finish_all();
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(bad);
  object_free(dest);
  object_free(source);
}

// An fcollect whose source is the PE's own block of dest, by each way, and one that is not, by copy
// engines in several pieces. PE 0 is late.
void own_block(void) {
  const bool mapped = shmem_team_n_pes(SHMEM_TEAM_SHARED) == npes;
  const size_t few = 1003, many = npes > 4 ? 3 * few : (size_t(4) << 20) / sizeof(int) + 9;
  int *dest = reinterpret_cast<int *>(device_alloc(size_t(npes) * many * sizeof(int), 0)),
      *source = reinterpret_cast<int *>(device_alloc(many * sizeof(int), 0));
  std::vector<int> got(size_t(npes) * many);
  const auto value = [](int pe, size_t i) { return int(i % 1000) * (pe + 1) + pe; };
  for (const char *way : {"lines", "direct", "engines", "engines, not in place"}) {
    const bool engines = way[0] == 'e', here = strlen(way) < 8;
    if (engines && !mapped) continue;
    const size_t count = engines ? many : few;
    if (engines)
      CHECK(shmemx_team_copy_engines(SHMEM_TEAM_WORLD, 1) == 0, "copy engines");
    else
      choose(way, 2, 64);
    int *const own = dest + size_t(me) * count, *const from = here ? own : source;
    HIP(hipMemsetAsync(dest, 0x55, size_t(npes) * count * sizeof(int), stream));
    HIP(hipStreamSynchronize(stream));
    for (size_t i = 0; i < count; i++) got[i] = value(me, i);
    to_device(from, got.data(), count * sizeof(int));
    finish_all();
    if (me == 0) usleep(2000);
    shmemx_int_fcollect_on_stream(SHMEM_TEAM_WORLD, dest, from, count, stream);
    HIP(hipStreamSynchronize(stream));
    from_device(got.data(), dest, size_t(npes) * count * sizeof(int));
    for (size_t i = 0; i < size_t(npes) * count; i++)
      CHECK(got[i] == value(int(i / count), i % count), "%s: element %zu is %d, want %d", way, i,
            got[i], value(int(i / count), i % count));
    finish_all();
    if (engines) shmemx_team_copy_engines(SHMEM_TEAM_WORLD, 0);
  }
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(source);
  object_free(dest);
}

// More workgroups than there are channels, and copy engines: the members meet in kernels of their
// own. Rounds follow each other with nothing between, and PE 0 is late.
void many_workgroups(void) {
  constexpr size_t words = 66 * 64 * 4 + 36; // a pack for each thread of 66 workgroups, and more
  const auto all = size_t(npes);
  enum { collected, exchanged, root, sums, part, scans, kinds };
  int *source = reinterpret_cast<int *>(device_alloc(all * words * sizeof(int), 0)), *dest[kinds];
  for (int *&d : dest) d = reinterpret_cast<int *>(device_alloc(all * words * sizeof(int), 0x55));
  std::vector<int> mine(all * words), got(all * words);
  const auto value = [](int pe, size_t i) { return int(i % 1000) * (pe + 1) + pe; };
  for (size_t i = 0; i < mine.size(); i++) mine[i] = value(me, i);
  for (const char *algorithm : {"direct", "phases", "engines"}) {
    const bool engines = !strcmp(algorithm, "engines");
    if (engines && shmem_team_n_pes(SHMEM_TEAM_SHARED) < npes) continue; // they need mapped memory
    if (engines)
      choose("direct", 2, 64);
    else
      choose(algorithm, 66, 64);
    if (engines) CHECK(shmemx_team_copy_engines(SHMEM_TEAM_WORLD, 1) == 0, "copy engines");
    to_device(source, mine.data(), mine.size() * sizeof(int));
    finish_all();
    for (int round = 0; round < 3; round++) {
      if (me == 0) usleep(2000);
      shmemx_int_fcollect_on_stream(SHMEM_TEAM_WORLD, dest[collected], source, words, stream);
      shmemx_int_alltoall_on_stream(SHMEM_TEAM_WORLD, dest[exchanged], source, words, stream);
      shmemx_int_broadcast_on_stream(SHMEM_TEAM_WORLD, dest[root], source, words, npes - 1, stream);
      shmemx_int_sum_reduce_on_stream(SHMEM_TEAM_WORLD, dest[sums], source, words, stream);
      shmemx_int_sum_reduce_scatter_on_stream(SHMEM_TEAM_WORLD, dest[part], source, words, stream);
      shmemx_int_sum_inscan_on_stream(SHMEM_TEAM_WORLD, dest[scans], source, words, stream);
    }
    HIP(hipStreamSynchronize(stream));
    for (int kind = 0; kind < kinds; kind++) {
      const size_t count = kind <= exchanged ? all * words : words;
      from_device(got.data(), dest[kind], count * sizeof(int));
      for (size_t i = 0; i < count; i++) {
        const size_t at = i % words, mine_at = size_t(me) * words + at;
        int want = 0;
        for (int pe = 0; pe < npes; pe++)
          want += kind == sums || (kind == scans && pe <= me) ? value(pe, at)
                  : kind == part                              ? value(pe, mine_at)
                                                              : 0;
        if (kind == collected) want = value(int(i / words), at);
        if (kind == exchanged) want = value(int(i / words), mine_at);
        if (kind == root) want = value(npes - 1, at);
        CHECK(got[i] == want, "%s, kind %d: element %zu is %d, want %d", algorithm, kind, i, got[i],
              want);
      }
    }
    finish_all();
    if (engines) shmemx_team_copy_engines(SHMEM_TEAM_WORLD, 0);
  }
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  for (int kind = kinds; kind--;) object_free(dest[kind]);
  object_free(source);
}

struct pe_test tests[] = {{"errors of the program's own", own_errors},
                          {"back to back, with one PE late", back_to_back},
                          {"in place", in_place},
                          {"broadcasts of changing roots", broadcasts},
                          {"graphs", graphs},
                          {"two teams on two streams", two_at_once},
                          {"stores and signals on a stream", telling},
                          {"in two phases", two_phases},
                          {"more workgroups than channels", many_workgroups},
                          {"an fcollect in place", own_block},
                          {"six streams that wait", many_waiting},
                          {"teams that come and go", new_teams},
                          {"tables of algorithms", tables}};

} // namespace

extern "C" {
extern struct pe_list stream_order_lists[];
extern const size_t stream_order_count;
struct pe_list stream_order_lists[] = {PE_LIST("", tests)};
const size_t stream_order_count = 1;
}
