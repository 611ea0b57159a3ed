// SPDX-License-Identifier: MIT
// Barriers, teams and queries in kernels, ordering calls, scopes of the caller's own.
#include <algorithm>

#include "device.hpp"

#include <shmem/device/runtime.hpp>

void *device_alloc(size_t bytes, int fill, bool atomics) {
  void *p = object_alloc(bytes, atomics);
  CHECK(p, "no %zu bytes of device heap", bytes);
  HIP(hipMemsetAsync(p, fill, bytes, stream));
  finish_all();
  return p;
}
void finish_all(void) {
  HIP(hipDeviceSynchronize());
  shmem_barrier_all();
}
uint64_t wall_clock_ticks(double seconds) {
  return uint64_t(seconds * shmem::runtime::clock_rate);
}
extern "C" void device_setup(void) {
  stream = make_stream();
}
extern "C" void device_teardown(void) {
  (void)hipStreamDestroy(stream);
}

namespace {

enum Scope { thread, wave, wg, own };

// A sub-group of the caller's own: the first two waves of a workgroup, of which the others do
// nothing. Its barrier is a counter in shared memory.
struct Pair {
  unsigned *counter;
  __device__ unsigned rank() const { return threadIdx.x; }
  __device__ unsigned size() const { return 2 * shmem::arch::wave_size; }
  __device__ void sync() const {
    using namespace shmem;
    arch::wave_sync(arch::wave_size);
    if (threadIdx.x % arch::wave_size == 0) {
      arch::wait_stores();
      const unsigned ticket = arch::fetch_add<Order::acq_rel, Range::device>(counter, 1u);
      while (arch::load<Order::acquire, Range::device>(counter) < ticket / 2 * 2 + 2) arch::pause();
    }
    arch::wave_sync(arch::wave_size);
  }
};

template <class F> __device__ void as(int scope, F f) {
  if (scope == thread && threadIdx.x == 0) f(shmem::Thread{});
  if (scope == wave && threadIdx.x < shmem::arch::wave_size) f(shmem::Wave{});
  if (scope == wg) f(shmem::Workgroup{});
}

// Each member puts the round's number at all others; after the barrier all must be there, and none
// of the next round before a second barrier.
template <class S>
__device__ void rounds(S scope, shmem_team_t team, uint64_t *slots, int count, int late,
                       unsigned *bad) {
  const int n = shmem_team_n_pes(team), mine = shmem_team_my_pe(team);
  for (int r = 1; r <= count; r++) {
    if (late == mine && scope.rank() == 0 && r % 50 == 1) {
      const uint64_t until = shmem::arch::clock() + 20000;
      while (shmem::arch::clock() < until) shmem::arch::pause();
    }
    for (int i = int(scope.rank()); i < n; i += int(scope.size()))
      shmem_uint64_p(slots + mine, uint64_t(r), shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD));
    shmem::device::team_sync("rounds", team, scope);
    for (int i = int(scope.rank()); i < n; i += int(scope.size()))
      if (shmem::arch::load(slots + i) != uint64_t(r)) *bad = 1;
    shmem::device::team_sync("rounds", team, scope);
  }
}
__global__ void __launch_bounds__(1024)
    barrier_kernel(int scope, shmem_team_t team, uint64_t *slots, int count, int late,
                   unsigned *bad) {
  as(scope, [&](auto s) { rounds(s, team, slots, count, late, bad); });
}
__global__ void __launch_bounds__(1024) named_barriers(int scope) {
  if (scope == thread && threadIdx.x == 0) {
    shmem_barrier_all();
    shmem_sync_all();
    shmem_team_sync(SHMEM_TEAM_WORLD);
  }
  if (scope == wave && threadIdx.x < shmem::arch::wave_size) {
    shmemx_barrier_all_wave();
    shmemx_sync_all_wave();
    shmemx_team_sync_wave(SHMEM_TEAM_WORLD);
  }
  if (scope == wg) {
    shmemx_barrier_all_wg();
    shmemx_sync_all_wg();
    shmemx_team_sync_wg(SHMEM_TEAM_WORLD);
  }
}

void barriers(void) {
  uint64_t *slots = static_cast<uint64_t *>(device_alloc(64 * 8, 0));
  unsigned *bad = static_cast<unsigned *>(device_alloc(4, 0));
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  // The test has 14,000 barriers, for which PEs that share a GPU take turns.
  const int count = std::min(pe_rounds(100), 100);
  for (size_t t = 0; t < n; t++)
    for (int scope = thread; scope <= wg; scope++) {
      HIP(hipMemsetAsync(slots, 0, 64 * 8, stream));
      finish_all();
      // Two launches with nothing between: epochs go on.
      if (teams[t].me >= 0)
        for (int launch = 0; launch < 2; launch++)
          hipLaunchKernelGGL(barrier_kernel, dim3(1),
                             dim3(scope == wg ? 130 : shmem::arch::wave_size), 0, stream, scope,
                             teams[t].team, slots, count, int(t) % teams[t].n, bad);
      HIP(hipGetLastError());
      finish_all();
      unsigned failed;
      HIP(hipMemcpy(&failed, bad, 4, hipMemcpyDeviceToHost));
      CHECK(!failed, "team %s, scope %d", teams[t].name, scope);
    }
  for (int scope = thread; scope <= wg; scope++)
    hipLaunchKernelGGL(named_barriers, dim3(1), dim3(shmem::arch::wave_size), 0, stream, scope);
  finish_all();
  pe_teams_free(teams, n);
  object_free(bad);
  object_free(slots);
}

struct Answers {
  int my_pe, n_pes, old_my_pe, team_me, team_n, to_world, from_world, outside, accessible,
      not_accessible, addr, not_addr, major, minor;
  void *ptr, *no_ptr, *bad_pe, *team_ptr;
  char name[SHMEM_MAX_NAME_LEN];
};
__global__ void __launch_bounds__(1024)
    query_kernel(shmem_team_t team, int *object, int *private_memory, Answers *a) {
  a->my_pe = shmem_my_pe(), a->n_pes = shmem_n_pes(), a->old_my_pe = _my_pe();
  a->team_me = shmem_team_my_pe(team), a->team_n = shmem_team_n_pes(team);
  a->to_world = shmem_team_translate_pe(team, 0, SHMEM_TEAM_WORLD);
  a->from_world = shmem_team_translate_pe(SHMEM_TEAM_WORLD, shmem_my_pe(), team);
  a->outside = shmem_team_translate_pe(team, 1000, SHMEM_TEAM_WORLD);
  const int right = (shmem_my_pe() + 1) % shmem_n_pes();
  a->accessible = shmem_pe_accessible(right), a->not_accessible = shmem_pe_accessible(-1);
  a->addr = shmem_addr_accessible(object, right),
  a->not_addr = shmem_addr_accessible(private_memory, right);
  a->ptr = shmem_ptr(object, right), a->no_ptr = shmem_ptr(private_memory, right);
  a->bad_pe = shmem_ptr(object, shmem_n_pes()), a->team_ptr = shmem_team_ptr(team, object, 0);
  shmem_info_get_version(&a->major, &a->minor);
  shmem_info_get_name(a->name);
  // shmem_ptr's is an address like any other, where the PE is mapped.
  if (a->ptr)
    shmem::arch::store(static_cast<int *>(a->ptr), 1000 + shmem_my_pe());
  else
    shmem_int_p(object, 1000 + shmem_my_pe(), right);
  shmem_quiet();
}
void queries(void) {
  int *object = static_cast<int *>(device_alloc(sizeof(int), 0)), *local;
  Answers *answers;
  HIP(hipMalloc(reinterpret_cast<void **>(&local), sizeof(int)));
  HIP(hipMalloc(reinterpret_cast<void **>(&answers), sizeof(Answers)));
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  for (size_t t = 0; t < n; t++) {
    if (teams[t].me >= 0) {
      hipLaunchKernelGGL(query_kernel, dim3(1), dim3(1), 0, stream, teams[t].team, object, local,
                         answers);
      HIP(hipGetLastError());
    }
    finish_all();
    if (teams[t].me < 0) continue;
    Answers a;
    HIP(hipMemcpy(&a, answers, sizeof a, hipMemcpyDeviceToHost));
    CHECK(a.my_pe == me && a.n_pes == npes && a.old_my_pe == me, "%d of %d", a.my_pe, a.n_pes);
    CHECK(a.team_me == teams[t].me && a.team_n == teams[t].n, "%s: %d of %d", teams[t].name,
          a.team_me, a.team_n);
    CHECK(a.to_world == teams[t].pe[0] && a.from_world == teams[t].me && a.outside == -1,
          "%s: %d %d %d", teams[t].name, a.to_world, a.from_world, a.outside);
    CHECK(a.accessible && !a.not_accessible && a.addr && !a.not_addr, "%d %d %d %d", a.accessible,
          a.not_accessible, a.addr, a.not_addr);
    CHECK(!a.ptr == !shmem_ptr(object, (me + 1) % npes) &&
              !a.team_ptr == !shmem_ptr(object, teams[t].pe[0]) && !a.no_ptr && !a.bad_pe,
          "%p %p %p %p", a.ptr, a.no_ptr, a.bad_pe, a.team_ptr);
    CHECK(a.major == SHMEM_MAJOR_VERSION && a.minor == SHMEM_MINOR_VERSION &&
              strcmp(a.name, SHMEM_VENDOR_STRING) == 0,
          "%d.%d %s", a.major, a.minor, a.name);
    int got;
    HIP(hipMemcpy(&got, object, sizeof got, hipMemcpyDeviceToHost));
    if (teams[t].n == npes) CHECK(got == 1000 + (me + npes - 1) % npes, "%d", got);
  }
  pe_teams_free(teams, n);
  HIP(hipFree(answers));
  HIP(hipFree(local));
  object_free(object);
}

// The templates take any scope: here two waves, beside threads that take no part.
__global__ void __launch_bounds__(1024)
    own_scope_kernel(int *dest, const int *source, size_t n, uint64_t *sig, int right,
                     unsigned *counter) {
  if (threadIdx.x >= 2 * shmem::arch::wave_size) return;
  const Pair pair{counter};
  using namespace shmem::device;
  put("put", World{}, dest, source, n, right, pair);
  get("get", World{}, dest + n, source + n, n, right, pair);
  put_signal("put_signal", World{}, dest + 2 * n, source + 2 * n, n, sig, 7, SHMEM_SIGNAL_ADD,
             right, pair);
  if (pair.rank() == 0) shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 7);
  pair.sync();
  team_sync("barrier", SHMEM_TEAM_WORLD, pair);
}
void own_scopes(void) {
  constexpr size_t n = 1000;
  int *source = static_cast<int *>(device_alloc(3 * n * sizeof(int), 0)),
      *dest = static_cast<int *>(device_alloc(3 * n * sizeof(int), 0));
  uint64_t *sig = static_cast<uint64_t *>(device_alloc(8, 0, true));
  unsigned *counter = static_cast<unsigned *>(device_alloc(4, 0));
  static int host[3 * n];
  for (size_t i = 0; i < 3 * n; i++) host[i] = me * 10000 + int(i);
  to_device(source, host, sizeof host);
  finish_all();
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  hipLaunchKernelGGL(own_scope_kernel, dim3(1), dim3(3 * shmem::arch::wave_size), 0, stream, dest,
                     source, n, sig, right, counter);
  HIP(hipGetLastError());
  finish_all();
  HIP(hipMemcpy(host, dest, sizeof host, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < 3 * n; i++) {
    const int from = i / n == 1 ? right : left;
    CHECK(host[i] == from * 10000 + int(i), "%zu: %d", i, host[i]);
  }
  object_free(counter);
  object_free(sig);
  object_free(dest);
  object_free(source);
}

// The generic names, and a host function that calls the same names beside the kernel.
__global__ void __launch_bounds__(1024)
    generic_kernel(int *dest, double *d, uint64_t *sig, int right) {
  const int v = 42;
  shmem_p(dest, v, right);
  shmem_put(d, d + 1, 1, right);
  shmem_fence();
  shmem_atomic_add(dest + 1, 5, right);
  shmem_pe_quiet(&right, 1);
  shmem_put_signal(d + 2, d + 3, 1, sig, uint64_t(3), SHMEM_SIGNAL_SET, right);
  shmem_wait_until(sig, SHMEM_CMP_EQ, uint64_t(3));
  dest[2] = shmem_g(dest + 3, right);
  dest[4] = shmem_atomic_fetch(dest + 3, right);
}
void generics(void) {
  int *dest = static_cast<int *>(device_alloc(5 * sizeof(int), 0, true));
  double *d = static_cast<double *>(device_alloc(4 * sizeof(double), 0));
  uint64_t *sig = static_cast<uint64_t *>(device_alloc(8, 0));
  const int value = 900 + me;
  const double x[4] = {0, 1.5 + me, 0, 2.5 + me};
  to_device(dest + 3, &value, sizeof value);
  to_device(d, x, sizeof x);
  finish_all();
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  hipLaunchKernelGGL(generic_kernel, dim3(1), dim3(1), 0, stream, dest, d, sig, right);
  HIP(hipGetLastError());
  finish_all();
  int i[5];
  double y[4];
  HIP(hipMemcpy(i, dest, sizeof i, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(y, d, sizeof y, hipMemcpyDeviceToHost));
  CHECK(i[0] == 42 && i[1] == 5 && i[2] == 900 + right && i[4] == 900 + right, "%d %d %d %d", i[0],
        i[1], i[2], i[4]);
  CHECK(y[0] == 1.5 + left && y[2] == 2.5 + left, "%g %g", y[0], y[2]);
  object_free(sig);
  object_free(d);
  object_free(dest);
}

const struct pe_test tests[] = {{"barriers of all teams and scopes", barriers},
                                {"queries", queries},
                                {"scopes of the caller's own", own_scopes},
                                {"generic names", generics}};

} // namespace

extern "C" {
extern struct pe_list device_sync_lists[];
extern const size_t device_sync_count;
struct pe_list device_sync_lists[] = {PE_LIST("", tests)};
const size_t device_sync_count = 1;
}
