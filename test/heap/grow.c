// SPDX-License-Identifier: MIT
// A heap that grows from 4 MiB to 64, see meson.build: where it ends, what peers see behind its
// first size, and that the system gets back what is freed there. That in device memory comes and
// goes in chunks, each for a block of more than 4 MiB.
#include "harness.h"
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, KEPT = 4 * MIB, MOST = 64 * MIB };
static unsigned char *start; // of the heap, on every PE
static int away;             // peers are on other nodes
static int chunks;           // it has chunks: in device memory, and on several nodes

// The bytes of memory that [p, p + n) has.
static size_t there(const void *p, size_t n) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p & ~(page - 1);
  const size_t pages = ((uintptr_t)p + n - at + page - 1) / page;
  unsigned char *in = malloc(pages);
  CHECK(in && !mincore((void *)at, pages * page, in), "mincore");
  size_t sum = 0;
  for (size_t i = 0; i < pages; i++) sum += in[i] & 1;
  free(in);
  return sum * page;
}

static void paint(unsigned char *p, size_t n, int salt) {
  for (size_t i = 0; i < n; i += 64) p[i] = (unsigned char)(i / 64 * 7 + (size_t)salt);
}
static void painted(const unsigned char *p, size_t n, int salt) {
  for (size_t i = 0; i < n; i += 64)
    CHECK(p[i] == (unsigned char)(i / 64 * 7 + (size_t)salt), "byte %zu of salt %d: %d", i, salt,
          p[i]);
}

static void many(void) {
  enum { N = 15 };
  const size_t bytes = 4 * MIB;
  unsigned char *block[N];
  const int to = (me + 1) % npes, from = (me + npes - 1) % npes;
  for (int k = 0; k < N; k++) {
    block[k] = shmem_malloc(bytes);
    CHECK(block[k], "block %d", k);
    CHECK(block[k] == start + (size_t)k * bytes, "block %d", k); // the same addresses as ever
    paint(block[k], bytes / 2, me + k);
    // The peer sees the new part by all ways.
    shmem_putmem(block[k] + bytes / 2, block[k], bytes / 2, to);
    shmem_barrier_all();
    painted(block[k] + bytes / 2, bytes / 2, from + k);
    const unsigned char *theirs = shmem_ptr(block[k], to);
    CHECK(theirs || away, "shmem_ptr of block %d", k);
    if (theirs) painted(theirs, bytes / 2, to + k);
    long *count = (long *)(block[k] + bytes) - 1, got = -1;
    *count = 0;
    shmem_barrier_all();
    shmem_long_atomic_add(count, 5 + me, to);
    shmem_barrier_all();
    shmem_long_get(&got, count, 1, me);
    CHECK(got == 5 + from, "atomic: %ld", got);
  }
  CHECK(!shmem_malloc(8 * MIB), "beyond SHMEM_SYMMETRIC_MAX");
  CHECK(!shmem_malloc((size_t)1 << 50), "far beyond it");
  for (int k = 0; k < N; k++) painted(block[k], bytes / 2, me + k);
  CHECK(there(start, N * bytes) >= N * bytes - MIB, "painted, but not there");
  for (int k = 0; k < N; k++) {
    shmem_free(block[k]);
    const size_t has = there(block[k], bytes);
    CHECK(k == 0 ? has > 0 : has == 0, "block %d has %zu bytes when it is free", k, has);
  }
}

// Small blocks: their memory goes when that of all around has gone.
static void small(void) {
  enum { N = 12 * MIB / 1000 };
  static void *block[N];
  for (int k = 0; k < N; k++) {
    block[k] = shmem_align(k % 3 ? 64 : 256, 700 + (size_t)k % 300);
    CHECK(block[k], "block %d", k);
    memset(block[k], me + 1, 700);
  }
  const unsigned char *end = (unsigned char *)block[N - 1] + 1000;
  CHECK(end > start + KEPT + 4 * MIB, "they did not reach the part that goes back");
  for (int k = 0; k < N; k += 2) shmem_free(block[k]);
  for (int k = 1; k < N; k += 2)
    for (int i = 0; i < 700; i++)
      CHECK(((unsigned char *)block[k])[i] == me + 1, "block %d lost byte %d", k, i);
  for (int k = 1; k < N; k += 2) shmem_free(block[k]);
  const size_t has = there(start + KEPT, MOST - KEPT);
  CHECK(has == 0, "%zu bytes are left", has);
  CHECK(there(start, KEPT) > 0, "the kept part went");
}

static void resized(void) {
  const size_t little = 3 * MIB;
  unsigned char *p = shmem_malloc(little);
  CHECK(p == start, "the first block");
  paint(p, little, me);
  unsigned char *q = shmem_realloc(p, 32 * MIB); // over the border, in place
  CHECK(q == p, "%p", (void *)q);
  painted(q, little, me);
  paint(q, 32 * MIB, me + 3);
  q = shmem_realloc(q, 6 * MIB);
  CHECK(q == p, "%p", (void *)q);
  painted(q, 6 * MIB, me + 3);
  CHECK(there(q, 6 * MIB) == 6 * MIB, "it lost pages");
  if (!chunks) CHECK(there(q + 6 * MIB, 26 * MIB) == 0, "the tail is still there");
  void *wall = shmem_malloc(64);
  unsigned char *moved = shmem_realloc(q, 20 * MIB);
  CHECK(moved && moved != q, "%p", (void *)moved);
  painted(moved, 6 * MIB, me + 3);
  CHECK(!shmem_realloc(moved, MOST), "beyond SHMEM_SYMMETRIC_MAX");
  painted(moved, 6 * MIB, me + 3);
  shmem_free(wall);
  shmem_free(moved);
  CHECK(there(start + KEPT, MOST - KEPT) == 0, "something is left");
}

// Memory that went and comes again is zero where zeros are asked for, also on odd boundaries.
static void again(void) {
  for (int round = 0; round < 3; round++) {
    for (size_t align = 64; align <= 16 * MIB; align *= 4) {
      unsigned char *p = shmem_align(align, 5 * MIB + 77);
      CHECK(p && (uintptr_t)p % align == 0, "%p for %zu", (void *)p, align);
      paint(p, 5 * MIB + 77, round);
      unsigned char *zeros = shmem_calloc(7 * MIB, 1);
      CHECK(zeros, "calloc");
      for (size_t i = 0; i < 7 * MIB; i += 64) CHECK(zeros[i] == 0, "byte %zu", i);
      memset(zeros, 255, 7 * MIB);
      shmem_free(zeros);
      painted(p, 5 * MIB + 77, round);
      shmem_free(p);
    }
    CHECK(there(start + KEPT, MOST - KEPT) == 0, "round %d", round);
  }
}

// Every transfer from one chunk into the next, which is another object to a network.
static void across(void) {
  enum { N = 12 * MIB, ROW = 300 };
  unsigned char *p = shmem_malloc(8 * MIB);
  p = shmem_realloc(p, N); // in place: another chunk
  CHECK(p == start, "at %p, not %p", (void *)p, (void *)start);
  unsigned char *const more = p + 4 * MIB, *const last = p + 8 * MIB;
  const int to = (me + 1) % npes, from = (me + npes - 1) % npes;
  unsigned char *mine = malloc(N), *got = malloc(N);
  for (int k = 0; k < 40; k++) {
    const size_t at = 4 * MIB - 5000 + (size_t)k * 251, n = k == 39 ? 7 * MIB : 64u << k % 8;
    memset(mine, me * 40 + k, n);
    for (size_t i = 0; i < n; i += 97) mine[i] = (unsigned char)(i + (size_t)k);
    k % 2 ? shmem_putmem(p + at, mine, n, to) : shmem_putmem_nbi(p + at, mine, n, to);
    shmem_quiet();
    memset(got, 0, n);
    k % 3 ? shmem_getmem(got, p + at, n, to) : shmem_getmem_nbi(got, p + at, n, to);
    shmem_quiet();
    CHECK(!memcmp(got, mine, n), "%zu bytes at %zu", n, at);
    shmem_barrier_all();
    for (size_t i = 0; i < n; i += 97)
      CHECK(p[at + i] == (unsigned char)(i + (size_t)k), "byte %zu", i);
    CHECK(n < 2 || p[at + 1] == (unsigned char)(from * 40 + k), "from %d", from);
    shmem_barrier_all();
  }
  // Strided, with a block on the border, too, and a put with a signal.
  long *const words = (long *)(p + 4 * MIB - 8 * (ROW / 2 * 3 + 1));
  long row[ROW], back[ROW];
  for (int i = 0; i < ROW; i++) row[i] = me * 1000 + i;
  shmem_long_iput(words, row, 3, 1, ROW, to);
  shmem_quiet();
  memset(back, 0, sizeof back);
  shmem_long_iget(back, words, 1, 3, ROW, to);
  CHECK(!memcmp(back, row, sizeof row), "strided");
  enum { PAIR = 24, STEP = 40 };
  static unsigned char pairs[ROW * PAIR], back_pairs[ROW * PAIR];
  for (int i = 0; i < ROW * PAIR; i++) pairs[i] = (unsigned char)(me * 7 + i);
  unsigned char *const odd = p + 4 * MIB - STEP * (ROW / 2) - 11;
  shmem_ibput8(odd, pairs, STEP, PAIR, PAIR, ROW, to);
  shmem_quiet();
  shmem_ibget8(back_pairs, odd, PAIR, STEP, PAIR, ROW, to);
  CHECK(!memcmp(back_pairs, pairs, sizeof pairs), "blocks");
  uint64_t *const flag = (uint64_t *)(last + 4 * MIB) - 1;
  *flag = 0;
  shmem_barrier_all();
  memset(mine, me + 1, 600);
  shmem_putmem_signal(more + 4 * MIB - 300, mine, 600, flag, 5, SHMEM_SIGNAL_SET, to);
  shmem_signal_wait_until(flag, SHMEM_CMP_EQ, 5);
  for (int i = 0; i < 600; i++)
    CHECK(more[4 * MIB - 300 + i] == from + 1, "byte %d before its signal", i);
  shmem_barrier_all();
  free(mine), free(got);
  shmem_free(p);
}

static const struct pe_test tests[] = {
    {"many", many}, {"small", small}, {"resized", resized}, {"again", again}, {"across", across}};

int main(void) {
  shmem_init();
  away = shmem_team_n_pes(SHMEM_TEAM_SHARED) < shmem_n_pes();
  chunks = away || !strcmp(getenv("SHMEM_HEAP"), "device");
  start = shmem_malloc(64);
  shmem_free(start);
  const struct pe_list lists[] = {PE_LIST("grow", tests)};
  const int failed = pe_run_tests("grow", lists, COUNT(lists));
  if (failed) shmem_global_exit(1);
  shmem_finalize();
  return 0;
}
