// SPDX-License-Identifier: MIT
// Pieces of the program's own memory on the GPU that have been made symmetric, used by the host's
// routines. The host may not reach the memory, so copies of it are looked at.
#include "objects.hpp"
#include <cstdio>

namespace {

int me, npes;
bool atomics; // can be done on what peers have of hipMalloc's

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "PE %d: line %d: %s\n", me, __LINE__, #condition);                           \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == hipSuccess)

using Longs = std::vector<long>;
constexpr size_t n = 5000, room = n + 200;

Longs seen(const long *p, size_t count) {
  Longs v(count);
  OK(hipMemcpy(v.data(), p, count * sizeof(long), hipMemcpyDeviceToHost));
  return v;
}
long one(const long *p) {
  return seen(p, 1)[0];
}
void set(long *p, const Longs &v) {
  OK(hipMemcpy(p, v.data(), v.size() * sizeof(long), hipMemcpyHostToDevice));
  OK(hipDeviceSynchronize());
}
Longs row(long first, size_t count = n) {
  Longs v(count);
  for (size_t i = 0; i < count; i++) v[i] = first + long(i);
  return v;
}

// Members use theirs, a of `room`, by teams of each second PE.
void use_in_team() {
  shmem_team_t evens, odds;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (npes + 1) / 2, nullptr, 0, &evens);
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, nullptr, 0, &odds);
  const shmem_team_t team = me % 2 ? odds : evens;
  const int count = shmem_team_n_pes(team), mine = shmem_team_my_pe(team);
  const auto pe = [&](int i) {
    return shmem_team_translate_pe(team, (i + count) % count, SHMEM_TEAM_WORLD);
  };
  long *a;
  shmemx_buffer_t ha;
  OK(hipMalloc(&a, 4 << 20));
  set(a, Longs(room, 0));
  shmemx_team_buffer_register(team, a, room * sizeof(long), &ha);
  auto *sig = reinterpret_cast<uint64_t *>(a + n);
  const Longs own = row(me * 100000L);
  shmem_long_put_signal(a, own.data(), n, sig, 7, SHMEM_SIGNAL_SET, pe(mine + 1));
  shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 7);
  CHECK(seen(a, n) == row(pe(mine - 1) * 100000L));
  shmem_team_sync(team);
  if (atomics) {
    shmem_long_atomic_add(a, 1, pe(0));
    shmem_quiet();
    shmem_team_sync(team);
    CHECK(shmem_long_g(a, pe(0)) == pe(-1) * 100000L + count);
    shmem_team_sync(team);
  }
  set(a, row(mine));
  shmem_team_sync(team);
  shmem_long_sum_reduce(team, a, a, n);
  const Longs sum = seen(a, n);
  for (size_t i = 0; i < n; i++) CHECK(sum[i] == long(i) * count + count * (count - 1) / 2);
  for (int i = 0; i < npes; i++) CHECK(shmem_addr_accessible(a, i) == (i % 2 == me % 2));
  shmemx_buffer_unregister(ha);
  OK(hipFree(a));
  shmem_team_destroy(evens);
  shmem_team_destroy(odds);
}

void use_atomics(long *a) {
  const int next = (me + 1) % npes;
  set(a, {0, me, 7});
  shmem_barrier_all();
  for (int i = 0; i < 20; i++) shmem_long_atomic_inc(a, 0);
  CHECK(shmem_long_atomic_swap(a + 1, -1, next) == next);
  CHECK(shmem_long_atomic_fetch_add(a + 2, 5, me) == 7);
  shmem_barrier_all();
  CHECK(shmem_long_atomic_fetch(a, 0) == 20L * npes);
  CHECK(one(a + 1) == -1);
  shmem_barrier_all();
}

// a and b are two buffers, of `room` each.
void use(long *a, long *b) {
  const int next = (me + 1) % npes, last = (me + npes - 1) % npes;
  auto *sig = reinterpret_cast<uint64_t *>(b + n);
  set(a, row(0, room));
  set(b, Longs(room, 0));
  shmem_barrier_all();
  const Longs own = row(me * 100000L);
  shmem_long_put_signal(a, own.data(), n, sig, 7, SHMEM_SIGNAL_SET, next);
  shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 7);
  CHECK(seen(a, n) == row(last * 100000L));
  CHECK(one(a + n) == long(n)); // and nothing behind
  Longs back(n);
  shmem_long_get(back.data(), a, n, next);
  CHECK(back == own);
  shmem_barrier_all();
  shmem_long_put_nbi(b, a, n, next); // from one buffer to the other
  shmem_quiet();
  shmem_barrier_all();
  CHECK(seen(b, n) == row((last + npes - 1) % npes * 100000L));
  shmem_barrier_all();
  shmem_long_p(a + 17, 42 + me, next);
  shmem_long_iput(a + 100, own.data(), 3, 2, 50, next);
  shmem_quiet();
  CHECK(shmem_long_g(a + 17, next) == 42 + me);
  shmem_barrier_all();
  const Longs strided = seen(a + 100, 150);
  for (size_t i = 0; i < 50; i++) CHECK(strided[3 * i] == last * 100000L + 2 * long(i));

  if (atomics) use_atomics(a);
  for (size_t count : {size_t(3), n}) {
    set(a, row(me));
    shmem_barrier_all();
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, b, a, count);
    const Longs sum = seen(b, count);
    for (size_t i = 0; i < count; i++) CHECK(sum[i] == long(i) * npes + npes * (npes - 1) / 2);
    shmem_barrier_all();
    shmem_long_broadcast(SHMEM_TEAM_WORLD, b, a, count, npes - 1);
    CHECK(seen(b, count) == row(npes - 1, count));
    shmem_barrier_all();
    const size_t block = count / size_t(npes);
    shmem_long_fcollect(SHMEM_TEAM_WORLD, b, a, block);
    shmem_barrier_all();
    for (int pe = 0; pe < npes && block; pe++)
      CHECK(seen(b + size_t(pe) * block, block) == row(pe, block));
    shmem_barrier_all();
    shmem_long_collect(SHMEM_TEAM_WORLD, b, a, block);
    shmem_barrier_all();
    shmem_long_alltoall(SHMEM_TEAM_WORLD, b, a, block);
    shmem_barrier_all();
    for (int pe = 0; pe < npes && block; pe++)
      CHECK(seen(b + size_t(pe) * block, block) == row(pe + me * long(block), block));
    shmem_barrier_all();
  }
  CHECK(shmem_ptr(a + 3, me) == a + 3);
  const auto *there = static_cast<long *>(shmem_ptr(a + 3, next));
  set(a, row(me));
  shmem_barrier_all();
  static long any; // which is mapped where buffers are
  CHECK(!there == !shmem_ptr(&any, next));
  CHECK(!there || one(there) == next + 3);
  shmem_barrier_all();
}

// Fine-grained memory has atomics everywhere.
void use_fine(long *b, size_t bytes) {
  auto *const fine = static_cast<long *>(device_memory(bytes, true));
  CHECK(fine);
  shmemx_buffer_t handle;
  shmemx_buffer_register(fine, bytes, &handle);
  use(fine, b);
  use_atomics(fine);
  shmemx_buffer_unregister(handle);
  OK(hipFree(fine));
}

} // namespace

int main() {
  shmem_init();
  me = shmem_my_pe(), npes = shmem_n_pes(), atomics = atomics_on_coarse();
  // Two pieces of one allocation, at other places on each PE, and one of another.
  long *all, *other;
  const size_t bytes = room * sizeof(long);
  OK(hipMalloc(&all, 4 * bytes));
  OK(hipMalloc(&other, 4 << 20)); // ROCm cuts allocations of less than 2 MiB from one
  long *a = all + 8 * me + 1, *b = a + room;
  shmemx_buffer_t ha, hb, hc;
  shmemx_buffer_register(a, bytes, &ha);
  shmemx_buffer_register(b, bytes, &hb);
  shmemx_buffer_register(other, bytes, &hc);
  use(a, b);
  use(other, a);
  use_fine(a, bytes);
  shmemx_buffer_unregister(ha);
  CHECK(!shmem_addr_accessible(a, me));
  use(b, other); // its allocation is still open
  shmemx_buffer_unregister(hb);
  shmemx_buffer_register(a, bytes, &ha); // and once more
  // Beside one of the host.
  auto *host = static_cast<long *>(malloc(bytes));
  shmemx_buffer_register(host, bytes, &hb);
  use(a, other);
  set(a, row(me));
  shmem_barrier_all();
  shmem_long_get(host, a, n, (me + 1) % npes);
  CHECK(Longs(host, host + n) == row((me + 1) % npes));
  shmem_barrier_all();
  shmemx_buffer_unregister(hc);
  OK(hipFree(other));
  use_in_team();
  shmem_finalize(); // unregisters the rest
  CHECK(one(a) == me);
  OK(hipFree(all));
  free(host);
  return 0;
}
