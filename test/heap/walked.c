// SPDX-License-Identifier: MIT
// A walk over all memory of a process does not find heaps that are not used: a dump leaves them
// out, and mlockall before init does not allocate them. By what /proc/self/smaps says.
#include <shmem.h>
#include <shmemx.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

// KiB of mappings of memory files that a dump has, and that are resident; and whether it has p.
struct walk {
  long dumped, resident;
  bool has;
};
static struct walk walk(const void *p) {
  struct walk w = {0, 0, false};
  FILE *f = fopen("/proc/self/smaps", "r");
  char line[512];
  unsigned long from = 0, to = 0, a, b;
  long n, size = 0;
  bool ours = false;
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%lx-%lx ", &a, &b) == 2) {
      from = a, to = b;
      ours = strstr(line, "/memfd:") != NULL;
    }
    if (ours && sscanf(line, "Size: %ld", &n) == 1) size = n;
    if (ours && sscanf(line, "Rss: %ld", &n) == 1) w.resident += n;
    if (ours && !strncmp(line, "VmFlags:", 8) && !strstr(line, " dd")) {
      w.dumped += size;
      w.has |= (uintptr_t)p >= from && (uintptr_t)p < to;
    }
  }
  if (f) fclose(f);
  return w;
}

int main(int argc, char **argv) {
  const bool lock = argc > 1 && !strcmp(argv[1], "lock");
  const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
  if (lock) setrlimit(RLIMIT_MEMLOCK, &any); // where it is granted
  if (lock && mlockall(MCL_CURRENT | MCL_FUTURE))
    return printf("mlockall is not granted here: skipped\n"), 77;
  shmem_init();
  int failures = 0;
  const struct walk before = walk(NULL);
  char *p = shmem_malloc(4 << 20);
  const struct walk after = walk(p);
  const void *theirs = shmem_ptr(p, (shmem_my_pe() + 1) % shmem_n_pes());
  const bool other = theirs && theirs != p && walk(theirs).has;
  printf("PE %d: %ld, then %ld KiB are dumped, %ld and %ld are resident\n", shmem_my_pe(),
         before.dumped, after.dumped, before.resident, after.resident);
  failures += before.dumped > 16 << 10 || after.dumped > 32 << 10 || before.resident > 64 << 10;
  failures += !after.has || other;
  if (failures)
    printf("FAILED: the block is %sdumped, a peer's is %sdumped\n", after.has ? "" : "not ",
           other ? "" : "not ");
  shmem_finalize();
  return failures;
}
