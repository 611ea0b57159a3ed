// SPDX-License-Identifier: MIT
// Collectives that kernels call, by the names of the table, for each scope, short and long, one
// after the other in one kernel. test/stream looks at every type; here are those that differ in
// kind.
#include "device.hpp"
#include "poison.hpp"
#include <algorithm>
#include <utility>
#include <vector>

namespace {

enum Scope { thread, wave, wg };
enum What {
  bcast,
  gather,
  uneven,
  exchange,
  strided,
  sum,
  largest,
  bits,
  block_sum,
  in_scan,
  ex_scan,
  what_end
};

// Each call of the routine by its three names.
#define BY_SCOPE(name, xname, ...)                                                                 \
  do {                                                                                             \
    if constexpr (scope == thread) name(__VA_ARGS__);                                              \
    if constexpr (scope == wave) xname##_wave(__VA_ARGS__);                                        \
    if constexpr (scope == wg) xname##_wg(__VA_ARGS__);                                            \
  } while (0)

struct Call {
  int root, rounds;
  shmem_team_t team;
  int *dest;
  const int *source;
  size_t n;
};
// A kernel each: with all of them in one clang 15 takes more than ten minutes for gfx90a.
template <int what, int scope> __global__ void __launch_bounds__(1024) integers(Call c) {
  for (int r = 0; r < c.rounds; r++) {
    if constexpr (what == bcast)
      BY_SCOPE(shmem_int_broadcast, shmemx_int_broadcast, c.team, c.dest, c.source, c.n, c.root);
    if constexpr (what == gather)
      BY_SCOPE(shmem_int_fcollect, shmemx_int_fcollect, c.team, c.dest, c.source, c.n);
    if constexpr (what == uneven)
      BY_SCOPE(shmem_int_collect, shmemx_int_collect, c.team, c.dest, c.source,
               c.n / size_t(1 + shmem_team_my_pe(c.team) % 2));
    if constexpr (what == exchange)
      BY_SCOPE(shmem_int_alltoall, shmemx_int_alltoall, c.team, c.dest, c.source, c.n);
    if constexpr (what == strided)
      BY_SCOPE(shmem_int_alltoalls, shmemx_int_alltoalls, c.team, c.dest, c.source, 2, 3, c.n);
    if constexpr (what == sum)
      BY_SCOPE(shmem_int_sum_reduce, shmemx_int_sum_reduce, c.team, c.dest, c.source, c.n);
    if constexpr (what == largest)
      BY_SCOPE(shmem_int_max_reduce, shmemx_int_max_reduce, c.team, c.dest, c.source, c.n);
    if constexpr (what == bits)
      BY_SCOPE(shmem_uint_xor_reduce, shmemx_uint_xor_reduce, c.team,
               reinterpret_cast<unsigned *>(c.dest), reinterpret_cast<const unsigned *>(c.source),
               c.n);
    if constexpr (what == block_sum)
      BY_SCOPE(shmemx_int_sum_reduce_scatter, shmemx_int_sum_reduce_scatter, c.team, c.dest,
               c.source, c.n);
    if constexpr (what == in_scan)
      BY_SCOPE(shmem_int_sum_inscan, shmemx_int_sum_inscan, c.team, c.dest, c.source, c.n);
    if constexpr (what == ex_scan)
      BY_SCOPE(shmem_int_sum_exscan, shmemx_int_sum_exscan, c.team, c.dest, c.source, c.n);
    c.root = (c.root + 1) % shmem_team_n_pes(c.team); // the results of the last round are looked at
  }
}

using Kernel = void (*)(Call);
template <int... k> Kernel integers_of(int what, int scope, std::integer_sequence<int, k...>) {
  const Kernel all[] = {integers<k / 3, k % 3>...};
  return all[what * 3 + scope];
}

constexpr size_t most = 1300;
size_t room; // words, three times what all PEs have for strided ones
int *source, *dest;
std::vector<int> host;

int sample(int pe, size_t i) {
  return int((unsigned(pe) * 2654435761u) ^ unsigned(i * 40503 + 77));
}
// Element i of dest, or false where nothing is stored.
bool expected(int what, const struct pe_team &t, size_t n, int root, size_t i, int *v) {
  const size_t all = n * size_t(t.n);
  unsigned acc = 0;
  switch (what) {
  case bcast:
    if (i >= n) return false;
    *v = sample(t.pe[root], i);
    return true;
  case gather:
    if (i >= all) return false;
    *v = sample(t.pe[i / n], i % n);
    return true;
  case uneven:
    for (int m = 0; m < t.n; m++) {
      const size_t theirs = n / size_t(1 + m % 2);
      if (i < theirs) return *v = sample(t.pe[m], i), true;
      i -= theirs;
    }
    return false;
  case exchange:
    if (i >= all) return false;
    *v = sample(t.pe[i / n], size_t(t.me) * n + i % n);
    return true;
  case strided:
    if (i % 2 || i / 2 >= all) return false;
    i /= 2;
    *v = sample(t.pe[i / n], 3 * (size_t(t.me) * n + i % n));
    return true;
  default:
    if (i >= n) return false;
    const int end = what == in_scan ? t.me + 1 : what == ex_scan ? t.me : t.n;
    for (int m = 0; m < end; m++) {
      const int one = sample(t.pe[m], what == block_sum ? size_t(t.me) * n + i : i);
      acc = what == largest ? (m && int(acc) > one ? acc : unsigned(one))
            : what == bits  ? acc ^ unsigned(one)
                            : acc + unsigned(one);
    }
    *v = int(acc);
    return true;
  }
}

void every_scope(void) {
  room = size_t(std::max(npes, 8)) * 3 * (most + 16);
  host.resize(room);
  source = static_cast<int *>(device_alloc(room * sizeof(int), 0));
  dest = static_cast<int *>(device_alloc(room * sizeof(int), 0));
  for (size_t i = 0; i < room; i++) host[i] = sample(me, i);
  HIP(hipMemcpy(source, host.data(), room * sizeof(int), hipMemcpyHostToDevice));
  finish_all();
  struct pe_team teams[16];
  const size_t count = pe_teams(teams, COUNT(teams));
  int turn = 0;
  for (size_t t = 0; t < count; t++)
    for (int what = 0; what < what_end; what++)
      for (int scope = thread; scope <= wg; scope++)
        for (size_t n : {size_t(0), size_t(5), size_t(900), most}) {
          turn++;
          if (t > 0 && turn % 11 != 0) continue; // all of the world, some of the others
          const size_t shift = size_t(turn % 3);
          HIP(hipMemset(dest, 0x55, room * sizeof(int)));
          const size_t packs = what == uneven ? 1 : (n * sizeof(int) + 15) / 16;
          if (teams[t].me >= 0) poison(teams[t].team, packs, stream);
          finish_all();
          if (teams[t].me < 0) {
            finish_all();
            continue;
          }
          const int rounds = 3, root = turn % teams[t].n;
          const Call c{root, rounds, teams[t].team, dest + shift, source, n};
          const Kernel kernel =
              integers_of(what, scope, std::make_integer_sequence<int, 3 * what_end>());
          hipLaunchKernelGGL(kernel, dim3(1),
                             dim3(scope == wg     ? 130
                                  : scope == wave ? shmem::arch::wave_size
                                                  : 1),
                             0, stream, c);
          HIP(hipGetLastError());
          finish_all();
          CHECK(poison_spoilt(teams[t].team, packs, stream) == 0,
                "%d, scope %d, team %s, n %zu: words behind the message", what, scope,
                teams[t].name, n);
          HIP(hipMemcpy(host.data(), dest, room * sizeof(int), hipMemcpyDeviceToHost));
          for (size_t i = 0; i + shift < room; i++) {
            int want = 0x55555555;
            expected(what, teams[t], n, (root + rounds - 1) % teams[t].n, i, &want);
            CHECK(host[i + shift] == want,
                  "%d, scope %d, team %s, n %zu: element %zu is %d, want %d", what, scope,
                  teams[t].name, n, i, host[i + shift], want);
          }
        }
  pe_teams_free(teams, count);
  object_free(dest);
  object_free(source);
}

// Types that are combined in another one, and the generic names.
__global__ void other_types(double *d, float *f, uint16_t *half, uint16_t *brain, double *complex,
                            size_t n) {
  shmemx_double_sum_reduce_wg(SHMEM_TEAM_WORLD, d, d, n);
  shmemx_float_prod_reduce_wg(SHMEM_TEAM_WORLD, f, f, n);
  shmemx_half_sum_reduce_wg(SHMEM_TEAM_WORLD, half, half, n);
  shmemx_bfloat16_max_reduce_wg(SHMEM_TEAM_WORLD, brain, brain, n);
  shmemx_complexd_prod_reduce_wg(SHMEM_TEAM_WORLD, reinterpret_cast<shmem_complexd_ *>(complex),
                                 reinterpret_cast<shmem_complexd_ *>(complex), n);
  if (threadIdx.x == 0) shmem_sum_reduce(SHMEM_TEAM_WORLD, d + n, d + n, 1);
}
void floating(void) {
  constexpr size_t n = 700;
  auto *d = static_cast<double *>(device_alloc((n + 1) * 8, 0)),
       *z = static_cast<double *>(device_alloc(n * 16, 0));
  auto *f = static_cast<float *>(device_alloc(n * 4, 0));
  auto *h = static_cast<uint16_t *>(device_alloc(n * 2, 0)),
       *b = static_cast<uint16_t *>(device_alloc(n * 2, 0));
  static double hd[n + 1], hz[2 * n];
  static float hf[n];
  static uint16_t hh[n], hb[n];
  for (size_t i = 0; i < n; i++) {
    hd[i] = 0.1 * double(i) + me, hf[i] = 1 + float((i + size_t(me)) % 2);
    hh[i] = uint16_t(0x3c00);                                     // 1
    hb[i] = uint16_t(0x3f80 + ((i + size_t(me)) % 2 ? 0x40 : 0)); // 1 or 1.5
    hz[2 * i] = 0, hz[2 * i + 1] = 1;                             // i
  }
  hd[n] = 1;
  HIP(hipMemcpy(d, hd, sizeof hd, hipMemcpyHostToDevice));
  HIP(hipMemcpy(f, hf, sizeof hf, hipMemcpyHostToDevice));
  HIP(hipMemcpy(h, hh, sizeof hh, hipMemcpyHostToDevice));
  HIP(hipMemcpy(b, hb, sizeof hb, hipMemcpyHostToDevice));
  HIP(hipMemcpy(z, hz, sizeof hz, hipMemcpyHostToDevice));
  finish_all();
  hipLaunchKernelGGL(other_types, dim3(1), dim3(128), 0, stream, d, f, h, b, z, n);
  HIP(hipGetLastError());
  finish_all();
  HIP(hipMemcpy(hd, d, sizeof hd, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(hf, f, sizeof hf, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(hh, h, sizeof hh, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(hb, b, sizeof hb, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(hz, z, sizeof hz, hipMemcpyDeviceToHost));
  static const uint16_t small_halves[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400,
                                          0x4500, 0x4600, 0x4700, 0x4800};
  static const double powers[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  for (size_t i = 0; i < n; i++) {
    double want_d = 0.1 * double(i);
    float want_f = 1 + float(i % 2);
    for (int pe = 1; pe < npes; pe++)
      want_d += 0.1 * double(i) + pe, want_f *= 1 + float((i + size_t(pe)) % 2);
    const uint16_t want_b = npes > 1 || i % 2 ? 0x3fc0 : 0x3f80;
    CHECK(hd[i] == want_d && hf[i] == want_f, "%zu: %g %g", i, hd[i], double(hf[i]));
    if (npes < 9) CHECK(hh[i] == small_halves[npes], "%zu: half 0x%x", i, hh[i]);
    CHECK(hb[i] == want_b, "%zu: bfloat16 0x%x", i, hb[i]);
    CHECK(hz[2 * i] == powers[npes % 4][0] && hz[2 * i + 1] == powers[npes % 4][1], "%zu: %g %g", i,
          hz[2 * i], hz[2 * i + 1]);
  }
  CHECK(hd[n] == npes, "%g", hd[n]);
  for (void *p : {static_cast<void *>(b), static_cast<void *>(h), static_cast<void *>(f),
                  static_cast<void *>(z), static_cast<void *>(d)})
    object_free(p);
}

const struct pe_test tests[] = {{"collectives of all scopes", every_scope},
                                {"floating-point reductions", floating}};

} // namespace

extern "C" {
extern struct pe_list device_coll_lists[];
extern const size_t device_coll_count;
struct pe_list device_coll_lists[] = {PE_LIST("", tests)};
const size_t device_coll_count = 1;
}
