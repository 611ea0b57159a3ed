// SPDX-License-Identifier: MIT
// Remote memory access beyond what each type needs: sizes, odd addresses, contexts of teams,
// progress.
#include <sched.h>

#include "typed.h"

extern const struct pe_list rma_lists[], strided_lists[];
extern const size_t rma_count, strided_count;

static void fill(unsigned char *a, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) a[i] = (unsigned char)(seed * 131 + i * 7 + (i >> 8));
}

static void sizes(void) {
  static const size_t lens[] = {1,      7,       8,       9,       63,      64,         65,
                                127,    255,     256,     1023,    4095,    4096,       4097,
                                8191,   16384,   32767,   65536,   65543,   131072,     262147,
                                524288, 1048576, 1048583, 2097152, 3145728, 3145728 + 7};
  const size_t max = 3145728 + 64;
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  unsigned char *dest = shmem_malloc(max), *source = malloc(max), *want = malloc(max);
  CHECK(dest && source && want, "no memory");
  for (size_t k = 0; k < COUNT(lens); k++) {
    const size_t n = lens[k], off = k % 5;
    fill(source, n, (uint64_t)me + k);
    fill(want, n, (uint64_t)left + k);
    memset(dest, 0xee, n + 16);
    shmem_barrier_all();
    if (k & 1)
      shmem_putmem(dest + off, source, n, right);
    else
      shmem_putmem_nbi(dest + off, source, n, right);
    shmem_barrier_all();
    CHECK(memcmp(dest + off, want, n) == 0, "put of %zu", n);
    for (size_t i = 0; i < 11; i++)
      CHECK(i < off ? dest[i] == 0xee : dest[n + i] == 0xee, "put of %zu: bytes around it", n);
    // and back again from the right neighbour, which has what I sent
    memset(want, 0, n);
    if (k & 1)
      shmem_getmem_nbi(want, dest + off, n, right);
    else
      shmem_getmem(want, dest + off, n, right);
    shmem_quiet();
    CHECK(memcmp(want, source, n) == 0, "get of %zu", n);
    shmem_barrier_all();
  }
  free(want);
  free(source);
  shmem_free(dest);
}

// All combinations of odd addresses on both sides.
static void alignments(void) {
  enum { SPAN = 80 };
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  unsigned char *dest = shmem_malloc(SPAN), source[SPAN], want[SPAN];
  for (size_t d = 0; d < 17; d++) {
    for (size_t s = 0; s < 17; s += 3) {
      const size_t n = 16 + (d * 5 + s) % 31;
      memset(dest, 0xee, SPAN);
      memset(want, 0xee, SPAN);
      fill(source, SPAN, (uint64_t)left);
      memcpy(want + d, source + s, n);
      fill(source, SPAN, (uint64_t)me);
      shmem_barrier_all();
      shmem_putmem(dest + d, source + s, n, right);
      shmem_barrier_all();
      CHECK(memcmp(dest, want, SPAN) == 0, "%zu bytes from +%zu to +%zu", n, s, d);
      shmem_barrier_all();
    }
  }
  shmem_free(dest);
}

static int inbox[PE_MAX];

// PE numbers are those of the context's team.
static void team_contexts(void) {
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  int *heap = shmem_calloc(PE_MAX, sizeof *heap);
  for (size_t k = 0; k < n; k++) {
    const struct pe_team *t = &teams[k];
    memset(inbox, 0xff, sizeof inbox);
    memset(heap, 0xff, PE_MAX * sizeof *heap);
    shmem_barrier_all();
    if (t->me >= 0) {
      shmem_ctx_t c;
      CHECK(shmem_team_create_ctx(t->team, SHMEM_CTX_SERIALIZED, &c) == 0, "team_create_ctx");
      for (int i = 0; i < t->n; i++) {
        const int v = 1000 * t->me + i;
        shmem_ctx_int_p(c, &inbox[t->me], v, i);
        shmem_ctx_int_put(c, &heap[t->me], &v, 1, i);
      }
      shmem_ctx_quiet(c);
      for (int i = 0; i < t->n; i++) {
        CHECK(shmem_ctx_int_g(c, &heap[t->me], i) == 1000 * t->me + i, "ctx_g from %d", i);
        int got = -1;
        shmem_ctx_int_get(c, &got, &inbox[t->me], 1, i);
        CHECK(got == 1000 * t->me + i, "ctx_get from %d", i);
      }
      CHECK(shmem_team_sync(t->team) == 0, "sync");
      for (int i = 0; i < t->n; i++) {
        CHECK(inbox[i] == 1000 * i + t->me, "%s: [%d] = %d", t->name, i, inbox[i]);
        CHECK(heap[i] == 1000 * i + t->me, "%s: [%d] = %d", t->name, i, heap[i]);
      }
      shmem_ctx_destroy(c);
    }
    for (int i = t->me < 0 ? 0 : t->n; i < npes; i++)
      CHECK(inbox[i] == -1 && heap[i] == -1, "%s: somebody else wrote [%d]", t->name, i);
    shmem_barrier_all();
  }
  shmem_free(heap);
  pe_teams_free(teams, n);
}

static volatile long arrived;

// The target computes outside the library; puts arrive there, and gets from there come.
static void progress(void) {
  static long answer;
  arrived = answer = 0;
  shmem_barrier_all();
  if (me == 0) {
    answer = 42;
    const double start = pe_seconds();
    while (arrived != npes - 1 && pe_seconds() - start < 20) sched_yield();
    CHECK(arrived == npes - 1, "%ld of %d arrived", arrived, npes - 1);
  } else {
    while (shmem_long_g(&answer, 0) != 42) {
    }
    shmem_long_atomic_inc((long *)&arrived, 0);
    shmem_quiet();
    CHECK(shmem_long_atomic_fetch((long *)&arrived, 0) >= 1, "AMO done after quiet");
  }
  shmem_barrier_all();
}

// A blocking put, a blocking get: the source is free, the data is there.
static void source_reuse(void) {
  enum { N = 5000 };
  long *box = shmem_malloc(N * sizeof *box);
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  long source[16];
  for (int i = 0; i + 16 <= N; i += 16) {
    for (int j = 0; j < 16; j++) source[j] = me * 100000 + i + j;
    shmem_long_put(box + i, source, 16, right);
    memset(source, 0xff, sizeof source);
  }
  shmem_barrier_all();
  for (int i = 0; i < N / 16 * 16; i++) CHECK(box[i] == left * 100000 + i, "[%d]", i);
  shmem_barrier_all();
  shmem_free(box);
}

static const struct pe_test tests[] = {{"sizes up to 3 MiB", sizes},
                                       {"odd addresses", alignments},
                                       {"contexts of teams", team_contexts},
                                       {"progress without the target", progress},
                                       {"source reuse", source_reuse}};

int main(void) {
  const struct pe_list own = PE_LIST("", tests);
  struct pe_list all[64] = {own};
  size_t n = 1;
  for (size_t i = 0; i < rma_count; i++) all[n++] = rma_lists[i];
  for (size_t i = 0; i < strided_count && n < COUNT(all); i++) all[n++] = strided_lists[i];
  return pe_run("rma", all, n);
}
