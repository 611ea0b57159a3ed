// SPDX-License-Identifier: MIT
// A program of before 1.2: start_pes, no finalize, the old headers. Modes: exit from main, exit(),
// a late PE, a shmem_init without finalize.
#include <mpp/shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int inbox[64], sum;
static long lock;

static void
bye(void) { // a handler of the program runs while PEs can still talk or after: it may write
  fputs("", stdout);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "return";
  atexit(bye);
  if (strcmp(mode, "init") == 0)
    shmem_init();
  else
    start_pes(0);
  const int me = _my_pe(), n = _num_pes();
  if (strcmp(mode, "init") != 0) start_pes(99); // no effect
  int *heap = shmalloc(sizeof *heap);
  *heap = 0;
  shmem_barrier_all();
  for (int pe = 0; pe < n; pe++) shmem_int_p(&inbox[me], me + 1, pe);
  shmem_int_add(heap, me + 1, 0);
  shmem_set_lock(&lock);
  sum += 1;
  shmem_clear_lock(&lock);
  shmem_barrier_all();
  for (int pe = 0; pe < n; pe++) {
    if (inbox[pe] != pe + 1) {
      fprintf(stderr, "PE %d: inbox[%d] = %d\n", me, pe, inbox[pe]);
      return 1;
    }
  }
  if (sum != 1 || (me == 0 && *heap != n * (n + 1) / 2)) {
    fprintf(stderr, "sums %d and %d\n", sum, *heap);
    return 1;
  }
  // A put just before the end is done at the end: PE 0 prints it in a handler that runs after the
  // library's own.
  if (strcmp(mode, "late") == 0 && me == n - 1) usleep(300000);
  if (me == 0) printf("ok %s %d\n", mode, n);
  if (strcmp(mode, "exit") == 0) exit(0);
  return 0;
}
