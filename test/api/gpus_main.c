// SPDX-License-Identifier: MIT
// While PMIx starts, hwloc lists no GPUs; the program's environment stays as it was.
//   test_gpus PART OWN: part of HWLOC_COMPONENTS in PMIx_Init, and its value in the program
#include <dlfcn.h>
#include <pmix.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;
static char seen[100];

static const char *components(void) {
  const char *value = getenv("HWLOC_COMPONENTS");
  return value ? value : "";
}

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t n) {
  static pmix_status_t (*next)(pmix_proc_t *, pmix_info_t[], size_t);
  *(void **)&next = dlsym(RTLD_NEXT, "PMIx_Init");
  snprintf(seen, sizeof seen, "%s", components());
  setenv("SET_BY_PMIX", "1", 1);
  return next(proc, info, n);
}

static size_t variables(void) {
  size_t n = 0;
  while (environ[n]) n++;
  return n;
}

int main(int argc, char **argv) {
  const char *expected = argc > 1 ? argv[1] : "", *own = argc > 2 ? argv[2] : "";
  setenv("SET_BY_PMIX", "0", 1); // what PMIx changes must not be lost
  const size_t before = variables();
  shmem_init();
  const char *set = getenv("SET_BY_PMIX");
  const int bad = !*seen || !strstr(seen, expected) || strcmp(components(), own) != 0 ||
                  strcmp(set ? set : "", "1") != 0 || variables() < before;
  if (bad)
    fprintf(stderr, "in PMIx_Init \"%s\", after \"%s\", SET_BY_PMIX %s, %zu variables of %zu\n",
            seen, components(), set, variables(), before);
  shmem_finalize();
  return bad;
}
