// SPDX-License-Identifier: MIT
#include "heap.h"

const char *const place_names[PLACES] = {"device", "host", "static", "private"};
unsigned char *object[PLACES][2];
static unsigned char statics[2][ROOM] __attribute__((aligned(64)));

void fill(enum place place, void *to, const void *from, size_t n) {
  if (place == PRIVATE)
    memcpy(to, from, n);
  else
    shmem_putmem(to, from, n, me);
}

void look_at(enum place place, void *to, const void *from, size_t n) {
  if (place == PRIVATE)
    memcpy(to, from, n);
  else
    shmem_getmem(to, from, n, me);
}

void make(unsigned char *to, size_t n, int pe, int round) {
  uint64_t state = (uint64_t)pe * 1000003 + (uint64_t)round;
  for (size_t i = 0; i < n; i++)
    to[i] = i % 8 ? (unsigned char)(to[i - 1] * 5 + 1) : (unsigned char)pe_random(&state);
}

int main(void) {
  shmem_init();
  for (int k = 0; k < 2; k++) {
    object[DEVICE][k] = shmem_malloc_with_hints(ROOM, SHMEMX_MALLOC_DEVICE);
    object[HOST][k] = shmem_malloc_with_hints(ROOM, SHMEMX_MALLOC_HOST);
    object[STATIC][k] = statics[k];
    object[PRIVATE][k] = malloc(ROOM);
    if (!object[DEVICE][k] || !object[HOST][k] || !object[PRIVATE][k]) {
      fprintf(stderr, "no memory: device %p, host %p\n", (void *)object[DEVICE][k],
              (void *)object[HOST][k]);
      shmem_global_exit(1);
    }
  }
  const struct pe_list lists[] = {transfers, atomics, waits, collectives, memory};
  int failed = pe_run_tests("heap", lists, COUNT(lists));
  if (failed) shmem_global_exit(1);
  for (int k = 0; k < 2; k++) {
    shmem_free(object[DEVICE][k]);
    shmem_free(object[HOST][k]);
    free(object[PRIVATE][k]);
  }
  shmem_finalize();
  return 0;
}
