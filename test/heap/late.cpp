// SPDX-License-Identifier: MIT
// A GPU that no PE asks for at init: the program has no kernels.
//   late closed           nothing asks
//   late memory           shmem_malloc_with_hints opens it, with teams from before
//   late buffer           so does shmemx_buffer_register of device memory
//   late stream | team    wrong: a call on a stream, and a buffer of some PEs, before
//   late current D0 D1... PE i has made device Di current
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shmemx.h>

#include "late_hip.hpp"

namespace {

int me, n;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "PE %d: line %d: %s\n", me, __LINE__, #condition);                           \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

constexpr int words = 1000;

// Each PE stores to its right neighbour by the host, and all sum on a stream.
void use(int *p, shmem_team_t team) {
  int to[words], from[words];
  const int right = (me + 1) % n, left = (me + n - 1) % n;
  for (int i = 0; i < words; i++) to[i] = me * words + i;
  shmem_int_put(p, to, words, right);
  shmem_barrier_all();
  shmem_int_get(from, p, words, me);
  for (int i = 0; i < words; i++) CHECK(from[i] == left * words + i);
  int *sums = p + words;
  CHECK(shmemx_int_sum_reduce_on_stream(team, sums, p, words, nullptr) == 0);
  CHECK(hip_finish());
  shmem_int_get(from, sums, words, me);
  int expected = 0;
  for (int pe = 0; pe < n; pe++) {
    const bool mine = shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, team) >= 0;
    if (mine) expected += (pe + n - 1) % n * words;
  }
  const int members = shmem_team_n_pes(team);
  for (int i = 0; i < words; i++) CHECK(from[i] == expected + members * i);
  shmem_barrier_all();
}

void memory() {
  int *host = static_cast<int *>(shmem_malloc(sizeof(int)));
  // The teams: of every second PE; and of all, in the other order.
  shmem_team_t half, listed;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, me % 2, 2, (n + 1 - me % 2) / 2, nullptr, 0,
                                 &half) == 0);
  int *pes = new int[size_t(n)];
  for (int i = 0; i < n; i++) pes[i] = n - 1 - i;
  CHECK(shmemx_team_create(SHMEM_TEAM_WORLD, pes, n, nullptr, 0, &listed) == 0);
  delete[] pes;
  for (int round = 0; round < 2; round++) {
    int *p =
        static_cast<int *>(shmem_malloc_with_hints(2 * words * sizeof(int), SHMEMX_MALLOC_DEVICE));
    CHECK(p);
    use(p, SHMEM_TEAM_WORLD);
    use(p, half);
    use(p, listed);
    shmem_free(p);
  }
  shmem_team_destroy(half);
  shmem_team_destroy(listed);
  shmem_free(host);
}

int *allocate() {
  void *p = nullptr;
  CHECK(hip_malloc(&p, 4 << 20));
  return static_cast<int *>(p);
}

void buffer() {
  static int statics[words];
  shmemx_buffer_t host, device;
  char *own = static_cast<char *>(malloc(1 << 20));
  shmemx_buffer_register(own, 1 << 20, &host);
  int *p = allocate();
  shmemx_buffer_register(p, 4 << 20, &device);
  use(p, SHMEM_TEAM_WORLD);
  shmem_int_put(statics, p, 1, (me + 1) % n);
  shmem_putmem(own, p, 64, (me + 1) % n);
  shmem_barrier_all();
  shmemx_buffer_unregister(device);
  shmemx_buffer_unregister(host);
  CHECK(hip_free(p));
  free(own);
}

void team() {
  shmem_team_t one;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, me, 1, 1, nullptr, 0, &one);
  shmemx_buffer_t device;
  shmemx_team_buffer_register(one, allocate(), 4 << 20, &device);
}

} // namespace

int main(int argc, char **argv) {
  const char *const what = argc > 1 ? argv[1] : "";
  const auto is = [&](const char *name) { return !strcmp(what, name); };
  if (is("current")) {
    const char *rank = getenv("PMIX_RANK");
    const int at = 2 + (rank ? atoi(rank) : 0);
    if (at >= argc || !hip_set_device(atoi(argv[at]))) return 2;
  }
  for (int round = 0; round < 2; round++) {
    shmem_init();
    me = shmem_my_pe(), n = shmem_n_pes();
    shmem_barrier_all();
    if (is("memory")) memory();
    if (is("buffer")) buffer();
    if (is("stream")) shmemx_barrier_all_on_stream(nullptr);
    if (is("team")) team();
    shmem_finalize();
  }
  return 0;
}
