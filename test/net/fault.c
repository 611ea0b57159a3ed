// SPDX-License-Identifier: MIT
// Faults of a network that one machine has none of, for refused.py: loaded before the library, it
// stands where UCX and PMIx are called. FAULT says which, FAULT_HOST on which node (all).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static int wanted(const char *what) {
  const char *fault = getenv("FAULT"), *host = getenv("FAULT_HOST");
  char here[64] = "";
  gethostname(here, sizeof here - 1);
  return fault && strcmp(fault, what) == 0 && (!host || strcmp(host, here) == 0);
}

// A card whose table of registrations is full, or that may not lock memory.
ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params,
                         ucp_mem_h *memory) {
  ucs_status_t (*map)(ucp_context_h, const ucp_mem_map_params_t *, ucp_mem_h *) =
      dlsym(RTLD_NEXT, "ucp_mem_map");
  return wanted("register") ? UCS_ERR_NO_MEMORY : map(context, params, memory);
}
ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *p, size_t bytes, uint64_t there,
                             ucp_rkey_h key, const ucp_request_param_t *param) {
  ucs_status_ptr_t (*put)(ucp_ep_h, const void *, size_t, uint64_t, ucp_rkey_h,
                          const ucp_request_param_t *) = dlsym(RTLD_NEXT, "ucp_put_nbx");
  return wanted("put") ? UCS_STATUS_PTR(UCS_ERR_IO_ERROR) : put(ep, p, bytes, there, key, param);
}

// A transport that puts and gets without UCX's messages.
void ucp_ep_print_info(const ucp_ep_h ep, FILE *out) {
  void (*print)(ucp_ep_h, FILE *) = dlsym(RTLD_NEXT, "ucp_ep_print_info");
  if (wanted("put") || wanted("card"))
    fputs("# lane[0]: 0:card/0.0 md[0] -> md[0]/card rma#0 am\n", out);
  else
    print(ep, out);
}

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release) {
  void (*get)(unsigned *, unsigned *, unsigned *) = dlsym(RTLD_NEXT, "ucp_get_version");
  get(major, minor, release);
  if (wanted("old")) *minor = 9;
  if (wanted("newer")) *minor += 1;
}

// Another version of this library tells another version of itself, or more.
pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *value) {
  pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = dlsym(RTLD_NEXT, "PMIx_Put");
  const int entry = strcmp(key, "shmem.net") == 0;
  if (entry && wanted("library")) value->data.bo.bytes[0]++;
  if (entry && wanted("layout")) value->data.bo.size -= 8;
  return put(scope, key, value);
}
