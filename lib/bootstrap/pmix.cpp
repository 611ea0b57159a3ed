// SPDX-License-Identifier: MIT
#include "../bootstrap.hpp"
#include "../log.hpp"
#include <cstdlib>
#include <cstring>
#include <pmix.h>

namespace shmem::bootstrap {

namespace {

pmix_proc_t proc, leader;
bool joined;

void must(pmix_status_t status, const char *what) {
  if (status != PMIX_SUCCESS) fatal("%s: %s", what, PMIx_Error_string(status));
}

// A value that the launcher knows of a process, PMIX_RANK_WILDCARD for the job.
pmix_value_t *get(pmix_rank_t rank, const char *key) {
  pmix_proc_t who;
  PMIX_LOAD_PROCID(&who, proc.nspace, rank);
  pmix_value_t *value = nullptr;
  must(PMIx_Get(&who, key, nullptr, 0, &value), key);
  return value;
}

uint32_t get_uint32(pmix_rank_t rank, const char *key) {
  pmix_value_t *value = get(rank, key);
  uint32_t n = 0;
  pmix_status_t status = PMIX_SUCCESS;
  PMIX_VALUE_GET_NUMBER(status, value, n, uint32_t);
  must(status, key);
  PMIX_VALUE_RELEASE(value);
  return n;
}

} // namespace

bool launched() {
  return getenv("PMIX_NAMESPACE") != nullptr;
}

Place join() {
  if (!launched()) return {0, 1, 0, 1};
  must(PMIx_Init(&proc, nullptr, 0), "PMIx_Init: the launcher does not answer");
  joined = true;
  Place place;
  place.me = int(proc.rank);
  place.n = int(get_uint32(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE));
  place.local = int(get_uint32(proc.rank, PMIX_LOCAL_RANK));
  place.n_local = int(get_uint32(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE));
  pmix_value_t *peers = get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
  PMIX_LOAD_PROCID(&leader, proc.nspace, pmix_rank_t(strtoul(peers->data.string, nullptr, 10)));
  PMIX_VALUE_RELEASE(peers);
  return place;
}

void tell(const char *text) {
  if (!joined) return;
  pmix_value_t value;
  PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
  must(PMIx_Put(PMIX_LOCAL, "shmem.segment", &value), "PMIx_Put");
  PMIX_VALUE_DESTRUCT(&value);
  must(PMIx_Commit(), "PMIx_Commit");
}

// No fence: the get waits at the launcher until the leader has committed, which costs one message
// instead of a round of all.
void hear(char *text, int length) {
  pmix_value_t *value = nullptr;
  must(PMIx_Get(&leader, "shmem.segment", nullptr, 0, &value), "PMIx_Get of the segment");
  strncpy(text, value->data.string, length - 1);
  text[length - 1] = '\0';
  PMIX_VALUE_RELEASE(value);
}

void leave() {
  if (!joined) return;
  joined = false;
  PMIx_Finalize(nullptr, 0);
}

} // namespace shmem::bootstrap
