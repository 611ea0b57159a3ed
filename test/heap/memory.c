// SPDX-License-Identifier: MIT
// Allocation on both heaps.
#include "heap.h"

static void hints(void) {
  const long where[] = {SHMEMX_MALLOC_DEVICE, SHMEMX_MALLOC_HOST};
  unsigned char *block[2][8], data[5000], got[5000];
  for (int k = 0; k < 8; k++)
    for (int h = 0; h < 2; h++) {
      block[h][k] = shmem_malloc_with_hints(4000 + 100 * (size_t)k, where[h]);
      CHECK(block[h][k], "allocation %d", k);
      CHECK((uintptr_t)block[h][k] % (h == 0 ? 256 : 64) == 0, "heap %d: %p", h,
            (void *)block[h][k]);
      make(data, 4000, me + 10 * k, h);
      fill(HOST, block[h][k], data, 4000);
    }
  // Blocks grow where they are or move, and keep what they hold and their heap.
  for (int k = 0; k < 8; k++)
    for (int h = 0; h < 2; h++) {
      const bool was_device = h == 0;
      unsigned char *p = shmem_realloc(block[h][k], 200000);
      CHECK(p, "realloc");
      look_at(HOST, got, p, 4000);
      make(data, 4000, me + 10 * k, h);
      CHECK(!memcmp(got, data, 4000), "heap %d: realloc lost the contents", h);
      const ptrdiff_t near = p - object[was_device ? DEVICE : HOST][0];
      const ptrdiff_t far = p - object[was_device ? HOST : DEVICE][0];
      CHECK(labs(near) < labs(far), "heap %d: realloc changed the heap", h);
      block[h][k] = p;
    }
  for (int k = 0; k < 8; k++)
    for (int h = 0; h < 2; h++) shmem_free(block[h][k]);
  CHECK(!shmem_malloc_with_hints((size_t)1 << 50, SHMEMX_MALLOC_DEVICE), "more than there is");
  CHECK(!shmem_malloc_with_hints(0, SHMEMX_MALLOC_DEVICE), "nothing");
}

static void zeroed(void) {
  unsigned char got[10000];
  for (int round = 0; round < 2; round++) {
    unsigned char *p = shmem_calloc(100, 100);
    CHECK(p, "calloc");
    look_at(HOST, got, p, sizeof got);
    for (size_t i = 0; i < sizeof got; i++) CHECK(got[i] == 0, "byte %zu", i);
    memset(got, 255, sizeof got);
    fill(HOST, p, got, sizeof got);
    shmem_free(p);
  }
}

static void aligned(void) {
  for (size_t align = 64; align <= 1 << 20; align *= 4) {
    unsigned char *p = shmem_align(align, 100);
    CHECK(p && (uintptr_t)p % align == 0, "%p for %zu", (void *)p, align);
    shmem_free(p);
  }
}

static void queries(void) {
  for (int a = 0; a < SYMMETRIC; a++)
    for (int pe = 0; pe < npes; pe++) {
      CHECK(shmem_addr_accessible(object[a][0], pe), "%s", place_names[a]);
      CHECK((shmem_ptr(object[a][0], pe) == object[a][0]) == (pe == me), "%s", place_names[a]);
    }
  CHECK(!shmem_addr_accessible(object[PRIVATE][0], me), "private");
  CHECK(!shmem_ptr(object[PRIVATE][0], me), "private");
}

static const struct pe_test tests[] = {
    {"hints", hints}, {"zeroed", zeroed}, {"aligned", aligned}, {"queries", queries}};
const struct pe_list memory = PE_LIST("memory", tests);
