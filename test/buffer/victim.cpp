// SPDX-License-Identifier: MIT
// Registers what cannot be: buffer_victim CASE, see refused.py.
#include <hip/hip_runtime_api.h>
#include <shmem.h>
#include <shmemx.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int global[100];

static char *map(int access, int flags) {
  return (char *)mmap(NULL, 65536, access, flags | MAP_ANONYMOUS, -1, 0);
}

static int on_device(const char *how, int me, char *good) {
  const int is_one = me == 1;
  shmemx_buffer_t h = 0;
  char *p = NULL;
  int gpus = 0;
  if (hipMalloc((void **)&p, 65536) != hipSuccess || hipGetDeviceCount(&gpus) != hipSuccess)
    return 9;
  if (!strcmp(how, "other") && gpus < 2) shmem_global_exit(77);
  if (!strcmp(how, "overlap")) shmemx_buffer_register(p + 100, 100, &h);
  if (!strcmp(how, "freed") && is_one && hipFree(p) != hipSuccess) return 9;
  if (!strcmp(how, "other") && is_one && hipSetDevice((me + 1) % 2) != hipSuccess) return 9;
  if (!strcmp(how, "other") && is_one && hipMalloc((void **)&p, 65536) != hipSuccess) return 9;
  if (!strcmp(how, "host") && is_one) p = good;
  size_t at = 0;
  if (!strcmp(how, "end")) at = is_one ? 65000 : 0;
  if (!strcmp(how, "overlap")) at = is_one ? 199 : 200;
  if (!strcmp(how, "alike")) at = is_one ? 7 : 0;
  shmemx_buffer_register(p + at, 1000, &h);
  return 8;
}

// Of PEs 1 and 2.
static int of_team(const char *how, int me, char *good) {
  const int is_one = me == 1;
  shmemx_buffer_t h = 0;
  shmem_team_t team = SHMEM_TEAM_INVALID;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 1, 2, NULL, 0, &team);
  const bool device = !strcmp(how, "stream") || !strcmp(how, "product");
  void *p = good;
  if (device && hipMalloc(&p, 65536) != hipSuccess) return 9;
  const size_t bytes = !strcmp(how, "sizes") && me == 2 ? 200 : 100;
  if (me || !strcmp(how, "invalid")) shmemx_team_buffer_register(team, p, bytes, &h);
  int *const object = (int *)p;
  if (!strcmp(how, "put") && is_one) shmem_int_p(object, 1, 0);
  if (!strcmp(how, "atomic") && is_one) shmem_int_atomic_fetch_inc(object, 0);
  if (!strcmp(how, "others") && !me) shmem_int_p(object, 1, 1);
  if (!strcmp(how, "destroy") && is_one) shmem_team_destroy(team);
  if (!strcmp(how, "part") && is_one) shmemx_buffer_unregister(h);
  if (!strcmp(how, "stream") && is_one)
    shmemx_int_sum_reduce_on_stream(SHMEM_TEAM_WORLD, object, object, 1, NULL);
  if (!strcmp(how, "product")) {
    shmemx_matmul_t product = {};
    product.type = product.out = SHMEMX_F32;
    product.m = product.n = product.k = 3;
    product.lda = product.ldb = product.ldc = 3;
    product.a = product.b = product.c = p;
    shmemx_matmul_workspace_t workspace =
        shmemx_matmul_workspace_create(SHMEM_TEAM_WORLD, SHMEMX_MATMUL_ALL_REDUCE, &product);
    if (is_one) shmemx_matmul_all_reduce_on_stream(workspace, &product, NULL);
  }
  shmem_barrier_all();
  return 8;
}

int main(int argc, char **argv) {
  fprintf(stderr, "pid %d\n", (int)getpid());
  shmem_init();
  const char *what = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "";
  const int me = shmem_my_pe();
  char *good = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
  shmemx_buffer_t h = 0;
  const int is_one = me == 1;
#define CASE(name) else if (!strcmp(what, name))
  if (!*what) return 9;
  CASE("null") shmemx_buffer_register(is_one ? NULL : good, 100, &h);
  CASE("empty") shmemx_buffer_register(good, is_one ? 0 : 100, &h);
  CASE("huge") shmemx_buffer_register(good, is_one ? SIZE_MAX : 100, &h);
  CASE("no handle") shmemx_buffer_register(good, 100, is_one ? NULL : &h);
  CASE("sizes") shmemx_buffer_register(good, is_one ? 200 : 100, &h);
  CASE("freed") {
    if (is_one) munmap(good + 4096, 4096);
    shmemx_buffer_register(good, 65536, &h);
  }
  CASE("read-only") {
    if (is_one) mprotect(good + 4096, 4096, PROT_READ);
    shmemx_buffer_register(good, 65536, &h);
  }
  CASE("shared") {
    if (is_one) good = map(PROT_READ | PROT_WRITE, MAP_SHARED);
    shmemx_buffer_register(good, 65536, &h);
  }
  CASE("stack")
  shmemx_buffer_register(is_one ? (char *)__builtin_frame_address(0) - 64 : good, 64, &h);
  CASE("heap") {
    char *block = (char *)shmem_malloc(100);
    shmemx_buffer_register(is_one ? block : good, 100, &h);
  }
  CASE("static") shmemx_buffer_register(is_one ? (void *)global : good, 100, &h);
  CASE("pinned") {
    if (is_one && hipHostRegister(good + 4096, 4096, hipHostRegisterDefault) != hipSuccess)
      return 9;
    shmemx_buffer_register(good + 4096, 4096, &h);
  }
  CASE("overlap") {
    shmemx_buffer_register(good + 100, 100, &h);
    shmemx_buffer_register(is_one ? good + 199 : good + 200, 100, &h);
  }
  CASE("many") {
    for (int i = 0; i < 1025; i++) shmemx_buffer_register(good + 8 * i, 8, &h);
  }
  CASE("unknown") {
    shmemx_buffer_register(good, 100, &h);
    shmemx_buffer_unregister(is_one ? h + 1 : h);
  }
  CASE("twice") {
    shmemx_buffer_register(good, 100, &h);
    shmemx_buffer_unregister(h);
    shmemx_buffer_unregister(h);
  }
  CASE("gone") {
    shmemx_buffer_register(good, 100, &h);
    shmemx_buffer_unregister(h);
    if (is_one) shmem_int_p((int *)good, 1, 0);
    shmem_barrier_all();
  }
  CASE("past end") {
    shmemx_buffer_register(good, 100, &h);
    if (is_one) shmem_int_put((int *)good, global, 26, 0);
    shmem_barrier_all();
  }
  CASE("device") {
    if (on_device(how, me, good) != 8) return 9;
  }
  CASE("team") {
    if (of_team(how, me, good) != 8) return 9;
  }
  CASE("unmapped") { // while it is registered: nothing is given back
    shmemx_buffer_register(good, 65536, &h);
    munmap(good, 65536);
    shmemx_buffer_unregister(h);
    shmem_finalize();
    return 0;
  }
  shmem_finalize();
  return 8;
}
