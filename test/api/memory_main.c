// SPDX-License-Identifier: MIT
// The symmetric heap, pointers and queries. Run with SHMEM_SYMMETRIC_SIZE=24M.
#include <shmemx.h>
#include <unistd.h>

#include "typed.h"

enum { HEAP = 24 << 20 };

static volatile size_t most = SIZE_MAX; // or gcc 15 warns of what is asked for

static bool aligned(const void *p, size_t to) {
  return (uintptr_t)p % to == 0;
}

static void basics(void) {
  for (size_t n = 1; n < 3000; n = n * 3 + 1) {
    unsigned char *p = shmem_malloc(n);
    CHECK(p && aligned(p, _Alignof(max_align_t)), "malloc(%zu) = %p", n, (void *)p);
    memset(p, me + 1, n);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++) {
      CHECK(shmem_uchar_g(p, pe) == pe + 1, "first byte of %zu", n);
      CHECK(shmem_uchar_g(p + n - 1, pe) == pe + 1, "last byte of %zu", n);
    }
    shmem_barrier_all();
    shmem_free(p);
  }
  for (size_t align = 1; align <= 1 << 16; align *= 2) {
    void *p = shmem_align(align, 100), *q = shmem_align(align, 1);
    CHECK(p && q && aligned(p, align) && aligned(q, align), "align %zu: %p %p", align, p, q);
    CHECK((uintptr_t)p + 100 <= (uintptr_t)q || (uintptr_t)q + 1 <= (uintptr_t)p, "overlap");
    shmem_free(p);
    shmem_free(q);
  }
  const size_t wrong[] = {0, 3, 24, 65, (size_t)1 << 40, SIZE_MAX};
  for (size_t k = 0; k < COUNT(wrong); k++)
    CHECK(!shmem_align(wrong[k], 100) && !shmemalign(wrong[k], 1), "align %zu", wrong[k]);
  void *old[] = {shmalloc(10), shmemalign(256, 10)};
  CHECK(old[0] && old[1] && aligned(old[1], 256), "old names");
  old[0] = shrealloc(old[0], 1000);
  CHECK(old[0], "shrealloc");
  shfree(old[0]);
  shfree(old[1]);
}

// calloc gives zeros where others wrote before, and they are there before any PE goes on.
static void zeros(void) {
  enum { N = 100000 };
  for (int round = 0; round < 5; round++) {
    unsigned char *p = shmem_malloc(N);
    memset(p, 0xff, N);
    shmem_free(p);
    unsigned char *q = shmem_calloc(N / 10, 10);
    const int right = (me + 1) % npes;
    unsigned char got[N / 100];
    shmem_getmem(got, q + (size_t)round * 1000, sizeof got, right);
    for (size_t i = 0; i < sizeof got; i++) CHECK(got[i] == 0, "of the neighbour: [%zu]", i);
    for (size_t i = 0; i < N; i++) CHECK(q[i] == 0, "[%zu] = %d", i, q[i]);
    shmem_barrier_all();
    shmem_free(q);
  }
}

// Nothing to do means no barrier: one PE alone comes back.
static void alone(void) {
  if (me == npes - 1) {
    CHECK(shmem_malloc(0) == NULL, "malloc(0)");
    CHECK(shmem_calloc(0, 5) == NULL && shmem_calloc(5, 0) == NULL, "calloc of nothing");
    CHECK(shmem_align(64, 0) == NULL, "align of nothing");
    CHECK(shmem_malloc_with_hints(0, SHMEM_MALLOC_ATOMICS_REMOTE) == NULL, "hints of nothing");
    shmem_free(NULL);
    shfree(NULL);
  }
  shmem_barrier_all();
}

static void reallocation(void) {
  unsigned char *p = shmem_realloc(NULL, 100);
  CHECK(p, "realloc(NULL) is malloc");
  for (size_t i = 0; i < 100; i++) p[i] = (unsigned char)(me + (int)i);
  void *block = shmem_malloc(64); // so that the first cannot grow in place
  p = shmem_realloc(p, 50000);
  CHECK(p, "grow");
  for (size_t i = 0; i < 100; i++) CHECK(p[i] == (unsigned char)(me + (int)i), "[%zu]", i);
  CHECK(shmem_uchar_g(p + 99, (me + 1) % npes) == (unsigned char)((me + 1) % npes + 99), "remote");
  shmem_barrier_all();
  memset(p, 0x5a, 50000);
  p = shmem_realloc(p, 10);
  CHECK(p, "shrink");
  for (size_t i = 0; i < 10; i++) CHECK(p[i] == 0x5a, "[%zu]", i);
  CHECK(shmem_realloc(p, (size_t)HEAP * 4) == NULL, "too large");
  for (size_t i = 0; i < 10; i++) CHECK(p[i] == 0x5a, "the old block is intact: [%zu]", i);
  CHECK(shmem_realloc(p, most - 5) == NULL, "far too large");
  CHECK(shmem_realloc(p, 0) == NULL, "size 0 frees");
  shmem_free(block);
}

static void hints(void) {
  const long all[] = {0,
                      SHMEM_MALLOC_ATOMICS_REMOTE,
                      SHMEM_MALLOC_SIGNAL_REMOTE,
                      SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE,
                      1L << 40,
                      SHMEMX_MALLOC_DEVICE | SHMEMX_MALLOC_HOST,
                      -1};
  for (size_t k = 0; k < COUNT(all); k++) {
    uint64_t *p = shmem_malloc_with_hints(1000, all[k]);
    CHECK(p && aligned(p, _Alignof(max_align_t)), "hints %lx", (unsigned long)all[k]);
    *p = 0;
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++) shmem_uint64_atomic_inc(p, pe);
    shmem_barrier_all();
    CHECK(*p == (uint64_t)npes, "%llu", (unsigned long long)*p);
    p = shmem_realloc(p, 5000);
    CHECK(p && *p == (uint64_t)npes, "realloc keeps content");
    shmem_free(p);
  }
}

// Too much is NULL on all PEs; a full heap can be emptied and filled again.
static void exhaustion(void) {
  CHECK(shmem_malloc((size_t)HEAP * 2) == NULL, "malloc");
  CHECK(shmem_malloc(most) == NULL && shmem_malloc(most - 4096) == NULL, "malloc");
  CHECK(shmem_align(4096, most - 4000) == NULL, "align");
  CHECK(shmem_calloc(most / 2 + 1, 2) == NULL, "count * size is 0 without its carry");
  CHECK(shmem_calloc(most / 4 + 2, 4) == NULL, "count * size is 4 without its carry");
  CHECK(shmem_calloc(HEAP, 2) == NULL, "calloc");
  static void *blocks[4096];
  static long counts[2], sums[2];
  size_t first = 0;
  for (int round = 0; round < 3; round++) {
    size_t n = 0;
    while (n < COUNT(blocks) && (blocks[n] = shmem_malloc(50000))) {
      memset(blocks[n], (int)n, 50000);
      n++;
    }
    CHECK(n * 50000 >= (size_t)HEAP * 9 / 10, "only %zu blocks", n);
    CHECK(n < COUNT(blocks), "no end of the heap");
    if (round == 0) first = n;
    CHECK(n == first, "round %d: %zu blocks, %zu at first", round, n, first);
    counts[0] = (long)n;
    CHECK(shmem_long_max_reduce(SHMEM_TEAM_WORLD, sums, counts, 1) == 0 && sums[0] == (long)n,
          "another PE has %ld blocks, I have %zu", sums[0], n);
    CHECK(shmem_malloc(50000) == NULL, "still full");
    for (size_t i = 0; i < n; i++) // odd ones, then even ones
      CHECK(*(unsigned char *)blocks[i] == (unsigned char)i, "block %zu overwritten", i);
    for (size_t i = 1; i < n; i += 2) shmem_free(blocks[i]);
    void *again = shmem_malloc(40000);
    CHECK(again, "room in the gaps");
    shmem_free(again);
    for (size_t i = 0; i < n; i += 2) shmem_free(blocks[i]);
    void *large = shmem_malloc((size_t)HEAP / 2 + 1);
    CHECK(large, "one large block after all were freed");
    shmem_free(large);
  }
}

// The whole size that was asked for can be used.
static void whole(void) {
  void *p = shmem_malloc(HEAP - 4096);
  CHECK(p, "the heap less a page");
  memset(p, 1, HEAP - 4096);
  shmem_free(p);
}

// Random calls next to a model: blocks keep their content, do not overlap, and lie at the same
// offsets on all PEs.
static void fragmentation(void) {
  enum { SLOTS = 80, STEPS = 1200 };
  static struct {
    unsigned char *p;
    size_t n;
    unsigned char id;
  } slots[SLOTS];
  static long offset, other;
  unsigned char *base = shmem_malloc(1);
  uint64_t seed = 20240131;
  memset(slots, 0, sizeof slots);
  for (int step = 0; step < STEPS; step++) {
    const size_t s = pe_random(&seed) % SLOTS;
    const uint64_t kind = pe_random(&seed) % 4, r = pe_random(&seed);
    const size_t size = 1 + (r % 3 == 0 ? r % 60000 : r % 900);
    const size_t align = (size_t)8 << (r >> 20) % 8;
    size_t keep = 0;
    if (slots[s].p && kind != 1) {
      for (size_t i = 0; i < slots[s].n; i++)
        CHECK(slots[s].p[i] == slots[s].id, "step %d: slot %zu [%zu] is lost", step, s, i);
      shmem_free(slots[s].p);
      slots[s].p = NULL;
      continue;
    }
    switch (kind) {
    case 0:
      slots[s].p = shmem_malloc(size);
      break;
    case 1:
      keep = !slots[s].p ? 0 : slots[s].n < size ? slots[s].n : size;
      slots[s].p = shmem_realloc(slots[s].p, size);
      break;
    case 2:
      slots[s].p = shmem_align(align, size);
      CHECK(aligned(slots[s].p, align), "align %zu", align);
      break;
    default:
      slots[s].p = shmem_calloc(1, size);
    }
    CHECK(slots[s].p, "step %d: %zu bytes of kind %d", step, size, (int)kind);
    for (size_t i = 0; i < (kind == 3 ? size : keep); i++)
      CHECK(slots[s].p[i] == (kind == 3 ? 0 : slots[s].id), "step %d: [%zu] of %zu", step, i, size);
    slots[s].n = size;
    slots[s].id = (unsigned char)(r >> 8);
    memset(slots[s].p, slots[s].id, size);
    if (step % 16 == 0) {
      offset = slots[s].p - base;
      CHECK(shmem_long_broadcast(SHMEM_TEAM_WORLD, &other, &offset, 1, 0) == 0, "broadcast");
      CHECK(other == offset, "step %d: offset %ld, on PE 0 %ld", step, offset, other);
    }
  }
  for (size_t s = 0; s < SLOTS; s++) shmem_free(slots[s].p);
  shmem_free(base);
}

static long late;

// malloc and its kind meet at their exit, free at its entry; both complete the default context.
static void meeting(void) {
  const int last = npes - 1;
  for (int kind = 0; kind < 5; kind++) {
    late = 0;
    void *block = shmem_malloc(100);
    if (me == last) {
      const long one = 1;
      usleep(20000);
      for (int pe = 0; pe < npes; pe++) shmem_long_put_nbi(&late, &one, 1, pe);
    }
    void *p = NULL;
    switch (kind) {
    case 0:
      p = shmem_malloc(100);
      break;
    case 1:
      p = shmem_calloc(10, 10);
      break;
    case 2:
      p = shmem_align(64, 100);
      break;
    case 3:
      p = shmem_malloc_with_hints(100, SHMEM_MALLOC_SIGNAL_REMOTE);
      break;
    default:
      shmem_free(block);
      block = NULL;
    }
    CHECK(late == 1, "routine %d came back before PE %d entered it", kind, last);
    shmem_barrier_all();
    if (p) shmem_free(p);
    if (block) shmem_free(block);
  }
}

static long data_object[4] = {1, 2, 3, 4};
static char bss_object[100000];

static void pointers(void) {
  long *heap = shmem_malloc(3 * sizeof *heap);
  static long unset;
  long private_object = 0;
  void *private_heap = malloc(100);
  for (int i = 0; i < 3; i++) heap[i] = me * 10 + i;
  data_object[1] = me;
  shmem_barrier_all();
  for (int pe = 0; pe < npes; pe++) {
    CHECK(shmem_pe_accessible(pe) == 1, "PE %d", pe);
    CHECK(shmem_addr_accessible(heap, pe) == 1, "heap of PE %d", pe);
    CHECK(shmem_addr_accessible(heap + 2, pe) == 1, "inside a block of PE %d", pe);
    CHECK(shmem_addr_accessible(data_object, pe) == 1, "data of PE %d", pe);
    CHECK(shmem_addr_accessible(bss_object + 99999, pe) == 1, "bss of PE %d", pe);
    CHECK(shmem_addr_accessible(&unset, pe) == 1, "a static of PE %d", pe);
    CHECK(shmem_addr_accessible(&private_object, pe) == 0, "the stack");
    CHECK(shmem_addr_accessible(private_heap, pe) == 0, "malloc");
    CHECK(shmem_addr_accessible(NULL, pe) == 0, "NULL");
    CHECK(shmem_ptr(&private_object, pe) == NULL && shmem_ptr(private_heap, pe) == NULL &&
              shmem_ptr(NULL, pe) == NULL,
          "pointer to a private object");
    long *there = shmem_ptr(heap, pe);
    CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, heap, pe) == there, "team_ptr");
    if (there) CHECK(there[2] == pe * 10 + 2 && shmem_ptr(heap + 2, pe) == there + 2, "PE %d", pe);
    long *data = shmem_ptr(data_object, pe);
    if (data) CHECK(data[1] == pe && data[3] == 4, "data of PE %d: %ld", pe, data[1]);
  }
  CHECK(shmem_pe_accessible(-1) == 0 && shmem_pe_accessible(npes) == 0, "no such PE");
  CHECK(shmem_addr_accessible(heap, npes) == 0 && shmem_addr_accessible(heap, -1) == 0, "no PE");
  shmem_barrier_all();
  // a store through the pointer is a store there, and comes back by get
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  long *there = shmem_ptr(heap, right);
  if (there) there[0] = 777 + me;
  shmem_barrier_all();
  if (shmem_ptr(heap, left)) CHECK(heap[0] == 777 + left, "%ld", heap[0]);
  if (there) CHECK(shmem_long_g(heap, right) == 777 + me, "get");
  shmem_team_t reversed;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, npes - 1, -1, npes, NULL, 0, &reversed) == 0,
        "rc");
  for (int i = 0; i < npes; i++)
    CHECK(shmem_team_ptr(reversed, heap, i) == shmem_ptr(heap, npes - 1 - i), "index %d", i);
  shmem_team_destroy(reversed);
  shmem_barrier_all();
  data_object[1] = 2;
  free(private_heap);
  shmem_free(heap);
}

static void information(void) {
  int major = 0, minor = 0;
  shmem_info_get_version(&major, &minor);
  CHECK(major == SHMEM_MAJOR_VERSION && minor == SHMEM_MINOR_VERSION, "%d.%d", major, minor);
  CHECK(major == 1 && minor == 6, "%d.%d", major, minor);
  char name[SHMEM_MAX_NAME_LEN + 1];
  memset(name, 'x', sizeof name);
  shmem_info_get_name(name);
  CHECK(name[SHMEM_MAX_NAME_LEN] == 'x', "more than SHMEM_MAX_NAME_LEN bytes");
  CHECK(memchr(name, 0, SHMEM_MAX_NAME_LEN) && strcmp(name, SHMEM_VENDOR_STRING) == 0, "%s", name);
  CHECK(shmem_my_pe() == me && _my_pe() == me, "my_pe");
  CHECK(shmem_n_pes() == npes && _num_pes() == npes, "n_pes");
  shmem_pcontrol(0);
  shmem_pcontrol(1, "with", 3, "more");
  shmem_pcontrol(7);
  int on = 0, level = -1;
  shmem_query_initialized(&on);
  CHECK(on != 0, "initialized");
  shmem_query_thread(&level);
  CHECK(level >= SHMEM_THREAD_SINGLE && level <= SHMEM_THREAD_MULTIPLE, "%d", level);
}

static const struct pe_test tests[] = {{"allocation", basics},
                                       {"zeros", zeros},
                                       {"one PE alone", alone},
                                       {"realloc", reallocation},
                                       {"hints", hints},
                                       {"exhaustion", exhaustion},
                                       {"the whole heap", whole},
                                       {"fragmentation", fragmentation},
                                       {"barriers inside", meeting},
                                       {"pointers and access", pointers},
                                       {"information", information}};

int main(void) {
  const struct pe_list all = PE_LIST("", tests);
  return pe_run("memory and queries", &all, 1);
}
