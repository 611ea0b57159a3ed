// SPDX-License-Identifier: MIT
// A heap that grows from 4 MiB to 64, see meson.build: where it ends, what peers see behind its first
// size, and that the system gets back what is freed there. That in device memory comes and goes in
// chunks, each for a block of more than 4 MiB.
#include "harness.h"
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, KEPT = 4 * MIB, MOST = 64 * MIB };
static unsigned char *start; // of the heap, on every PE
static int chunks;           // it is the one in device memory

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
    CHECK(theirs, "shmem_ptr of block %d", k);
    painted(theirs, bytes / 2, to + k);
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

// What went and comes again is right for who asks for zeros, and on odd boundaries.
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

static const struct pe_test tests[] = {
    {"many", many}, {"small", small}, {"resized", resized}, {"again", again}};

int main(void) {
  shmem_init();
  chunks = !strcmp(getenv("SHMEM_HEAP"), "device");
  start = shmem_malloc(64);
  shmem_free(start);
  const struct pe_list lists[] = {PE_LIST("grow", tests)};
  const int failed = pe_run_tests("grow", lists, COUNT(lists));
  if (failed) shmem_global_exit(1);
  shmem_finalize();
  return 0;
}
