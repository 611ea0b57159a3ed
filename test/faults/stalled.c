// SPDX-License-Identifier: MIT
// A PMIx that hangs, for LD_PRELOAD: the call that the variable STALLED names does not come back on
// the PE that STALLED_PE names. Every routine of PMIx that the library calls is here; the test
// `stalled` asks the library's list of symbols.
#include <dlfcn.h>
#include <pmix.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread int depth; // PMIx calls its own routines

static void stall(const char *name) {
  const char *stalled = getenv("STALLED"), *pe = getenv("STALLED_PE"), *me = getenv("PMIX_RANK");
  if (depth == 0 && stalled && me && strcmp(stalled, name) == 0 && (!pe || strcmp(pe, me) == 0))
    for (;;) pause();
}

#define STALLED(result, name, arguments, values)                                                   \
  result name arguments {                                                                          \
    static result(*next) arguments;                                                                \
    stall(#name);                                                                                  \
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name);                                          \
    depth++;                                                                                       \
    const result status = next values;                                                             \
    depth--;                                                                                       \
    return status;                                                                                 \
  }

STALLED(pmix_status_t, PMIx_Init, (pmix_proc_t * proc, pmix_info_t info[], size_t n),
        (proc, info, n))
STALLED(pmix_status_t, PMIx_Register_event_handler,
        (pmix_status_t codes[], size_t n, pmix_info_t info[], size_t n_info,
         pmix_notification_fn_t handler, pmix_hdlr_reg_cbfunc_t done, void *data),
        (codes, n, info, n_info, handler, done, data))
STALLED(pmix_status_t, PMIx_Get,
        (const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t n,
         pmix_value_t **value),
        (proc, key, info, n, value))
STALLED(pmix_status_t, PMIx_Put, (pmix_scope_t scope, const char key[], pmix_value_t *value),
        (scope, key, value))
STALLED(pmix_status_t, PMIx_Commit, (void), ())
STALLED(pmix_status_t, PMIx_Fence,
        (const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t n_info),
        (procs, n, info, n_info))
STALLED(pmix_status_t, PMIx_Finalize, (const pmix_info_t info[], size_t n), (info, n))
