// SPDX-License-Identifier: MIT
// The program's globals and statics: symmetric, as they were before init, written to by other
// threads while they move, and a child's own after fork. Built with and without PIE.
#include "harness.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static long zero;
static long initialized = 42;
static const char *text = "read-only, and a pointer to it";
static double (*function)(void) = pe_seconds;
static char large[256 << 20]; // never touched but for a few bytes
long global[1000];

// A thread that writes to static data all through init. Its stores must be those that it counted
// elsewhere.
enum { CELLS = 3 * 4096 / sizeof(long) };
static long cells[CELLS];
static long *counted;
static atomic_bool begun, stop;

static void *scribble(void *unused) {
  (void)unused;
  for (size_t i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
    cells[i % CELLS] += (long)i;
    counted[i % CELLS] += (long)i;
    if (i == 1) atomic_store(&begun, true);
  }
  return NULL;
}

static pthread_t scribbler;

static void nothing_lost(void) {
  atomic_store(&stop, true);
  pthread_join(scribbler, NULL);
  long sum = 0;
  for (size_t i = 0; i < CELLS; i++) {
    CHECK(cells[i] == counted[i], "cell %zu: %ld, written %ld", i, cells[i], counted[i]);
    sum += counted[i];
  }
  CHECK(sum > 0, "the thread did nothing");
}

static void as_before(void) {
  CHECK(zero == 0 && initialized == 42, "%ld %ld", zero, initialized);
  CHECK(strcmp(text, "read-only, and a pointer to it") == 0, "%s", text);
  CHECK(function() > 0, "a pointer to a function");
  for (int pe = 0; pe < npes; pe++) {
    CHECK(shmem_addr_accessible(&zero, pe) == 1 && shmem_addr_accessible(large, pe) == 1, "PE %d",
          pe);
    CHECK((shmem_ptr(&initialized, pe) == &initialized) == (pe == me), "PE %d", pe);
  }
}

static void reached(void) {
  static long in_function = 7, count;
  int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  shmem_long_p(&initialized, 1000 + me, right);
  shmem_long_p(&in_function, 2000 + me, right);
  for (long i = 0; i < 1000; i++) shmem_long_p(&global[i], i * npes + me, right);
  shmem_char_p(&large[sizeof large - 1], (char)(me + 1), right);
  for (int i = 0; i < 1000; i++) shmem_long_atomic_inc(&count, i % npes);
  shmem_barrier_all();
  CHECK(initialized == 1000 + left && in_function == 2000 + left, "%ld %ld", initialized,
        in_function);
  for (long i = 0; i < 1000; i++) CHECK(global[i] == i * npes + left, "%ld: %ld", i, global[i]);
  CHECK(large[sizeof large - 1] == (char)(left + 1), "the last byte");
  long all = 0;
  for (int pe = 0; pe < npes; pe++) all += shmem_long_g(&count, pe);
  CHECK(all == 1000L * npes, "%ld", all);
}

// Memory is used as it is touched: the large array must not be resident because it was moved.
static void not_committed(void) {
  FILE *f = fopen("/proc/self/status", "r");
  CHECK(f != NULL, "/proc/self/status");
  char line[256];
  long kib = -1;
  while (fgets(line, sizeof line, f)) sscanf(line, "RssShmem: %ld", &kib);
  fclose(f);
  CHECK(kib >= 0 && kib < 32 << 10, "%ld KiB of shared memory are resident", kib);
}

static void forked(void) {
  initialized = 5;
  global[3] = me;
  shmem_barrier_all();
  int pipes[2];
  CHECK(pipe(pipes) == 0, "pipe");
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    char go;
    bool same = read(pipes[0], &go, 1) == 1 && initialized == 5 && global[3] == me;
    initialized = 6; // its own
    global[3] = -1;
    _exit(same && initialized == 6 ? 0 : 1);
  }
  shmem_barrier_all(); // all have forked: the stores below are not the child's
  shmem_long_p(&initialized, 50, (me + 1) % npes);
  shmem_barrier_all();
  CHECK(write(pipes[1], "", 1) == 1, "write");
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0,
        "the child saw what came after the fork");
  CHECK(initialized == 50 && global[3] == me, "the child wrote to its parent: %ld %ld", initialized,
        global[3]);
  close(pipes[0]);
  close(pipes[1]);
  FILE *echo = popen("echo child", "r");
  CHECK(echo && fgetc(echo) == 'c' && pclose(echo) == 0, "popen");
}

int main(void) {
  counted = calloc(CELLS, sizeof *counted);
  if (!counted || pthread_create(&scribbler, NULL, scribble, NULL) != 0) return 99;
  while (!atomic_load(&begun)) usleep(100); // on a busy machine it took longer than all of init
  static const struct pe_test tests[] = {{"nothing_lost", nothing_lost},
                                         {"as_before", as_before},
                                         {"reached", reached},
                                         {"not_committed", not_committed},
                                         {"forked", forked}};
  static const struct pe_list lists[] = {PE_LIST("", tests)};
  return pe_run("data", lists, COUNT(lists));
}
