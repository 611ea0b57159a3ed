// SPDX-License-Identifier: MIT
// Collectives that move bytes, RMA, signals and atomics on a stream.
#include "poison.hpp"
#include "stream.hpp"

#include <algorithm>
#include <vector>

namespace {

constexpr size_t most = 9000, blocks = 8; // of bytes for one member; members at most
constexpr size_t room = (most + 64) * blocks * 2;
char *source, *dest;
unsigned char host[room], want[room];

struct Case {
  const char *algorithm;
  unsigned workgroups, threads;
  size_t n, shift, other; // bytes; of dest and source from an aligned address
};
// Less than a pack, ragged, more than one round of lines.
template <class F> void cases(F f) {
  const size_t sizes[] = {0, 1, 40, 777, 4096, most};
  int turn = 0;
  for (const char *algorithm : {"lines", "direct"})
    for (size_t n : sizes)
      for (int k = 0; k < 2; k++, turn++)
        f(Case{algorithm, turn & 1 ? 2u : 1u, n > 2000 ? 256u : 64u, n,
               size_t(turn % 5 == 1   ? 4
                      : turn % 5 == 2 ? 3
                                      : 0),
               size_t(turn % 7 == 1   ? 4
                      : turn % 7 == 3 ? 1
                      : turn % 7 == 2 ? 3
                                      : 0)});
}
void fill(const struct pe_team &t, const Case &c, size_t bytes, int salt) {
  for (size_t i = 0; i < bytes; i++) host[i] = sample(me, salt, i);
  to_device(source + c.other, host, bytes);
  HIP(hipMemset(dest, 0x55, room));
  memset(want, 0x55, room);
  choose(c.algorithm, c.workgroups, c.threads);
  if (t.me >= 0) poison(t.team, (most + 15) / 16, stream);
  finish_all();
}
// packs: the most that one member sends to another by lines at once.
void compare(const char *what, const struct pe_team &t, const Case &c, size_t bytes, size_t packs) {
  const char *team = t.name;
  HIP(hipStreamSynchronize(stream));
  const uint64_t spoilt = poison_spoilt(t.team, packs, stream);
  CHECK(spoilt == 0, "%s, %s, team %s, n %zu: %llu words behind the message", what, c.algorithm,
        team, c.n, (unsigned long long)spoilt);
  from_device(host, dest, bytes + c.shift + 32);
  for (size_t i = 0; i < bytes + c.shift + 32; i++)
    CHECK(host[i] == want[i],
          "%s, %s, team %s, %u x %u, n %zu, shifts %zu %zu: byte %zu is %u, want %u", what,
          c.algorithm, team, c.workgroups, c.threads, c.n, c.shift, c.other, i, host[i], want[i]);
  finish_all();
}

void on_team(const struct pe_team &t) {
  const auto n_pes = size_t(t.n);
  int salt = 0;
  cases([&](const Case &c) {
    char *d = dest + c.shift;
    const char *s = source + c.other;
    const size_t packs = strcmp(c.algorithm, "lines") == 0 ? (c.n + 15) / 16 : 0;
    salt++;
    const int root = salt % t.n;
    // broadcast
    fill(t, c, c.n, salt);
    for (size_t i = 0; i < c.n; i++) want[c.shift + i] = sample(t.pe[root], salt, i);
    if (t.me >= 0) {
      CHECK(shmemx_broadcastmem_on_stream(t.team, d, s, c.n, root, stream) == 0, "broadcast");
      compare("broadcast", t, c, c.n, packs);
    } else {
      finish_all();
    }
    // fcollect
    fill(t, c, c.n, salt + 100);
    for (size_t m = 0; m < n_pes; m++)
      for (size_t i = 0; i < c.n; i++) want[c.shift + m * c.n + i] = sample(t.pe[m], salt + 100, i);
    if (t.me >= 0) {
      CHECK(shmemx_fcollectmem_on_stream(t.team, d, s, c.n, stream) == 0, "fcollect");
      compare("fcollect", t, c, n_pes * c.n, packs);
    } else {
      finish_all();
    }
    // collect, of less from every other member
    auto size = [&](size_t m) { return m & 1 ? c.n / 3 : c.n; };
    fill(t, c, c.n, salt + 200);
    size_t at = c.shift;
    for (size_t m = 0; m < n_pes; m++)
      for (size_t i = 0; i < size(m); i++) want[at++] = sample(t.pe[m], salt + 200, i);
    if (t.me >= 0) {
      CHECK(shmemx_collectmem_on_stream(t.team, d, s, size(size_t(t.me)), stream) == 0, "collect");
      compare("collect", t, c, at - c.shift, 1);
    } else {
      finish_all();
    }
    // alltoall
    fill(t, c, n_pes * c.n, salt + 300);
    for (size_t m = 0; m < n_pes; m++)
      for (size_t i = 0; i < c.n; i++)
        want[c.shift + m * c.n + i] =
            sample(t.pe[m], salt + 300, size_t(std::max(t.me, 0)) * c.n + i);
    if (t.me >= 0) {
      CHECK(shmemx_alltoallmem_on_stream(t.team, d, s, c.n, stream) == 0, "alltoall");
      compare("alltoall", t, c, n_pes * c.n, packs);
    } else {
      finish_all();
    }
  });
  // alltoalls, of elements of each size
  const auto strided = [&](size_t unit, ptrdiff_t dst, ptrdiff_t sst, size_t n, auto call) {
    const Case c{"direct", 2, 64, n, unit == 1 ? size_t(3) : 0, unit == 1 ? size_t(5) : 0};
    fill(t, c, n_pes * n * size_t(sst) * unit, 7);
    for (size_t m = 0; m < n_pes; m++)
      for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < unit; b++)
          want[c.shift + (m * n + i) * size_t(dst) * unit + b] =
              sample(t.pe[m], 7, (size_t(std::max(t.me, 0)) * n + i) * size_t(sst) * unit + b);
    if (t.me < 0) return finish_all();
    CHECK(call(dest + c.shift, source + c.other, dst, sst, n) == 0, "alltoalls");
    compare("alltoalls", t, c, n_pes * n * size_t(dst) * unit, 0);
  };
#define STRIDED(T, name, ...)                                                                      \
  strided(sizeof(T), __VA_ARGS__,                                                                  \
          [&](char *d, const char *s, ptrdiff_t dst, ptrdiff_t sst, size_t n) {                    \
            return shmemx_##name##_on_stream(t.team, reinterpret_cast<T *>(d),                     \
                                             reinterpret_cast<const T *>(s), dst, sst, n, stream); \
          })
  STRIDED(int, int_alltoalls, 2, 3, 0);
  STRIDED(int, int_alltoalls, 2, 3, 1);
  STRIDED(int, int_alltoalls, 2, 3, 333);
  STRIDED(char, alltoallsmem, 3, 2, 501);
  STRIDED(short, alltoalls, 1, 5, 77);
  STRIDED(double, alltoalls, 4, 1, 130);
#undef STRIDED
}

void moving(void) {
  source = device_alloc(room, 0x55);
  dest = device_alloc(room, 0x55);
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  for (size_t t = 0; t < n && t < 5; t++) on_team(teams[t]);
  pe_teams_free(teams, n);
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(dest);
  object_free(source);
}

// All in the stream's order, with one look at the end.
void rma(void) {
  constexpr size_t large = 5 << 20;
  source = device_alloc(large, 0);
  dest = device_alloc(large, 0);
  auto *words = reinterpret_cast<uint64_t *>(device_alloc(4096, 0, true));
  uint64_t *sig = words, *counter = words + 8, *seen = words + 16, *out = words + 100;
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  std::vector<unsigned char> data(large);
  for (size_t n :
       {size_t(1), size_t(3000), size_t(200000), large}) { // by kernels, and by the copy engine
    for (size_t i = 0; i < n; i++) data[i] = sample(me, int(n % 97), i);
    to_device(source, data.data(), n);
    HIP(hipMemset(words, 0, 4096));
    finish_all();
    shmemx_putmem_signal_on_stream(dest, source, n, sig, 3, SHMEM_SIGNAL_ADD, right, stream);
    shmemx_signal_wait_until_on_stream(sig, SHMEM_CMP_GE, 3, stream);
    HIP(hipMemcpyAsync(source, dest, n, hipMemcpyDeviceToDevice, stream)); // after the wait
    shmemx_barrier_all_on_stream(stream);
    shmemx_getmem_on_stream(dest, source, n, right, stream); // what was here
    HIP(hipStreamSynchronize(stream));
    from_device(data.data(), dest, n);
    for (size_t i = 0; i < n; i++)
      CHECK(data[i] == sample(me, int(n % 97), i), "%zu bytes: %zu", n, i);
    finish_all();
  }
  HIP(hipMemset(words, 0, 4096));
  finish_all();
  shmemx_ulong_p_on_stream(words + 40, 1000ul + unsigned(me), right, stream);
  shmemx_short_p_on_stream(reinterpret_cast<short *>(words + 41), short(7 + me), right, stream);
  shmemx_quiet_on_stream(stream);
  shmemx_fence_on_stream(stream);
  shmemx_signal_set_on_stream(sig, 9, right, stream);
  shmemx_signal_wait_until_on_stream(sig, SHMEM_CMP_GE, 9, stream);
  shmemx_signal_add_on_stream(sig, 1, right, stream);
  shmemx_signal_wait_until_on_stream(sig, SHMEM_CMP_EQ, 10, stream);
  for (int k = 0; k < 10; k++) {
    shmemx_uint64_atomic_add_on_stream(counter, 5, 0, stream);
    shmemx_uint64_atomic_inc_on_stream(counter, 0, stream);
    shmemx_uint64_atomic_xor_on_stream(counter + 1, uint64_t(1) << (me * 2), 0, stream);
    shmemx_uint64_atomic_or_on_stream(counter + 2, uint64_t(1) << me, 0, stream);
  }
  shmemx_sync_all_on_stream(stream);
  shmemx_uint64_atomic_fetch_on_stream(seen, counter, 0, stream);
  shmemx_uint64_atomic_fetch_on_stream(seen + 1, counter + 1, 0, stream);
  shmemx_uint64_atomic_fetch_on_stream(seen + 2, counter + 2, 0, stream);
  CHECK(shmemx_team_sync_on_stream(SHMEM_TEAM_WORLD, stream) == 0, "sync");
  shmemx_int_atomic_swap_on_stream(reinterpret_cast<int *>(out),
                                   reinterpret_cast<int *>(words + 40), 77, right, stream);
  shmemx_int_atomic_compare_swap_on_stream(
      reinterpret_cast<int *>(out + 1), reinterpret_cast<int *>(words + 40), 77, 78, right, stream);
  shmemx_int_atomic_fetch_add_on_stream(reinterpret_cast<int *>(out + 2),
                                        reinterpret_cast<int *>(words + 40), 2, right, stream);
  shmemx_float_atomic_set_on_stream(reinterpret_cast<float *>(words + 42), 2.5f, right, stream);
  shmemx_barrier_all_on_stream(stream);
  HIP(hipStreamSynchronize(stream));
  uint64_t got[128];
  from_device(got, words, sizeof got);
  const auto n = uint64_t(npes);
  CHECK(got[16] == 60 * n && got[17] == 0 && got[18] == (uint64_t(1) << n) - 1, "%llu %llu %llu",
        (unsigned long long)got[16], (unsigned long long)got[17], (unsigned long long)got[18]);
  float f;
  short s;
  memcpy(&f, got + 42, 4), memcpy(&s, got + 41, 2);
  CHECK(int(got[40]) == 80 && int(got[100]) == 1000 + me && int(got[101]) == 77 &&
            int(got[102]) == 78,
        "%d %d %d %d", int(got[40]), int(got[100]), int(got[101]), int(got[102]));
  CHECK(f == 2.5f && s == 7 + left, "%g %d", double(f), s);
  object_free(words);
  object_free(dest);
  object_free(source);
}

struct pe_test tests[] = {{"broadcast, fcollect, collect, alltoall, alltoalls", moving},
                          {"RMA, signals, atomics, barriers", rma}};

} // namespace

extern "C" {
extern struct pe_list stream_move_lists[];
extern const size_t stream_move_count;
struct pe_list stream_move_lists[] = {PE_LIST("", tests)};
const size_t stream_move_count = 1;
}
