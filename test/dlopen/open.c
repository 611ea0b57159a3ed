// SPDX-License-Identifier: MIT
// A program that is not linked with the library opens it, or a plug-in that is linked with it, by
// dlopen: argv[1], RTLD_LOCAL as plug-ins are. It works, the program's globals are symmetric, a
// dlclose after finalize leaves nothing behind that could be called, and it can be opened again.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static long box = -1; // of the executable

static void *must(void *p, const char *what) {
  if (p) return p;
  fprintf(stderr, "%s: %s\n", what, dlerror());
  exit(1);
}

// Handlers that the library registers with the C library must survive the dlclose.
static void bye(void) {
  fputs("bye\n", stdout);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  atexit(bye);
  for (int round = 0; round < 2; round++) {
    void *file = must(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "dlopen");
#define TAKE(result, name, ...) result (*name)(__VA_ARGS__) = must(dlsym(file, #name), #name)
    TAKE(void, shmem_init, void);
    TAKE(void, shmem_finalize, void);
    TAKE(int, shmem_my_pe, void);
    TAKE(int, shmem_n_pes, void);
    TAKE(void, shmem_barrier_all, void);
    TAKE(void, shmem_long_p, long *, long, int);
    TAKE(int, shmem_addr_accessible, const void *, int);
    TAKE(void *, shmem_malloc, size_t);
    // The plug-in initializes by itself.
    void (*plugin_init)(void) = dlsym(file, "plugin_init");
    (plugin_init ? plugin_init : shmem_init)();
    const int me = shmem_my_pe(), n = shmem_n_pes(), left = (me + n - 1) % n;
    long *heap = must(shmem_malloc(sizeof *heap), "shmem_malloc");
    box = *heap = -1;
    shmem_barrier_all();
    shmem_long_p(&box, me + round, (me + 1) % n);
    shmem_long_p(heap, me + round, (me + 1) % n);
    shmem_barrier_all();
    if (box != left + round || *heap != left + round) {
      fprintf(stderr, "PE %d, round %d: box %ld, heap %ld, not %d\n", me, round, box, *heap,
              left + round);
      return 1;
    }
    // Globals of a plug-in are the plug-in's own.
    void *theirs = dlsym(file, "plugin_box");
    if (theirs && shmem_addr_accessible(theirs, me)) {
      fprintf(stderr, "PE %d: a global of the plug-in is symmetric\n", me);
      return 1;
    }
    shmem_finalize();
    if (dlclose(file)) must(NULL, "dlclose");
    if (me == 0) printf("ok %d\n", n);
  }
  return 0;
}
