// SPDX-License-Identifier: MIT
// A launcher without patience, for LD_PRELOAD: what the node's first PE tells is asked for
// TIMEOUTS + 1 times, and all but the last time the answer is that it took too long, at once.
#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef pmix_status_t Get(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
                          pmix_value_cbfunc_t, void *);

pmix_status_t PMIx_Get_nb(const pmix_proc_t *who, const char *key, const pmix_info_t *info,
                          size_t n, pmix_value_cbfunc_t take, void *data) {
  static Get *get;
  static int asked;
  static struct timespec last;
  if (!get) *(void **)&get = dlsym(RTLD_NEXT, "PMIx_Get_nb");
  if (!key || strcmp(key, "shmem.segment") != 0 || asked == atoi(getenv("TIMEOUTS")))
    return get(who, key, info, n, take, data);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double since =
      (double)(now.tv_sec - last.tv_sec) + (double)(now.tv_nsec - last.tv_nsec) * 1e-9;
  if (asked++ && since < 0.1) {
    fprintf(stderr, "shmem: asks again after %g s\n", since);
    _exit(1);
  }
  last = now;
  take(PMIX_ERR_TIMEOUT, NULL, data);
  return PMIX_SUCCESS;
}
